"""Sequences of different lengths → one padded tensor."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def pad(rows: Sequence[Sequence[int]], pad_id: int, *, device: torch.device | None = None) -> tuple[Tensor, Tensor]:
    """Rows of ids → (rows, longest), padded at the end, and the length of each row."""
    lengths = [len(row) for row in rows]
    longest = max(lengths)
    ids = torch.tensor([[*row, *[pad_id] * (longest - len(row))] for row in rows], device=device)
    return ids, torch.tensor(lengths, device=device)
