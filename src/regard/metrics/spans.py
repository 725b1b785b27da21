"""Exact match and F1 of answers, by the definitions of SQuAD v1.1 and v2.

Answers are compared without case, punctuation, articles and surplus white space. Of several gold answers the one that
suits best counts. In v2 a question may have no answer: then the empty answer is the right one, and how sure a reader
must be before it stays silent is a threshold, whose best value the official program looks up afterwards.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from regard.errors import UsageError
from regard.metrics.score import Score

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)

Golds = Mapping[str, Sequence[str]]  # question id → the gold answers; none where a question has no answer


def normalise(answer: str) -> str:
    """An answer as it is compared: "The  Eiffel Tower!" → "eiffel tower"."""
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_NO_PUNCTUATION)).split())


def exact_match(answer: str, golds: Sequence[str]) -> float:
    """1 if the answer is one of `golds`, else 0. Without golds the right answer is the empty one."""
    return float(normalise(answer) in map(normalise, golds or [""]))


def overlap_f1(answer: str, golds: Sequence[str]) -> float:
    """How much the words of the answer and of the best of `golds` overlap, 0 to 1; without golds silence is right."""
    given = normalise(answer).split()
    if not golds:
        return float(not given)
    return max(_f1(given, normalise(gold).split()) for gold in golds)


def _f1(given: list[str], due: list[str]) -> float:
    return 2 * (Counter(given) & Counter(due)).total() / max(1, len(given) + len(due))


@dataclass(frozen=True)
class AnswerScores:
    """Both scores in hundredths; of v2 also apart for questions with and without an answer."""

    exact: Score
    f1: Score
    with_answer: tuple[float, float] | None = None  # exact and F1 of the questions that have one
    without_answer: tuple[float, float] | None = None
    unanswered: int = 0  # questions that the predictions leave out: they count as wrong

    def __repr__(self) -> str:
        return f"{self.exact!r}, {self.f1!r}"


def score_answers(predicted: Mapping[str, str], golds: Golds) -> AnswerScores:
    """The scores of `predicted`, by question id. A question without a prediction counts as wrong.

    The definition is that of v2 if some question has no answer, else that of v1.1. They differ for gold answers such
    as "The", of which normalising leaves nothing: v2 leaves them out.
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
    texts = [gold for gold in golds if normalise(gold)] if v2 else golds
    return exact_match(answer, texts), overlap_f1(answer, texts)


def _means(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    exact = sum(one for one, _ in pairs)
    f1 = sum(other for _, other in pairs)
    return 100 * exact / len(pairs), 100 * f1 / len(pairs)


class Threshold(NamedTuple):
    """How sure of "no answer" a reader must be to give none, and the score in hundredths that this gives."""

    value: float
    score: float


def best_thresholds(
    predicted: Mapping[str, str], no_answer: Mapping[str, float], golds: Golds
) -> tuple[Threshold, Threshold]:
    """The best thresholds for exact match and for F1.

    `predicted` are the answers of a reader that always answers, `no_answer` how sure it is that there is none. A
    question whose certainty is at most the threshold keeps its answer. The search is the official one: questions are
    let in one by one, the least certain first, beginning with all of them silent. Officially that is a threshold of 0,
    since certainties are probabilities there; where some are not above 0, it lies below the lowest.
    """
    _check(predicted, golds)
    missing = [name for name in golds if name not in predicted or name not in no_answer]
    if missing:
        raise UsageError(f"question {missing[0]!r} has no prediction or no certainty of having no answer.")
    order = sorted((name for name in no_answer if name in golds), key=lambda name: no_answer[name])
    return _best(0, order, predicted, no_answer, golds), _best(1, order, predicted, no_answer, golds)


def _best(
    which: int, order: Sequence[str], predicted: Mapping[str, str], no_answer: Mapping[str, float], golds: Golds
) -> Threshold:
    current = best = float(sum(not texts for texts in golds.values()))
    lowest = no_answer[order[0]]
    threshold = 0.0 if lowest > 0 else lowest - 1
    for name in order:
        if golds[name]:
            current += _pair(predicted[name], golds[name], v2=True)[which]
        elif predicted[name]:
            current -= 1
        if current > best:
            best, threshold = current, no_answer[name]
    return Threshold(threshold, 100 * best / len(golds))


def first_sentence(passage: str) -> str:
    """What a baseline answers that has not read the question: the passage up to its first full stop."""
    end = re.search(r"(?<=[.!?])\s", passage)
    return passage[: end.start()] if end else passage


def _check(predicted: Mapping[str, str], golds: Golds) -> None:
    if not golds:
        raise UsageError("there are no questions to score; give at least one with its gold answers.")
    strange = [name for name in predicted if name not in golds]
    if strange:
        raise UsageError(f"question {strange[0]!r} is predicted but not among the {len(golds)} gold questions.")
