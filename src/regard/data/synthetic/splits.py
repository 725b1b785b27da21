"""Disjoint splits of random examples.

A checksum of its text puts an example into a split, for any seed, so splits are disjoint for any number of examples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from regard.data.synthetic.dice import Dice
from regard.data.synthetic.holdout import split_of
from regard.utils.errors import UsageError, unknown

T = TypeVar("T")

SIZES = {"train": 4_000, "validation": 400, "test": 1_000}
_PATIENCE = 5_000  # draws without a new example before giving up


def draw_split(
    kind: str, split: str, draw: Callable[[Dice], T], text_of: Callable[[T], str], *, count: int | None, seed: int
) -> list[T]:
    """`count` different examples of a split (default: its usual size)."""
    wanted = split_size(split, count, SIZES)
    dice = Dice(f"regard world {kind} {split} {seed}")
    examples: dict[str, T] = {}
    num_failures = 0
    while len(examples) < wanted and num_failures < _PATIENCE:
        example = draw(dice)
        text = text_of(example)
        num_failures += 1
        if text not in examples and split_of(text) == split:
            examples[text] = example
            num_failures = 0
    if len(examples) < wanted:
        raise too_many(kind, len(examples), wanted)
    return list(examples.values())


def split_size(split: str, count: int | None, sizes: Mapping[str, int]) -> int:
    """`count`, or the usual size of the split; raises if there is no such split."""
    if split not in sizes:
        raise unknown("split", split, sizes)
    if count is not None and count < 0:
        raise UsageError(f"count is {count}; it must be at least 0.", argument="count", value=count)
    return sizes[split] if count is None else count


def too_many(kind: str, available: int, count: int) -> UsageError:
    return UsageError(
        f"count is {count:,}; the built-in dataset has about {available:,} {kind}.", argument="count", value=count
    )
