"""Where a question-answering model sees an answer start and end: the two probabilities of every token of a passage.

A token in several windows has its highest logits, as in the search for the best span. Where "no answer" is allowed, it
takes part in the probabilities.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.tasks.answer.predictor import Answer, QuestionAnswerer
from regard.views.spans import Candidate, Mark, SpanMarks


def span_marks(predictor: QuestionAnswerer, question: str, passage: str) -> SpanMarks:
    """The start and end probabilities of all tokens of a passage, with the best answers."""
    config = predictor.config
    (answer,) = predictor.predict([(question, passage)])
    (encoded,) = predictor.encode([(question, passage)], stride=config.stride)
    (outputs,) = predictor.logits([encoded])
    logits = np.full((len(encoded.passage.ids), 2), -np.inf)
    for window, output in zip(encoded.windows, outputs, strict=True):
        place, tokens = window.example.first, slice(window.first, window.first + window.num_tokens)
        logits[tokens] = np.maximum(logits[tokens], output[place : place + window.num_tokens])
    null = np.min([output[0] for output in outputs], axis=0) if config.no_answer_threshold is not None else None
    places = zip(encoded.passage.starts.tolist(), encoded.passage.ends.tolist(), _softmax(logits, null), strict=True)
    return SpanMarks(
        question=question,
        passage=passage,
        marks=[Mark(start=start, end=end, begins=begins, ends=ends) for start, end, (begins, ends) in places],
        candidates=_candidates(answer),
    )


def _softmax(logits: np.ndarray[Any, Any], null: np.ndarray[Any, Any] | None) -> list[list[float]]:
    """Softmax over the tokens, of the start and of the end logits."""
    rows = logits if null is None else np.vstack([logits, null])
    weights = np.exp(rows - rows.max(axis=0))
    probabilities: list[list[float]] = (weights / weights.sum(axis=0))[: len(logits)].tolist()
    return probabilities


def _candidates(answer: Answer) -> list[Candidate]:
    """The best spans; before them "no answer", where that is the answer."""
    found = [Candidate(start=span.start, end=span.end, probability=span.score) for span in answer.best]
    if not answer.text:
        return [Candidate(start=0, end=0, probability=answer.score), *found]
    return found
