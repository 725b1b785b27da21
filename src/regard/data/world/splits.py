"""Examples of any kind, drawn into splits that share nothing.

Which split an example belongs to follows from a checksum of its text, whatever the seed, so the splits stay disjoint
however many examples are drawn. It knows nothing about what is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from regard.data.world.dice import Dice
from regard.data.world.holdout import split_of
from regard.errors import UsageError, unknown

T = TypeVar("T")

SIZES = {"train": 4_000, "validation": 400, "test": 1_000}
_PATIENCE = 5_000  # draws in a row without a new example before there seem to be no more


def draw_split(
    kind: str, split: str, draw: Callable[[Dice], T], text_of: Callable[[T], str], *, count: int | None, seed: int
) -> list[T]:
    """`count` different examples of a split (as many as usual if it is None)."""
    if split not in SIZES:
        raise unknown("split of the built-in world", split, SIZES)
    if count is not None and count < 0:
        raise UsageError(f"count is {count}; give a number of examples of 0 or more.")
    wanted = SIZES[split] if count is None else count
    dice = Dice(f"regard world {kind} {split} {seed}")
    found: list[T] = []
    seen: set[str] = set()
    in_vain = 0
    while len(found) < wanted and in_vain < _PATIENCE:
        example = draw(dice)
        text = text_of(example)
        in_vain += 1
        if text not in seen and split_of(text) == split:
            seen.add(text)
            found.append(example)
            in_vain = 0
    if len(found) < wanted:
        raise UsageError(f"the built-in world has {len(found):,} {kind} for {split}; ask for fewer than {wanted:,}.")
    return found
