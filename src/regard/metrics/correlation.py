"""Scores of predicted numbers: Pearson and Spearman correlation, times 100; and word overlap as their baseline."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from regard.metrics.score import Score, check_lists
from regard.utils.errors import UsageError

Numbers = Sequence[float] | npt.NDArray[np.floating]
WORD = re.compile(r"\w+")


def pearson(predicted: Numbers, gold: Numbers) -> Score:
    """The linear correlation; 0 if one side is constant."""
    return Score("Pearson", 100 * _correlation(*_checked(predicted, gold)), f"n:{len(gold)}")


def spearman(predicted: Numbers, gold: Numbers) -> Score:
    """The correlation of the ranks; 0 if one side is constant."""
    return Score("Spearman", 100 * _correlation(*map(ranks, _checked(predicted, gold))), f"n:{len(gold)}")


def ranks(numbers: Numbers) -> npt.NDArray[np.float64]:
    """The rank of each number, from 1; equal numbers share the mean of their ranks."""
    _, indices, counts = np.unique(np.asarray(numbers, dtype=np.float64), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return ((last - counts + 1 + last) / 2)[indices]


def overlap_baseline(pairs: Sequence[tuple[str, str]], gold: Numbers) -> list[Score]:
    """The correlations of word overlap with gold numbers: a baseline for the similarity of texts."""
    overlaps = [word_overlap(first, second) for first, second in pairs]
    return [metric(overlaps, gold).as_baseline("word overlap", "Jaccard") for metric in (pearson, spearman)]


def word_overlap(first: str, second: str) -> float:
    """Words in both texts divided by words in either (Jaccard index), ignoring case; 0 without words."""
    words, others = (set(WORD.findall(text.lower())) for text in (first, second))
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
