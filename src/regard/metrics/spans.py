"""Exact match and F1 of answers, by the definitions of SQuAD v1.1 and v2.

Answers are compared without case, punctuation, articles and extra white space. Of several gold answers the best match
counts. In v2 a question may have no answer: then the empty answer is right. A model gives no answer where its
certainty that there is none exceeds a threshold; the official script also reports the scores at the best threshold.
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

Golds = Mapping[str, Sequence[str]]  # question id → the gold answers; none where a question has no answer


def normalize(answer: str) -> str:
    """An answer as it is compared: "The  Eiffel Tower!" → "eiffel tower"."""
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_NO_PUNCTUATION)).split())


def exact_match(answer: str, golds: Sequence[str]) -> float:
    """1 if the answer is one of `golds`, else 0. Without golds the right answer is the empty one."""
    return float(normalize(answer) in map(normalize, golds or [""]))


def overlap_f1(answer: str, golds: Sequence[str]) -> float:
    """Word overlap of the answer and the best of `golds`, 0 to 1; without golds the empty answer is right."""
    given = normalize(answer).split()
    if not golds:
        return float(not given)
    return max(_f1(given, normalize(gold).split()) for gold in golds)


def _f1(given: list[str], actual: list[str]) -> float:
    return 2 * (Counter(given) & Counter(actual)).total() / max(1, len(given) + len(actual))


@dataclass(frozen=True)
class AnswerScores:
    """Both scores in percent; for v2 also separately for questions with and without an answer."""

    exact: Score
    f1: Score
    with_answer: tuple[float, float] | None = None  # exact and F1 of the questions that have one
    without_answer: tuple[float, float] | None = None
    unanswered: int = 0  # questions without a prediction: they count as wrong

    def __repr__(self) -> str:
        return f"{self.exact!r}, {self.f1!r}"


def score_answers(predicted: Mapping[str, str], golds: Golds) -> AnswerScores:
    """The scores of `predicted`, by question id. A question without a prediction counts as wrong.

    The definition is that of v2 if some question has no answer, else that of v1.1. They differ for gold answers such
    as "The", which normalizing makes empty: v2 ignores them.
    """
    _check(predicted, golds)
    answerable = [name for name in golds if golds[name]]
    v2 = len(answerable) < len(golds)
    found = {
        name: _pair(predicted[name], texts, v2=v2) if name in predicted else (0.0, 0.0) for name, texts in golds.items()
    }
    exact, f1 = _means(list(found.values()))
    both = v2 and answerable
    signature = f"squad:{'v2' if v2 else 'v1.1'}|n:{len(golds)}"
    return AnswerScores(
        Score("exact match", exact, signature),
        Score("F1", f1, signature),
        with_answer=_means([found[name] for name in answerable]) if both else None,
        without_answer=_means([found[name] for name in golds if not golds[name]]) if both else None,
        unanswered=len(golds.keys() - predicted.keys()),
    )


def _pair(answer: str, golds: Sequence[str], *, v2: bool) -> tuple[float, float]:
    texts = [gold for gold in golds if normalize(gold)] if v2 else golds
    return exact_match(answer, texts), overlap_f1(answer, texts)


def _means(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    exact = sum(one for one, _ in pairs)
    f1 = sum(other for _, other in pairs)
    return 100 * exact / len(pairs), 100 * f1 / len(pairs)


class Threshold(NamedTuple):
    """The certainty above which no answer is given, and the score in percent at this threshold."""

    value: float
    score: float


def best_thresholds(
    predicted: Mapping[str, str], null_score_diff: Mapping[str, float], golds: Golds
) -> tuple[Threshold, Threshold]:
    """The best thresholds for exact match and for F1.

    `predicted` are the answers of a model that always answers, `null_score_diff` its certainty that there is none. A
    question whose certainty is at most the threshold keeps its answer. The search is the official one: it starts with
    no question answered and adds questions one by one, the least certain first. The official start is a threshold of
    0, since certainties are probabilities there; where some are not above 0, it is below the lowest.
    """
    _check(predicted, golds)
    missing = [name for name in golds if name not in predicted or name not in null_score_diff]
    if missing:
        raise UsageError(
            f"question {missing[0]!r} has no prediction or no null_score_diff.", argument="predicted", value=missing[0]
        )
    order = sorted((name for name in null_score_diff if name in golds), key=lambda name: null_score_diff[name])
    return _best(0, order, predicted, null_score_diff, golds), _best(1, order, predicted, null_score_diff, golds)


def _best(
    which: int, order: Sequence[str], predicted: Mapping[str, str], null_score_diff: Mapping[str, float], golds: Golds
) -> Threshold:
    current = best = float(sum(not texts for texts in golds.values()))
    lowest = null_score_diff[order[0]]
    threshold = 0.0 if lowest > 0 else lowest - 1
    for name in order:
        if golds[name]:
            current += _pair(predicted[name], golds[name], v2=True)[which]
        elif predicted[name]:
            current -= 1
        if current > best:
            best, threshold = current, null_score_diff[name]
    return Threshold(threshold, 100 * best / len(golds))


def first_sentence(passage: str) -> str:
    """The answer of a baseline that ignores the question: the passage up to the end of its first sentence."""
    end = re.search(r"(?<=[.!?])\s", passage)
    return passage[: end.start()] if end else passage


def _check(predicted: Mapping[str, str], golds: Golds) -> None:
    if not golds:
        raise UsageError("there are no questions to score: give at least one with its gold answers.", argument="golds")
    strange = [name for name in predicted if name not in golds]
    if strange:
        raise UsageError(
            f"question {strange[0]!r} has a prediction, but is not among the {len(golds)} gold questions.",
            argument="predicted",
            value=strange[0],
        )
