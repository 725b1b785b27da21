"""Reproducible random choices: the same seed gives the same draws on every platform and Python version.

All draws use `random.Random.random()`, the only method whose sequence Python guarantees.
"""

from __future__ import annotations

import itertools
import random
from bisect import bisect
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class Weighted(Generic[T]):
    """Options with weights."""

    def __init__(self, weights: Mapping[T, float]) -> None:
        self.options = tuple(weights)
        self.bounds = list(itertools.accumulate(weights.values()))


class Dice:
    """A seeded source of choices."""

    def __init__(self, seed: str) -> None:
        self._draw = random.Random(seed).random

    def chance(self, probability: float) -> bool:
        return self._draw() < probability

    def pick(self, options: Sequence[T]) -> T:
        return options[int(self._draw() * len(options))]

    def weighted(self, table: Weighted[T]) -> T:
        return table.options[bisect(table.bounds, self._draw() * table.bounds[-1])]
