"""Where a model sees an answer begin and end: the two numbers of every token of a passage, as shares of all.

A token that stands in several windows has the highest of its numbers, as the search for the best stretch has it. Where
the model may be silent, silence takes part in the shares.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.config import from_dict, to_dict
from regard.tasks.answer import Answer, Answerer
from regard.tasks.settings import SpanConfig
from regard.views.spans import Candidate, Mark, SpanMarks, spans_view
from regard.views.view import View


def answer_view(answerer: Answerer, question: str, passage: str, **settings: Any) -> View:
    """A view of an answer in its passage; `settings` are those of the answerer's call."""
    config = from_dict(SpanConfig, {**to_dict(answerer.config), **settings})
    answer = answerer(question, passage, **settings)
    (reading,) = answerer.readings([(question, passage)], stride=config.stride)
    numbers = np.full((len(reading.passage.ids), 2), -np.inf)
    (outputs,) = answerer.outputs([reading])
    for window, output in zip(reading.windows, outputs, strict=True):
        place, held = window.row.first, slice(window.first, window.first + window.tokens)
        numbers[held] = np.maximum(numbers[held], output[place : place + window.tokens])
    silence = np.min([output[0] for output in outputs], axis=0) if config.threshold is not None else None
    shares = _shares(numbers, silence)
    places = zip(reading.passage.begins.tolist(), reading.passage.ends.tolist(), shares.tolist(), strict=True)
    found = SpanMarks(
        question=question,
        passage=passage,
        marks=[Mark(start=start, end=end, begins=begins, ends=ends) for start, end, (begins, ends) in places],
        candidates=_candidates(answer),
    )
    return spans_view(found, note=f"{answerer!r}")


def _shares(numbers: np.ndarray[Any, Any], silence: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
    """Softmax over the tokens, of the beginnings and of the ends."""
    rows = numbers if silence is None else np.vstack([numbers, silence])
    weights = np.exp(rows - rows.max(axis=0))
    shares: np.ndarray[Any, Any] = (weights / weights.sum(axis=0))[: len(numbers)]
    return shares


def _candidates(answer: Answer) -> list[Candidate]:
    """The best stretches; before them silence, where that is the answer."""
    found = [Candidate(start=one.start, end=one.end, probability=one.probability) for one in answer.best]
    if not answer.text:
        return [Candidate(start=0, end=0, probability=answer.probability), *found]
    return found
