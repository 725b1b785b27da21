"""The inputs view of BERT in a real browser: one column per token; the vectors of the selected token add up."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.views.tokens import InputSums, inputs_view


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    tokens = ["[CLS]", "<b>my", "##dog", "[SEP]", "he", "[SEP]"]
    parts = [np.random.default_rng(seed).normal(size=(6, 20)).astype(np.float32) for seed in range(3)]
    total = parts[0] + parts[1] + parts[2]
    found = InputSums(tokens, [1, 5, 6, 2, 7, 2], [0, 0, 0, 0, 1, 1], *parts, total, total / 2)
    return inputs_view(found, title="my<i>dog / he").save(tmp_path / "inputs.html")


def test_m145_a_column_for_each_token(open_page: Callable[..., Any], saved: Path) -> None:
    page = open_page(saved)
    assert page.locator("h1").inner_text() == "my<i>dog / he"
    assert page.locator(".input-token bdi").all_inner_texts() == ["[CLS]", "<b>my", "##dog", "[SEP]", "he", "[SEP]"]
    assert page.locator(".input-token.segment-b").count() == 2
    assert page.locator(".vector canvas").count() == 5 * 6
    symbols = page.locator('.inputs-figure [data-row="segment"] .symbol').all_inner_texts()
    assert symbols == ["EA", "EA", "EA", "EA", "EB", "EB"]
    assert re.findall(r"segment ([AB])", page.locator(".note").first.inner_text()) == ["A", "B"]


def test_m145_the_numbers_of_a_token_add_up(open_page: Callable[..., Any], saved: Path) -> None:
    page = open_page(saved)
    page.locator(".input-token").nth(4).focus()
    heading = page.locator(".input-sum h2")
    assert heading.locator("bdi").inner_text() == "he"
    assert re.findall(r"\d+", heading.inner_text()) == ["7", "4"], "id and position"

    def row(name: str) -> list[float]:
        cells = page.locator(f'.input-sum [data-row="{name}"] td').all_inner_texts()
        return [float(cell.replace("−", "-")) for cell in cells]

    parts = np.array([row("token"), row("segment"), row("position")])
    assert row("sum") == pytest.approx(parts.sum(axis=0), abs=4e-3)
    assert len(row("sum")) == 10
    page.keyboard.press("ArrowLeft")
    assert heading.locator("bdi").inner_text() == "[SEP]"
    assert re.findall(r"\d+", heading.inner_text()) == ["2", "3"]


def test_a_dark_theme_and_a_small_screen(open_page: Callable[..., Any], saved: Path) -> None:
    page = open_page(saved, dark=True, width=380)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator(".vector canvas").count() == 30
