"""Dropout with one random byte per element.

On a CPU torch draws one 32-bit number for each element, which takes longer than the matrix products of a small model.
One random byte is enough: p is rounded to a 256th, and the remaining elements are scaled by exactly the fraction that
remains, so the expectation is unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_source: ContextVar[torch.Generator | None] = ContextVar("regard_dropout_source", default=None)


@contextmanager
def use_generator(generator: torch.Generator) -> Iterator[None]:
    """Inside the block, dropout on a CPU draws from `generator`; parallel threads need one each."""
    token = _source.set(generator)
    try:
        yield
    finally:
        _source.reset(token)


def generator() -> torch.Generator | None:
    """The generator that a training step draws from; None for torch's own."""
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
