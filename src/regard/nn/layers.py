"""Layers without attention: dropout, norms and the position-wise feed-forward network.

| class | paper | computes |
|---|---|---|
| LayerNorm | Ba et al. 2016 | (x - μ) / σ · γ + β |
| RMSNorm | Zhang and Sennrich 2019 | x / rms(x) · γ |
| FeedForward | Vaswani et al. 2017 | f(x W₁ + b₁) W₂ + b₂, the same for every position |

On a CPU torch draws one 32-bit number for each element that dropout may set to zero, which takes longer than the matrix
products of a small model. `Dropout` draws one random byte per element: p is rounded to a multiple of 1/256, and the
remaining elements are divided by exactly the fraction that remains, so the expectation is unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.nn.init import Linear
from regard.utils.errors import unknown

_source: ContextVar[torch.Generator | None] = ContextVar("regard_dropout_source", default=None)


@contextmanager
def use_generator(generator: torch.Generator) -> Iterator[None]:
    """Inside the block, dropout on a CPU draws from `generator`; each parallel thread needs its own generator."""
    token = _source.set(generator)
    try:
        yield
    finally:
        _source.reset(token)


def generator() -> torch.Generator | None:
    """Return the generator that a training step draws from; None means torch's default generator."""
    return _source.get()


class _ByteDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, threshold: int) -> Tensor:
        words = torch.empty((x.numel() + 7) // 8, dtype=torch.int64).random_(-(2**63), None, generator=_source.get())
        stays = words.view(torch.uint8)[: x.numel()] >= threshold
        factor = stays.to(x.dtype).mul_(256 / (256 - threshold)).view(x.shape)
        ctx.save_for_backward(factor)
        return x * factor

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (factor,) = ctx.saved_tensors
        return grad * factor, None


def dropout(x: Tensor, p: float) -> Tensor:
    """Set about `p` of the elements to zero and scale the rest up."""
    if p <= 0:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, p)
    threshold = min(round(p * 256), 255)  # at least one value of 256 must remain
    return _ByteDropout.apply(x, threshold)  # type: ignore[no-any-return, no-untyped-call]


class Dropout(nn.Module):
    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p
        self.dropout_scale = 1.0  # factor on p, set by `set_dropout_scale`

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p * self.dropout_scale) if self.training else x


def set_dropout_scale(model: nn.Module, scale: float) -> None:
    """Multiply the p of every dropout in a model by this factor."""
    for module in model.modules():
        if hasattr(module, "dropout_scale"):
            module.dropout_scale = scale  # type: ignore[assignment]


class LayerNorm(nn.Module):
    """Shifts each vector to mean 0 and scales it to variance 1, then applies γ and β (Ba et al. 2016)."""

    def __init__(self, dim: int, *, elementwise_affine: bool = True, bias: bool = True, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim)) if elementwise_affine else None  # γ
        self.bias = nn.Parameter(torch.zeros(dim)) if bias else None  # β

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], self.weight, self.bias, self.eps)


class RMSNorm(nn.Module):
    """Scales each vector to root mean square 1, then applies γ (Zhang and Sennrich 2019)."""

    def __init__(self, dim: int, *, elementwise_affine: bool = True, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim)) if elementwise_affine else None  # γ

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype not in (torch.float32, torch.float64):  # torch squares half precision in float32
            return F.rms_norm(x, x.shape[-1:], self.weight, self.eps)
        out: Tensor = _RMSNormalize.apply(x, self.eps)  # type: ignore[no-untyped-call]
        return out if self.weight is None else out * self.weight


class _RMSNormalize(torch.autograd.Function):
    """x / rms(x) with a custom backward pass that reads memory twice; autograd needs many more passes on a CPU."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, eps: float) -> Tensor:
        length: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        inverse = length.square_().mul_(1 / x.shape[-1]).add_(eps).rsqrt_()
        out = x * inverse
        ctx.save_for_backward(out, inverse)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        # Scaling x does not change the output, so the gradient along the output is removed.
        out, inverse = ctx.saved_tensors
        along = torch.linalg.vecdot(grad, out).unsqueeze(-1).mul_(-1 / out.shape[-1])
        return torch.addcmul(grad, out, along).mul_(inverse), None


def make_norm(
    kind: str, dim: int, *, elementwise_affine: bool = True, bias: bool = True, eps: float = 1e-5
) -> LayerNorm | RMSNorm:
    if kind == "layer":
        return LayerNorm(dim, elementwise_affine=elementwise_affine, bias=bias, eps=eps)
    if kind == "rms":
        return RMSNorm(dim, elementwise_affine=elementwise_affine, eps=eps)
    raise unknown("norm", kind, ("layer", "rms"))


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
    """Two linear layers with an activation in between. With `swiglu`, the first has two halves; one gates the other."""

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
