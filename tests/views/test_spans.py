"""The view of an answer in its passage: its data, its still picture, and errors."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from regard.utils.errors import UsageError
from regard.views.tokens import Mark, SpanCandidate, SpanMarks, spans_view

PASSAGE = "Ada <wrote> 🙂 it."


def marks(**changes: object) -> SpanMarks:
    tokens = [(0, 3, 0.1, 0.0), (4, 11, 0.9, 0.2), (12, 13, 0.0, 0.8), (14, 17, 0.0, 0.0)]
    found = {
        "question": "Who & what?",
        "passage": PASSAGE,
        "marks": [Mark(start=a, end=b, begins=c, ends=d) for a, b, c, d in tokens],
        "candidates": [
            SpanCandidate(start=4, end=13, probability=0.72),
            SpanCandidate(start=0, end=0, probability=0.1),
        ],
    }
    return SpanMarks(**{**found, **changes})  # type: ignore[arg-type]


def test_data_hold_every_token_and_every_candidate() -> None:
    data = spans_view(marks()).data
    assert data["marks"][1] == [4, 11, 0.9, 0.2]
    assert data["candidates"] == [[4, 13, 0.72], [0, 0, 0.1]]
    assert PASSAGE[data["candidates"][0][0] : data["candidates"][0][1]] == "<wrote> 🙂"


def test_m159_the_picture_has_a_bar_over_and_under_each_token() -> None:
    tree = ElementTree.fromstring(spans_view(marks()).svg().encode())
    boxes = [node for node in tree.iter("{http://www.w3.org/2000/svg}rect") if node.get("fill") != "#ffffff"]
    heights = {
        fill: [float(b.get("height", 0)) for b in boxes if b.get("fill") == fill] for fill in ("#d97200", "#4a3fc0")
    }
    assert heights["#d97200"] == pytest.approx([1.6, 14.4, 0, 0])
    assert heights["#4a3fc0"] == pytest.approx([0, 3.2, 12.8, 0])
    assert sum(box.get("fill") == "#fbe9b7" for box in boxes) == 2  # the two tokens of the answer
    texts = [node.text for node in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[:2] == ["Who & what?", "<wrote> 🙂 · 72.0%"]


def test_tokens_may_share_a_character() -> None:
    tokens = [(0, 3), (4, 5), (4, 5), (4, 11), (12, 13)]
    found = marks(marks=[Mark(start=start, end=end, begins=0.1, ends=0.1) for start, end in tokens])
    assert [mark[:2] for mark in spans_view(found).data["marks"]] == [list(token) for token in tokens]
    assert spans_view(found).svg().count("#d97200") == 5


def test_no_answer_is_shown() -> None:
    assert "(no answer)" in spans_view(marks(candidates=[SpanCandidate(start=0, end=0, probability=0.6)])).svg()


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("candidates", []),
        ("marks", []),
        ("marks", [(0, 99)]),
        ("marks", [(4, 11), (0, 3)]),
        ("marks", [(0, 11), (4, 7)]),
        ("marks", [(3, 2)]),
        ("marks", [(-1, 2)]),
    ],
)
def test_marks_must_be_in_order_inside_the_passage(argument: str, value: list[tuple[int, int]]) -> None:
    with pytest.raises(UsageError) as error:
        marks(**{argument: [Mark(start=start, end=end, begins=0, ends=0) for start, end in value]})
    assert error.value.argument == argument
