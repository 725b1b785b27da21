"""The position-wise feed-forward network: FFN(x) = f(x W₁ + b₁) W₂ + b₂, the same for every position."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import unknown
from regard.nn.dropout import Dropout


def squared_relu(x: Tensor) -> Tensor:
    """max(0, x)² (So et al. 2021)."""
    return _SquaredReLU.apply(x)  # type: ignore[no-any-return, no-untyped-call]


class _SquaredReLU(torch.autograd.Function):
    """max(0, x)², of which only max(0, x) is kept for the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        kept = F.relu(x)
        ctx.save_for_backward(kept)
        return kept * kept

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        kept: Tensor = ctx.saved_tensors[0]
        return (grad * kept).mul_(2)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu-tanh": partial(F.gelu, approximate="tanh"),  # as GPT-2 computes it
    "silu": F.silu,
    "relu2": squared_relu,
    "swiglu": F.silu,  # applied to the gate, which multiplies the other half (Shazeer 2020)
}


class FeedForward(nn.Module):
    """Widen, bend, narrow. `swiglu` widens twice and lets one half gate the other."""

    def __init__(
        self, width: int, *, hidden: int, activation: str = "relu", bias: bool = True, dropout: float = 0.0
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise unknown("activation", activation, ACTIVATIONS)
        self.activation = activation
        self.widen = nn.Linear(width, 2 * hidden if activation == "swiglu" else hidden, bias=bias)  # W₁, b₁
        self.narrow = nn.Linear(hidden, width, bias=bias)  # W₂, b₂
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.widen(x)
        bend = ACTIVATIONS[self.activation]
        if self.activation == "swiglu":
            gate, value = inner.chunk(2, dim=-1)
            inner = bend(gate) * value
        else:
            inner = bend(inner)
        out: Tensor = self.narrow(self.dropout(inner))
        return out
