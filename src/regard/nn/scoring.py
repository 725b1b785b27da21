"""Scoring functions of attention: how well a query matches a key.

A scorer takes q (B, H, T, Dq) and k (B, H, S, Dk) and returns scores (B, H, T, S). `MultiHeadAttention` takes any of
them as `scorer`; all heads share its weights. Only `ScaledDotProduct` has a fused kernel.

| class | paper | score |
|---|---|---|
| ScaledDotProduct() | Vaswani et al. 2017 | q · k / √Dh |
| ScaledDotProduct(scale=1.0) | Luong et al. 2015, *dot* | q · k |
| General | Luong et al. 2015, *general* | qᵀ W k |
| Additive | Bahdanau et al. 2014 | v · tanh(W_q q + W_k k) |
| Additive | Luong et al. 2015, *concat* | v · tanh(W [q; k]), the same with W = [W_q W_k] |
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from regard.nn.init import Linear


class Scorer(Protocol):
    """Scores every query against every key."""

    def __call__(self, q: Tensor, k: Tensor, /) -> Tensor: ...


@dataclass(frozen=True)
class ScaledDotProduct:
    """q · k / √Dh; `scale` replaces 1/√Dh."""

    scale: float | None = None

    def factor(self, head_dim: int) -> float:
        return 1 / math.sqrt(head_dim) if self.scale is None else self.scale

    def __call__(self, q: Tensor, k: Tensor) -> Tensor:
        return (q * self.factor(q.shape[-1])) @ k.transpose(-2, -1)


class Additive(nn.Module):
    """v · tanh(W_q q + W_k k), without biases; q and k may differ in size."""

    def __init__(self, query_dim: int, key_dim: int, *, hidden_dim: int) -> None:
        super().__init__()
        self.q_proj = Linear(query_dim, hidden_dim, bias=False)
        self.k_proj = Linear(key_dim, hidden_dim, bias=False)
        self.v = Linear(hidden_dim, 1, bias=False)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        joined = self.q_proj(q)[..., :, None, :] + self.k_proj(k)[..., None, :, :]  # (B, H, T, S, hidden_dim)
        scores: Tensor = self.v(torch.tanh(joined)).squeeze(-1)
        return scores


class General(nn.Module):
    """qᵀ W k."""

    def __init__(self, query_dim: int, key_dim: int) -> None:
        super().__init__()
        self.k_proj = Linear(key_dim, query_dim, bias=False)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        keys: Tensor = self.k_proj(k)
        return q @ keys.transpose(-2, -1)
