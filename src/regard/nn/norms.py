"""Normalisation: LayerNorm (x - μ) / σ · γ + β, and RMSNorm x / rms(x) · γ."""

from __future__ import annotations

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
        return F.rms_norm(x, x.shape[-1:], self.scale, self.epsilon)


def make_norm(
    kind: str, width: int, *, scale: bool = True, bias: bool = True, epsilon: float = 1e-5
) -> LayerNorm | RMSNorm:
    if kind == "layer":
        return LayerNorm(width, scale=scale, bias=bias, epsilon=epsilon)
    if kind == "rms":
        return RMSNorm(width, scale=scale, epsilon=epsilon)
    raise unknown("norm", kind, ("layer", "rms"))
