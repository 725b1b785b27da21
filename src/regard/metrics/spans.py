"""Exact match and F1 of answers, by the definitions of SQuAD v1.1 and v2.

Answers are compared without case, punctuation, articles and extra white space. If a question has several gold answers,
the best match counts. In v2 a question may have no answer; then the empty answer is correct. A model gives no answer if
its score for "no answer" exceeds a threshold. Like the official script, `best_thresholds` finds the best threshold.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from regard.metrics.score import Score
from regard.utils.errors import UsageError

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)

Golds = Mapping[str, Sequence[str]]  # question id → gold answers; empty if the question has no answer


def normalize(answer: str) -> str:
    """Normalize an answer for comparison: "The Eiffel Tower!" → "eiffel tower"."""
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_NO_PUNCTUATION)).split())


def exact_match(answer: str, golds: Sequence[str]) -> float:
    """1 if the answer equals one of `golds`, else 0. Without golds the empty answer is correct."""
    return float(normalize(answer) in map(normalize, golds or [""]))


def overlap_f1(answer: str, golds: Sequence[str]) -> float:
    """The best F1 of the answer's words and those of a gold answer. Without golds the empty answer is correct."""
    words = normalize(answer).split()
    if not golds:
        return float(not words)
    references = [normalize(gold).split() for gold in golds]
    return max(2 * (Counter(words) & Counter(gold)).total() / max(1, len(words) + len(gold)) for gold in references)


@dataclass(frozen=True)
class AnswerScores:
    """Exact match and F1 in percent; for v2 also separately for questions with and without an answer."""

    exact: Score
    f1: Score
    with_answer: tuple[float, float] | None = None  # exact match and F1
    without_answer: tuple[float, float] | None = None

    def __repr__(self) -> str:
        return f"{self.exact!r}, {self.f1!r}"


def score_answers(predicted: Mapping[str, str], golds: Golds) -> AnswerScores:
    """The scores of `predicted`, by question id. A question without a prediction counts as wrong.

    The definition is that of v2 if any question has no answer, else that of v1.1. The two definitions differ for gold
    answers such as "The", which are empty after normalization: v2 ignores them.
    """
    _check(predicted, golds)
    v2 = not all(golds.values())
    pairs = {
        name: _pair(predicted[name], texts, v2=v2) if name in predicted else (0.0, 0.0) for name, texts in golds.items()
    }
    exact, f1 = _means(list(pairs.values()))
    answerable = [pair for name, pair in pairs.items() if golds[name]]
    unanswerable = [pair for name, pair in pairs.items() if not golds[name]]
    has_both = answerable and unanswerable
    signature = f"squad:{'v2' if v2 else 'v1.1'}|n:{len(golds)}"
    return AnswerScores(
        Score("exact match", exact, signature),
        Score("F1", f1, signature),
        with_answer=_means(answerable) if has_both else None,
        without_answer=_means(unanswerable) if has_both else None,
    )


def _pair(answer: str, golds: Sequence[str], *, v2: bool) -> tuple[float, float]:
    texts = [gold for gold in golds if normalize(gold)] if v2 else golds
    return exact_match(answer, texts), overlap_f1(answer, texts)


def _means(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    exact, f1 = (100 * sum(values) / len(pairs) for values in zip(*pairs, strict=True))
    return exact, f1


class Threshold(NamedTuple):
    """No answer is given if `null_score_diff` exceeds `value`; `score` is the score in percent at this threshold."""

    value: float
    score: float


def best_thresholds(
    predicted: Mapping[str, str], null_score_diff: Mapping[str, float], golds: Golds
) -> tuple[Threshold, Threshold]:
    """The best thresholds for exact match and for F1.

    `predicted` has an answer for each question, `null_score_diff` the score of "no answer" minus that of the answer. As
    in the official script, the search starts with no answers and adds the answers in ascending order of
    `null_score_diff`. The official script starts at the threshold 0, because it uses probabilities; if any
    `null_score_diff` is 0 or less, this search starts below the lowest one.
    """
    _check(predicted, golds)
    for name in golds:
        if name not in predicted or name not in null_score_diff:
            message = f"question {name!r} has no prediction or no null_score_diff."
            raise UsageError(message, argument="predicted", value=name)
    order = sorted((name for name in null_score_diff if name in golds), key=lambda name: null_score_diff[name])
    lowest = null_score_diff[order[0]]
    thresholds = []
    for metric in (0, 1):  # exact match, F1
        total = best = float(sum(not texts for texts in golds.values()))
        threshold = 0.0 if lowest > 0 else lowest - 1
        for name in order:
            if golds[name]:
                total += _pair(predicted[name], golds[name], v2=True)[metric]
            elif predicted[name]:
                total -= 1
            if total > best:
                best, threshold = total, null_score_diff[name]
        thresholds.append(Threshold(threshold, 100 * best / len(golds)))
    return thresholds[0], thresholds[1]


def first_sentence(passage: str) -> str:
    """A baseline that ignores the question: the passage up to the end of its first sentence."""
    return re.split(r"(?<=[.!?])\s", passage, maxsplit=1)[0]


def _check(predicted: Mapping[str, str], golds: Golds) -> None:
    if not golds:
        raise UsageError("golds is empty. Give at least one question with its gold answers.", argument="golds")
    for name in predicted:
        if name not in golds:
            message = f"predicted has question {name!r}, which is not among the {len(golds):,} gold questions."
            raise UsageError(message, argument="predicted", value=name)
