"""Scores of labels by their official definitions: accuracy, F1, Matthews' correlation, and the confusion of classes.

A text has one label (a str) or several (a tuple or set of them; none is a choice too). All scores are in hundredths,
as leaderboards print them. Nothing here knows where labels come from.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from regard.metrics.score import Confusion, Score
from regard.utils.errors import UsageError, unknown

Labels = str | Collection[str]  # of one text
Average = Literal["binary", "macro", "micro"]


@dataclass(frozen=True)
class Counts:
    """How often a label was predicted correctly, predicted in all, and actual. Precision, recall and F1 follow."""

    right: int
    given: int
    actual: int

    @property
    def precision(self) -> float:
        return self.right / self.given if self.given else 0.0

    @property
    def recall(self) -> float:
        return self.right / self.actual if self.actual else 0.0

    @property
    def f1(self) -> float:
        """Their harmonic mean; 0 where a label is neither predicted nor actual."""
        return 2 * self.right / (self.given + self.actual) if self.given + self.actual else 0.0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.right + other.right, self.given + other.given, self.actual + other.actual)


def accuracy(predicted: Sequence[Labels], gold: Sequence[Labels]) -> Score:
    """The share of texts whose label, or whose whole set of labels, is right."""
    sets = as_sets(predicted, gold)
    right = sum(one == other for one, other in zip(*sets, strict=True))
    return Score("accuracy", 100 * right / len(gold), f"n:{len(gold)}")


def f1(
    predicted: Sequence[Labels], gold: Sequence[Labels], *, average: Average = "macro", positive: str | None = None
) -> Score:
    """F1 of one class (`binary`, of the `positive` one), the mean over classes (`macro`), or of all counts (`micro`).

    Which of the three it is stands in the score's name: three numbers called F1 would be taken for each other. The
    classes of the mean are those that occur in either list, as scikit-learn has it.
    """
    if average not in get_args(Average):
        raise unknown("average of F1", average, get_args(Average))
    by_label = label_counts(predicted, gold)
    signature = f"average:{average}|classes:{len(by_label)}|n:{len(gold)}"
    if average == "binary":
        return _binary_f1(by_label, positive, len(gold))
    if average == "micro":
        return Score("micro F1", 100 * sum(by_label.values(), Counts(0, 0, 0)).f1, signature)
    value = math.fsum(counts.f1 for counts in by_label.values()) / max(1, len(by_label))
    return Score("macro F1", 100 * value, signature)


def _binary_f1(by_label: dict[str, Counts], positive: str | None, count: int) -> Score:
    if positive is None:
        raise UsageError(f"F1 of one class needs to know which: give positive=…, one of {', '.join(sorted(by_label))}.")
    found = by_label.get(positive, Counts(0, 0, 0))
    return Score(f"F1 of {positive}", 100 * found.f1, f"average:binary|positive:{positive}|n:{count}")


def matthews(predicted: Sequence[str], gold: Sequence[str]) -> Score:
    """Matthews' correlation, for any number of classes (Gorodkin 2004); 0 where one list knows a single class."""
    check_same_length(predicted, gold)
    total = len(gold)
    right = sum(one == other for one, other in zip(predicted, gold, strict=True))
    given, actual = Counter(predicted), Counter(gold)
    covariance = right * total - sum(given[label] * actual[label] for label in given)
    spread = [total**2 - sum(count**2 for count in counts.values()) for counts in (given, actual)]
    value = covariance / math.sqrt(spread[0] * spread[1]) if all(spread) else 0.0
    return Score("Matthews", 100 * value, f"n:{total}")


def label_counts(predicted: Sequence[Labels], gold: Sequence[Labels]) -> dict[str, Counts]:
    """For every label that occurs, in the order of the alphabet."""
    given: Counter[str] = Counter()
    actual: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for one, other in zip(*as_sets(predicted, gold), strict=True):
        given.update(one)
        actual.update(other)
        right.update(one & other)
    return {label: Counts(right[label], given[label], actual[label]) for label in sorted(given.keys() | actual.keys())}


def label_names(labels: Iterable[str]) -> tuple[str, ...]:
    """All labels in a lasting order: numbers by their size, others by the alphabet."""
    names = set(labels)
    try:
        return tuple(sorted(names, key=lambda name: (float(name), name)))
    except ValueError:  # not all are numbers
        return tuple(sorted(names))


def confusion(predicted: Sequence[str], gold: Sequence[str]) -> Confusion:
    """The table of single labels: actual against predicted."""
    check_same_length(predicted, gold)
    labels = label_names([*predicted, *gold])
    pairs = Counter(zip(gold, predicted, strict=True))
    return Confusion(labels, tuple(tuple(pairs[actual, given] for given in labels) for actual in labels))


def as_sets(predicted: Sequence[Labels], gold: Sequence[Labels]) -> tuple[list[frozenset[str]], list[frozenset[str]]]:
    """Both lists with a set for each text."""
    check_same_length(predicted, gold)
    both = [[frozenset([labels]) if isinstance(labels, str) else frozenset(labels) for labels in side]
            for side in (predicted, gold)]  # fmt: skip
    return both[0], both[1]


def check_same_length(predicted: Sequence[object], gold: Sequence[object]) -> None:
    """Two lists of answers belong together, one for one, and are not empty."""
    for name, answers in (("predicted", predicted), ("gold", gold)):
        if isinstance(answers, str):
            raise UsageError(f"{name} must be a list of answers, not one str: put it into a list.", argument=name)
    if len(predicted) != len(gold):
        raise UsageError(
            f"{len(predicted)} predicted and {len(gold)} gold answers: give as many of both.",
            argument="predicted",
            value=len(predicted),
        )
    if len(gold) == 0:  # arrays have no truth value
        raise UsageError("there are no answers to score: give at least one with its gold answer.", argument="gold")


def majority(gold: Iterable[Labels]) -> Labels:
    """The majority baseline: the most frequent label or set of labels, ties by the alphabet."""
    counts = Counter(labels if isinstance(labels, str) else tuple(sorted(labels)) for labels in gold)
    if not counts:
        raise UsageError("there is no majority among no labels; give at least one.")
    return min(counts, key=lambda labels: (-counts[labels], labels))
