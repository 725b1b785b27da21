"""Scores for labels and numbers, in percent: accuracy, F1, correlations and the confusion matrix.

A text has one label (a str), any number of labels (a tuple or set), or a number, such as a similarity.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from regard.metrics.score import Confusion, Score, check_lists
from regard.utils.errors import UsageError, unknown

Labels = str | Collection[str]  # of one text
Numbers = Sequence[float] | npt.NDArray[np.floating]
Average = Literal["binary", "macro", "micro"]
T = TypeVar("T")


@dataclass(frozen=True)
class Counts:
    """Counts of a label: correct, predicted and gold. Precision, recall and F1 are 0 instead of 0/0."""

    correct: int = 0
    predicted: int = 0
    gold: int = 0

    @property
    def precision(self) -> float:
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        return self.correct / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        return 2 * self.correct / (self.predicted + self.gold) if self.predicted + self.gold else 0.0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.correct + other.correct, self.predicted + other.predicted, self.gold + other.gold)


def accuracy(predicted: Sequence[Labels], gold: Sequence[Labels]) -> Score:
    """The fraction of texts with the correct label, or with exactly the correct set of labels."""
    correct = sum(labels == gold_labels for labels, gold_labels in _pairs_of_sets(predicted, gold))
    return Score("accuracy", 100 * correct / len(gold), f"n:{len(gold)}")


def f1(
    predicted: Sequence[Labels], gold: Sequence[Labels], *, average: Average = "macro", positive: str | None = None
) -> Score:
    """F1 of the `positive` class (`binary`), the mean over classes (`macro`), or F1 of the summed counts (`micro`).

    The name of the score includes the average. As in scikit-learn, the classes are those that occur in either list.
    """
    if average not in get_args(Average):
        raise unknown("average of F1", average, get_args(Average))
    counts = label_counts(predicted, gold)
    signature = f"average:{average}|classes:{len(counts)}|n:{len(gold)}"
    if average == "micro":
        return Score("micro F1", 100 * sum(counts.values(), Counts()).f1, signature)
    if average == "macro":
        value = math.fsum(count.f1 for count in counts.values()) / max(1, len(counts))
        return Score("macro F1", 100 * value, signature)
    if positive is None:
        message = f"binary F1 needs the positive class: give positive=…, one of {', '.join(counts)}."
        raise UsageError(message, argument="positive", allowed=counts)
    value = counts.get(positive, Counts()).f1
    return Score(f"F1 of {positive}", 100 * value, f"average:binary|positive:{positive}|n:{len(gold)}")


def matthews(predicted: Sequence[str], gold: Sequence[str]) -> Score:
    """Matthews correlation for any number of classes (Gorodkin 2004); 0 if one list has a single class."""
    check_lists(predicted=predicted, gold=gold)
    total = len(gold)
    correct = sum(label == gold_label for label, gold_label in zip(predicted, gold, strict=True))
    counts, gold_counts = Counter(predicted), Counter(gold)
    covariance = correct * total - sum(counts[label] * gold_counts[label] for label in counts)
    variances = [total**2 - sum(count**2 for count in side.values()) for side in (counts, gold_counts)]
    value = covariance / math.sqrt(variances[0] * variances[1]) if all(variances) else 0.0
    return Score("Matthews", 100 * value, f"n:{total}")


def label_counts(predicted: Sequence[Labels], gold: Sequence[Labels]) -> dict[str, Counts]:
    """The counts of each label that occurs, in alphabetical order."""
    return count_matches(_pairs_of_sets(predicted, gold), str)


def count_matches(
    pairs: Iterable[tuple[AbstractSet[T], AbstractSet[T]]], label_of: Callable[[T], str]
) -> dict[str, Counts]:
    """Counts by label of predicted and gold items, which match if they are equal; labels in alphabetical order."""
    correct, predicted, gold = Counter[str](), Counter[str](), Counter[str]()
    for items, gold_items in pairs:
        correct.update(map(label_of, items & gold_items))
        predicted.update(map(label_of, items))
        gold.update(map(label_of, gold_items))
    labels = sorted(predicted.keys() | gold.keys())
    return {label: Counts(correct[label], predicted[label], gold[label]) for label in labels}


def label_names(labels: Iterable[str]) -> tuple[str, ...]:
    """The different labels in a fixed order: by value if all are numbers, else alphabetical."""
    names = sorted(set(labels))
    try:
        return tuple(sorted(names, key=float))
    except ValueError:
        return tuple(names)


def confusion(predicted: Sequence[str], gold: Sequence[str]) -> Confusion:
    """The confusion matrix of single labels."""
    check_lists(predicted=predicted, gold=gold)
    labels = label_names([*predicted, *gold])
    counts = Counter(zip(gold, predicted, strict=True))
    return Confusion(labels, tuple(tuple(counts[row, column] for column in labels) for row in labels))


def majority(gold: Iterable[Labels]) -> Labels:
    """The majority baseline: the most frequent label or set of labels; ties are broken alphabetically."""
    counts = Counter(labels if isinstance(labels, str) else tuple(sorted(labels)) for labels in gold)
    if not counts:
        raise UsageError("gold is empty. Give at least one label.", argument="gold")
    return min(counts, key=lambda labels: (-counts[labels], labels))


def _pairs_of_sets(
    predicted: Sequence[Labels], gold: Sequence[Labels]
) -> Iterable[tuple[frozenset[str], frozenset[str]]]:
    check_lists(predicted=predicted, gold=gold)
    predicted_sets, gold_sets = (
        [frozenset([labels] if isinstance(labels, str) else labels) for labels in side] for side in (predicted, gold)
    )
    return zip(predicted_sets, gold_sets, strict=True)


def pearson(predicted: Numbers, gold: Numbers) -> Score:
    """The Pearson correlation; 0 if one list is constant."""
    return Score("Pearson", 100 * _correlation(*_checked(predicted, gold)), f"n:{len(gold)}")


def spearman(predicted: Numbers, gold: Numbers) -> Score:
    """The Spearman rank correlation; 0 if one list is constant."""
    return Score("Spearman", 100 * _correlation(*map(ranks, _checked(predicted, gold))), f"n:{len(gold)}")


def ranks(numbers: Numbers) -> npt.NDArray[np.float64]:
    """The rank of each number, from 1; equal numbers share the mean of their ranks."""
    _, indices, counts = np.unique(np.asarray(numbers, dtype=np.float64), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return ((last - counts + 1 + last) / 2)[indices]


def overlap_baseline(pairs: Sequence[tuple[str, str]], gold: Numbers) -> list[Score]:
    """The correlations between word overlap and gold numbers: a baseline for text similarity."""
    overlaps = [word_overlap(first, second) for first, second in pairs]
    return [metric(overlaps, gold).as_baseline("word overlap", "Jaccard") for metric in (pearson, spearman)]


def word_overlap(first: str, second: str) -> float:
    """Words in both texts divided by words in either (Jaccard index), ignoring case; 0 without words."""
    words, others = (set(re.findall(r"\w+", text.lower())) for text in (first, second))
    return len(words & others) / len(words | others) if words | others else 0.0


def _correlation(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> float:
    if (x == x[0]).all() or (y == y[0]).all():
        return 0.0
    x, y = x - x.mean(), y - y.mean()
    return min(1.0, max(-1.0, float(x @ y) / (math.sqrt(x @ x) * math.sqrt(y @ y))))


def _checked(predicted: Numbers, gold: Numbers) -> list[npt.NDArray[np.float64]]:
    check_lists(predicted=predicted, gold=gold)
    arrays = {"predicted": np.asarray(predicted, dtype=np.float64), "gold": np.asarray(gold, dtype=np.float64)}
    for name, values in arrays.items():
        if not np.isfinite(values).all():
            index = int(np.flatnonzero(~np.isfinite(values))[0])
            message = f"{name}[{index}] is {values[index]}; correlations need finite numbers."
            raise UsageError(message, argument=name, value=float(values[index]))
    return list(arrays.values())
