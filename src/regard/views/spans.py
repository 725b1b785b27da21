"""A passage with start and end probabilities of an answer at each token → a View, with the best candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from regard.utils.errors import UsageError
from regard.views.picture import MUTED, Picture, text_width, visible_text
from regard.views.view import View

START_COLOR, END_COLOR, ANSWER_COLOR = "#d97200", "#4a3fc0", "#fbe9b7"


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
    """A question, its passage, a mark for each token, and the candidates, best first."""

    question: str
    passage: str
    marks: Sequence[Mark]
    candidates: Sequence[Candidate]

    def __post_init__(self) -> None:
        for name, values in (("marks", self.marks), ("candidates", self.candidates)):
            if not values:
                raise UsageError(f"a view of an answer needs {name}; there are none.", argument=name)
        # Tokens may share a character: "½" is read as "1⁄2".
        edges = [(0, 0), *((mark.start, mark.end) for mark in self.marks), (len(self.passage),) * 2]
        is_ordered = all(a[0] <= b[0] and a[1] <= b[1] for a, b in pairwise(edges))
        if not is_ordered or any(start > end for start, end in edges):
            message = "the marks of an answer must be in order and inside the passage."
            raise UsageError(message, argument="marks", value=edges[1:-1])

    def numbers(self) -> dict[str, Any]:
        """All numbers, as JSON values."""
        candidates = [{"text": self.passage[c.start : c.end], **asdict(c)} for c in self.candidates]
        return {"marks": [asdict(mark) for mark in self.marks], "candidates": candidates}


def spans_view(answer: SpanMarks, *, note: str = "") -> View:
    """A view of one question and its answer."""
    data = {
        "passage": answer.passage,
        "marks": [[mark.start, mark.end, round(mark.begins, 5), round(mark.ends, 5)] for mark in answer.marks],
        "candidates": [[c.start, c.end, round(c.probability, 5)] for c in answer.candidates],
    }
    return View("spans", data, answer.question, _draw, numbers=answer.numbers, note=note)


def _draw(data: dict[str, Any]) -> Picture:
    """The passage in lines: above each token its start probability, below it its end probability."""
    margin, width, line, size, bar = 24, 900, 62, 15, 16
    passage, (answer_start, answer_end, probability) = data["passage"], data["candidates"][0]
    x, y = float(margin), 120.0
    boxes = []
    for start, end, *probabilities in data["marks"]:
        label = visible_text(passage[start:end], 40)
        box_width = text_width(label, size) + 4
        if x + box_width > width - margin and x > margin:
            x, y = float(margin), y + line
        boxes.append((answer_start <= start < end <= answer_end, *probabilities, x, y, box_width, label))
        x += box_width + 4
    picture = Picture(width, y + 62, data["title"])
    answer = visible_text(passage[answer_start:answer_end] or "(no answer)", 80)
    picture.heading(margin, f"{answer} · {probability:.1%}")
    for is_answer, starts, ends, left, top, box_width, label in boxes:
        if is_answer:
            picture.rectangle(left - 2, top - 15, box_width + 4, 22, fill=ANSWER_COLOR)
        picture.rectangle(left, top - 17 - bar * starts, box_width, bar * starts, fill=START_COLOR)
        picture.rectangle(left, top + 9, box_width, bar * ends, fill=END_COLOR)
        picture.text(left + 2, top, label, size=size)
    legend = "orange, above: probability that the answer starts here; violet, below: that it ends here"
    picture.text(margin, y + 48, legend, size=12, fill=MUTED)
    return picture
