"""The transfer curve in a real browser: two curves with whiskers on a logarithmic axis, and a table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.views.studies import Transfer, transfer_view


def test_m148_the_page(open_page: Callable[..., Any], tmp_path: Path) -> None:
    transfer = Transfer(
        metric="accuracy", sizes=(100, 1000, 67349), seeds=2, pretrained=((70, 72), (80, 81), (90, 91)),
        scratch=((50, 54), (60, 63), (80, 82)), majority=50.9, held_out=872,
    )  # fmt: skip
    page = open_page(transfer_view(transfer, title="Worth").save(tmp_path / "t.html"))
    assert page.locator("figure.chart path.curve").count() == 3
    assert page.locator(".whisker").count() == 6
    assert page.locator(".axis-text[text-anchor=middle]").all_text_contents() == ["100", "1000", "67.35K"]
    places = [float(x.get_attribute("x")) for x in page.locator(".axis-text[text-anchor=middle]").all()]
    assert places[1] - places[0] == pytest.approx((places[2] - places[0]) * 1 / 2.82836, rel=1e-3), "a logarithmic axis"
    assert page.locator("tbody tr").last.inner_text().split() == [
        "67,349", "81.00", "±", "1.41", "90.50", "±", "0.71", "+9.50",
    ]  # fmt: skip
