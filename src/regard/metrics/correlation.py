"""Scores of predicted numbers: the correlations of Pearson and Spearman, in hundredths as leaderboards print them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from regard.metrics.labels import check_same_length
from regard.metrics.score import Score
from regard.utils.errors import UsageError

Numbers = Sequence[float] | npt.NDArray[np.floating]


def pearson(predicted: Numbers, gold: Numbers) -> Score:
    """The linear correlation; 0 where one side is constant, which correlates with nothing."""
    one, other = _checked(predicted, gold)
    return Score("Pearson", 100 * _correlation(one, other), f"n:{len(other)}")


def spearman(predicted: Numbers, gold: Numbers) -> Score:
    """The correlation of the ranks, equal numbers sharing the mean of theirs."""
    one, other = _checked(predicted, gold)
    return Score("Spearman", 100 * _correlation(ranks(one), ranks(other)), f"n:{len(other)}")


def ranks(numbers: Numbers) -> npt.NDArray[np.float64]:
    """The place of each number among all, from 1; equal ones share the mean of their places."""
    values = np.asarray(numbers, dtype=np.float64)
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return ((last - counts + 1 + last) / 2)[which]


def _correlation(one: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> float:
    if (one == one[0]).all() or (other == other[0]).all():
        return 0.0
    one, other = one - one.mean(), other - other.mean()
    product = float(one @ other) / (math.sqrt(one @ one) * math.sqrt(other @ other))
    return min(1.0, max(-1.0, product))


def _checked(predicted: Numbers, gold: Numbers) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    check_same_length(predicted, gold)  # type: ignore[arg-type]
    both = np.asarray(predicted, dtype=np.float64), np.asarray(gold, dtype=np.float64)
    for name, values in zip(("predicted", "gold"), both, strict=True):
        wrong = np.flatnonzero(~np.isfinite(values))
        if wrong.size:
            raise UsageError(f"{name} number {wrong[0] + 1} is {values[wrong[0]]}; correlations need finite numbers.")
    return both
