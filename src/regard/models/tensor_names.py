"""Map tensor names between regard and other tools, and join tensors that other tools store in parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

Pairs = Sequence[tuple[str, tuple[str, ...]]]  # our name for a tensor, and their names for its parts


def join(theirs: Mapping[str, Tensor], pairs: Pairs, *, stacked: Sequence[str] = ()) -> dict[str, Tensor]:
    """Convert their tensors to ours. Tensors that are not in `pairs` keep their names.

    Parts, such as queries, keys and values, are concatenated along rows. If our name ends in one of `stacked`, they are
    stacked along a new axis instead.
    """
    remaining, joined = dict(theirs), {}
    for ours, parts in pairs:
        if all(part in remaining for part in parts):
            tensors = [remaining.pop(part) for part in parts]
            joined[ours] = torch.stack(tensors) if ours.endswith(tuple(stacked)) else torch.cat(tensors)
    return joined | remaining


def module_pairs(ours: str, *theirs: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return the name pairs for the weight and bias of a linear layer or a norm."""
    return [(f"{ours}.{part}", tuple(f"{name}.{part}" for name in theirs)) for part in ("weight", "bias")]
