"""How well a query fits a key: the scoring functions of attention.

A scorer takes q (B, H, T, Dq) and k (B, H, S, Dk) and gives scores (B, H, T, S). Any encoder can be attended
to by any decoder, because attention asks for nothing else. Only `ScaledDot` has a fused kernel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn


class Scorer(Protocol):
    """Scores every query against every key."""

    def __call__(self, q: Tensor, k: Tensor, /) -> Tensor: ...


@dataclass(frozen=True)
class ScaledDot:
    """q · k / √Dh (Vaswani et al. 2017); `scale` replaces 1/√Dh, and 1.0 gives Luong's *dot*."""

    scale: float | None = None

    def factor(self, head_width: int) -> float:
        return 1 / math.sqrt(head_width) if self.scale is None else self.scale

    def __call__(self, q: Tensor, k: Tensor) -> Tensor:
        return (q * self.factor(q.shape[-1])) @ k.transpose(-2, -1)


class Additive(nn.Module):
    """w · tanh(W_q q + W_k k) (Bahdanau et al. 2014), without biases; q and k may differ in width."""

    def __init__(self, query_width: int, key_width: int, *, hidden: int) -> None:
        super().__init__()
        self.query = nn.Linear(query_width, hidden, bias=False)
        self.key = nn.Linear(key_width, hidden, bias=False)
        self.score = nn.Linear(hidden, 1, bias=False)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        joined = self.query(q)[..., :, None, :] + self.key(k)[..., None, :, :]  # (B, H, T, S, hidden)
        scores: Tensor = self.score(torch.tanh(joined)).squeeze(-1)
        return scores


class General(nn.Module):
    """qᵀ W k (Luong et al. 2015, *general*)."""

    def __init__(self, query_width: int, key_width: int) -> None:
        super().__init__()
        self.key = nn.Linear(key_width, query_width, bias=False)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        keys: Tensor = self.key(k)
        return q @ keys.transpose(-2, -1)
