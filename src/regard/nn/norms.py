"""Normalization: LayerNorm (x - μ) / σ · γ + β, and RMSNorm x / rms(x) · γ."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.utils.errors import unknown


class LayerNorm(nn.Module):
    """Each vector shifted to mean 0 and scaled to variance 1, then γ and β (Ba et al. 2016)."""

    def __init__(self, dim: int, *, elementwise_affine: bool = True, bias: bool = True, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim)) if elementwise_affine else None  # γ
        self.bias = nn.Parameter(torch.zeros(dim)) if bias else None  # β

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], self.weight, self.bias, self.eps)


class RMSNorm(nn.Module):
    """Each vector scaled to root mean square 1, then γ (Zhang and Sennrich 2019)."""

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
    """x / rms(x) with its gradient in two passes over memory; torch's own takes many more on a CPU."""

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
