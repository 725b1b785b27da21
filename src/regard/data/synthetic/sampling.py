"""Reproducible random choices, and disjoint splits of random examples.

The same seed gives the same draws on every platform and Python version: all draws use `random.Random.random()`, the
only method with a sequence that Python guarantees. The split of an example depends only on a checksum of its text, so
splits are disjoint for all seeds and sizes.
"""

from __future__ import annotations

import itertools
import random
import zlib
from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from regard.utils.errors import UsageError, unknown

T = TypeVar("T")

SIZES = {"train": 4_000, "validation": 400, "test": 1_000}
_EDITION = "j"  # determines the held-out combinations; with this letter, every word is frequent in training
_TEST_PERCENT, _VALIDATION_PERCENT = 6, 3
_PATIENCE = 5_000  # draws without a new example before giving up


class Weighted(Generic[T]):
    """Options with weights."""

    def __init__(self, weights: Mapping[T, float]) -> None:
        self.options = tuple(weights)
        self.bounds = list(itertools.accumulate(weights.values()))


class Rng:
    """A seeded source of choices."""

    def __init__(self, seed: str) -> None:
        self._draw = random.Random(seed).random

    def chance(self, probability: float) -> bool:
        return self._draw() < probability

    def pick(self, options: Sequence[T]) -> T:
        return options[int(self._draw() * len(options))]

    def weighted(self, table: Weighted[T]) -> T:
        return table.options[bisect(table.bounds, self._draw() * table.bounds[-1])]


def percentile(text: str) -> int:
    """A number from 0 to 99 that depends on the text alone, evenly distributed over texts."""
    return zlib.crc32(f"{_EDITION}{text}".encode()) % 9973 % 100


def split_of(text: str) -> str:
    """The split of an example without held-out combinations, which depends on its English text."""
    place = percentile(text)
    if place < _TEST_PERCENT:
        return "test"
    return "validation" if place < _TEST_PERCENT + _VALIDATION_PERCENT else "train"


def draw_split(
    kind: str, split: str, draw: Callable[[Rng], T], text_of: Callable[[T], str], *, count: int | None, seed: int
) -> list[T]:
    """`count` different examples of a split (default: its usual size)."""
    count = split_size(split, count, SIZES)
    rng = Rng(f"regard world {kind} {split} {seed}")
    examples: dict[str, T] = {}
    num_failures = 0
    while len(examples) < count and num_failures < _PATIENCE:
        example = draw(rng)
        text = text_of(example)
        num_failures += 1
        if text not in examples and split_of(text) == split:
            examples[text] = example
            num_failures = 0
    if len(examples) < count:
        raise count_error(kind, len(examples), count)
    return list(examples.values())


def split_size(split: str, count: int | None, sizes: Mapping[str, int]) -> int:
    """`count`, or the usual size of the split; raises if there is no such split."""
    if split not in sizes:
        raise unknown("split", split, sizes)
    if count is not None and count < 0:
        raise UsageError(f"count must be at least 0, got {count}.", argument="count", value=count)
    return sizes[split] if count is None else count


def count_error(kind: str, available: int, count: int) -> UsageError:
    message = f"the built-in dataset has only about {available:,} {kind}, but count is {count:,}. Use a smaller count."
    return UsageError(message, argument="count", value=count)
