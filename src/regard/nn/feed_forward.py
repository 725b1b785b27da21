"""The position-wise feed-forward network: FFN(x) = f(x W₁ + b₁) W₂ + b₂, the same for every position."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.nn.dropout import Dropout
from regard.nn.init import Linear
from regard.utils.errors import unknown


class SquaredReLU(torch.autograd.Function):
    """max(0, x)² (So et al. 2021). Stores only max(0, x) for the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        positive = F.relu(x)
        ctx.save_for_backward(positive)
        return positive * positive

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        positive: Tensor = ctx.saved_tensors[0]
        return (grad * positive).mul_(2)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu-tanh": partial(F.gelu, approximate="tanh"),  # as GPT-2 computes it
    "silu": F.silu,
    "relu2": SquaredReLU.apply,
    "swiglu": F.silu,  # applied to the gate, which multiplies the other half (Shazeer 2020)
}


class FeedForward(nn.Module):
    """Two linear layers with an activation between them. `swiglu` doubles the first; one half gates the other."""

    def __init__(
        self, d_model: int, *, d_ff: int, activation: str = "relu", bias: bool = True, dropout: float = 0.0
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise unknown("activation", activation, ACTIVATIONS)
        self.activation = activation
        self.up_proj = Linear(d_model, 2 * d_ff if activation == "swiglu" else d_ff, bias=bias)  # W₁, b₁
        self.down_proj = Linear(d_ff, d_model, bias=bias)  # W₂, b₂
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.up_proj(x)  # (…, d_ff), or (…, 2 · d_ff) for swiglu
        activation = ACTIVATIONS[self.activation]
        if self.activation == "swiglu":
            gate, value = inner.chunk(2, dim=-1)
            inner = activation(gate) * value
        else:
            inner = activation(inner)
        out: Tensor = self.down_proj(self.dropout(inner))
        return out
