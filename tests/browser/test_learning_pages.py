"""The views of causal training and of value ranks in a real browser: what they draw, and what a hovered row shows."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.views.studies import Ranks, ranks_view
from regard.views.tokens import CausalTraining, causal_view

TOKENS = ["The", "Ġcat", "<b>s</b>", "leeps", "."]


@pytest.mark.parametrize("dark", [False, True])
def test_m95_the_triangle(open_page: Callable[..., Any], tmp_path: Path, dark: bool) -> None:
    training = CausalTraining(tokens=TOKENS, mask=np.tri(5, dtype=bool), losses=[2.0, 1.0, 0.5, 0.0])
    page = open_page(causal_view(training, title="The cat <b>s</b>leeps.").save(tmp_path / "c.html"), dark=dark)
    rows = page.locator(".causal tbody tr")
    assert rows.count() == 5
    for place in range(5):
        row = rows.nth(place)
        assert row.locator(".cell.seen, .cell.self").count() == place + 1
        assert row.locator(".cell.hidden-cell").count() == 4 - place
    targets = [text.strip() for text in page.locator("td.target:not(.none)").all_inner_texts()]
    assert targets == ["·cat", "<b>s</b>", "leeps", "."]
    assert rows.nth(4).locator("td.target.none").count() == 1
    readout = page.locator(".causal-readout")
    rows.nth(1).hover()
    assert readout.locator(".causal-given").all_inner_texts() == ["The", "·cat"]
    assert readout.locator(".causal-target").inner_text() == "<b>s</b>"
    assert re.findall(r"[\d.]*\d", readout.inner_text()) == ["1", "2", "36.8", "1.000"], (
        "position, tokens, percent, loss"
    )
    rows.nth(4).focus()
    assert readout.locator(".causal-given").count() == 5
    assert readout.locator(".causal-target").count() == 0


def test_m119_spectra_and_losses(open_page: Callable[..., Any], tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    spectra = {f"decoder.{i}.self": -np.sort(-random.random((3, 7)), axis=1) for i in range(2)}
    ranks = Ranks(
        d_model=21,
        head_dim=7,
        spectra=spectra,
        ranks={address: [7, 7, 6] for address in spectra},
        losses={0: 3.0, 1: 2.5, 2: 2.2, 4: 2.1, 7: 2.0},
    )
    page = open_page(ranks_view(ranks, title="A text").save(tmp_path / "r.html"))
    assert {"294", "441", "7"} <= set(re.findall(r"\d+", page.locator(".note").inner_text())), "sizes and the rank"
    charts = page.locator("figure.chart")
    assert charts.count() == 2
    assert charts.first.locator("path.curve").count() == 3
    assert charts.nth(1).locator(".axis-caption").text_content() == "rank"
    # Curves are lines in the colours of the charts, and not filled shapes.
    assert charts.first.locator("path.curve").first.evaluate("e => getComputedStyle(e).fill") == "none"
    page.locator('[data-choice="attention"] label').nth(1).click()
    assert "decoder.1.self" in page.locator("figure.chart h3").first.inner_text()
