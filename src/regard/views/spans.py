"""A passage with start and end probabilities of an answer at each token → a View, with the best candidates."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

from regard.utils.errors import UsageError
from regard.views.picture import INK, MUTED, Picture, shown, text_width
from regard.views.view import View

BEGINS, ENDS, ANSWER = "#d97200", "#4a3fc0", "#fbe9b7"


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A token of the passage: its characters, and the probabilities that the answer starts and ends with it."""

    start: int
    end: int
    begins: float
    ends: float


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A span of the passage that may be the answer; an empty span means no answer."""

    start: int
    end: int
    probability: float


@dataclass(frozen=True, kw_only=True)
class SpanMarks:
    """A question, its passage, the marks of all tokens in their order, and the candidates, the answer first."""

    question: str
    passage: str
    marks: Sequence[Mark]
    candidates: Sequence[Candidate]

    def numbers(self) -> dict[str, Any]:
        """All numbers, as JSON values."""
        return {
            "marks": [dataclasses.asdict(mark) for mark in self.marks],
            "candidates": [
                {"text": self.passage[candidate.start : candidate.end], **dataclasses.asdict(candidate)}
                for candidate in self.candidates
            ],
        }

    def __post_init__(self) -> None:
        if not self.marks or not self.candidates:
            raise UsageError("a view of answers needs at least one token and one candidate.")
        # Tokens may share a character, as where "½" is read as "1⁄2".
        edges = [(0, 0), *((mark.start, mark.end) for mark in self.marks), (len(self.passage),) * 2]
        ordered = all(one[0] <= other[0] and one[1] <= other[1] for one, other in pairwise(edges))
        if not ordered or any(start > end for start, end in edges):
            raise UsageError("the marks of a view of answers must follow each other inside the passage.")


def spans_view(found: SpanMarks, *, note: str = "") -> View:
    """A view of one question and its answer."""
    data = {
        "title": found.question,
        "note": note,
        "passage": found.passage,
        "marks": [[mark.start, mark.end, round(mark.begins, 5), round(mark.ends, 5)] for mark in found.marks],
        "candidates": [[one.start, one.end, round(one.probability, 5)] for one in found.candidates],
    }
    return View("spans", data, found.question, partial(_draw, found))


def _draw(found: SpanMarks) -> Picture:
    """The passage in lines: above each token its start probability, below it its end probability."""
    margin, width, line, size, bar = 24, 900, 62, 15, 16
    answer = found.candidates[0]
    x, y = float(margin), 120.0
    placed = []
    for mark in found.marks:
        label = shown(found.passage[mark.start : mark.end], 40)
        room = text_width(label, size) + 4
        if x + room > width - margin and x > margin:
            x, y = float(margin), y + line
        placed.append((mark, x, y, room, label))
        x += room + 4
    picture = Picture(width, y + 62, found.question)
    picture.text(margin, 40, found.question, size=18, weight=600)
    said = found.passage[answer.start : answer.end] or "(no answer)"
    picture.text(margin, 66, f"{shown(said, 80)} · {answer.probability:.1%}", fill=MUTED)
    for mark, left, top, room, label in placed:
        if answer.start <= mark.start and mark.end <= answer.end and mark.end > mark.start:
            picture.rectangle(left - 2, top - 15, room + 4, 22, fill=ANSWER)
        picture.rectangle(left, top - 17 - bar * mark.begins, room, bar * mark.begins, fill=BEGINS)
        picture.rectangle(left, top + 9, room, bar * mark.ends, fill=ENDS)
        picture.text(left + 2, top, label, size=size, fill=INK)
    legend = "orange, above: probability that the answer starts here; violet, below: that it ends here"
    picture.text(margin, y + 48, legend, size=12, fill=MUTED)
    return picture
