"""Normalisation: LayerNorm (x - μ) / σ · γ + β, and RMSNorm x / rms(x) · γ."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import unknown


class LayerNorm(nn.Module):
    """Each vector shifted to mean 0 and scaled to variance 1, then γ and β (Ba et al. 2016)."""

    def __init__(self, width: int, *, scale: bool = True, bias: bool = True, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.scale = nn.Parameter(torch.ones(width)) if scale else None  # γ
        self.shift = nn.Parameter(torch.zeros(width)) if bias else None  # β

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], self.scale, self.shift, self.epsilon)


class RMSNorm(nn.Module):
    """Each vector scaled to root mean square 1, then γ (Zhang and Sennrich 2019)."""

    def __init__(self, width: int, *, scale: bool = True, epsilon: float = 1e-6) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.scale = nn.Parameter(torch.ones(width)) if scale else None  # γ

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype not in (torch.float32, torch.float64):  # shorter numbers are squared as float32 in there
            return F.rms_norm(x, x.shape[-1:], self.scale, self.epsilon)
        out: Tensor = _ToRMSOne.apply(x, self.epsilon)  # type: ignore[no-untyped-call]
        return out if self.scale is None else out * self.scale


class _ToRMSOne(torch.autograd.Function):
    """x / rms(x) with its gradient in two passes over memory; torch's own takes many more on a CPU."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, epsilon: float) -> Tensor:
        length: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        inverse = length.square_().mul_(1 / x.shape[-1]).add_(epsilon).rsqrt_()
        out = x * inverse
        ctx.save_for_backward(out, inverse)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        # What would only stretch the output changes nothing: it is taken away.
        out, inverse = ctx.saved_tensors
        along = torch.linalg.vecdot(grad, out).unsqueeze(-1).mul_(-1 / out.shape[-1])
        return torch.addcmul(grad, out, along).mul_(inverse), None


def make_norm(
    kind: str, width: int, *, scale: bool = True, bias: bool = True, epsilon: float = 1e-5
) -> LayerNorm | RMSNorm:
    if kind == "layer":
        return LayerNorm(width, scale=scale, bias=bias, epsilon=epsilon)
    if kind == "rms":
        return RMSNorm(width, scale=scale, epsilon=epsilon)
    raise unknown("norm", kind, ("layer", "rms"))
