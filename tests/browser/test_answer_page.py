"""The answer view in a real browser: the answer is marked in its passage, and a click shows another candidate."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.views.tokens import Mark, SpanCandidate, SpanMarks, spans_view

PASSAGE = "🙂 Ada <i>wrote</i> it\nin 1843."


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    places = [(0, 1), (2, 5), (6, 18), (19, 21), (22, 24), (25, 29), (29, 30)]
    marks = [Mark(start=a, end=b, begins=0.5 * (a == 2), ends=0.25 * (b == 29)) for a, b in places]
    candidates = [
        SpanCandidate(start=a, end=b, probability=p) for a, b, p in ((2, 18, 0.6), (25, 29, 0.3), (0, 0, 0.1))
    ]
    found = SpanMarks(question="Who <b>did</b>?", passage=PASSAGE, marks=marks, candidates=candidates)
    return spans_view(found, note="a note").save(tmp_path / "answer.html")


def answer(page: Any) -> list[str]:
    return [str(text) for text in page.locator(".mark.answer").all_inner_texts()]


def test_m160_the_answer_is_marked_and_others_are_a_click_away(open_page: Callable[..., Any], saved: Path) -> None:
    page = open_page(saved)
    assert page.locator("h1").inner_text() == "Who <b>did</b>?"
    assert page.locator(".passage").evaluate("node => node.textContent") == PASSAGE
    assert answer(page) == ["Ada", "<i>wrote</i>"]
    assert page.locator(".candidate .said").all_inner_texts() == ["Ada <i>wrote</i>", "1843", "no answer"]
    page.locator(".candidate").nth(1).click()
    assert answer(page) == ["1843"]
    page.locator(".candidate").nth(2).click()
    assert answer(page) == []


def test_m159_every_token_has_two_bars(open_page: Callable[..., Any], saved: Path) -> None:
    page = open_page(saved)
    height = "nodes => nodes.map(node => Math.round(node.getBoundingClientRect().height))"
    assert page.locator(".mark .begins").evaluate_all(height) == [0, 8, 0, 0, 0, 0, 0]
    assert page.locator(".mark .ends").evaluate_all(height) == [0, 0, 0, 0, 0, 4, 0]
    page.locator(".mark").nth(1).focus()
    report = page.locator(".mark-report")
    assert report.locator(".token").inner_text() == "Ada"
    assert re.findall(r"\d+\.\d+", report.inner_text()) == ["50.0", "0.0"], "percent for the start and for the end"
