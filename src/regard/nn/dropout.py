"""Dropout that does not wait for its random numbers.

On a CPU torch draws one 32-bit number for each element, and that takes longer than the matrix products of a
small model. One random byte decides as well: the share that is dropped is rounded to a 256th, and what stays is
scaled by exactly the share that stays, so the expectation is unchanged.
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
def drawing_from(generator: torch.Generator) -> Iterator[None]:
    """Inside the block, dropout on a CPU draws from `generator`: threads that compute side by side need their own."""
    token = _source.set(generator)
    try:
        yield
    finally:
        _source.reset(token)


def generator() -> torch.Generator | None:
    """What random numbers of a training step are drawn from; None for torch's own."""
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


def dropout(x: Tensor, share: float) -> Tensor:
    """Set about `share` of the elements to zero and scale the rest up."""
    if share <= 0:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, share)
    threshold = min(round(share * 256), 255)  # something must stay, or there is nothing to scale up
    return _ByteDropout.apply(x, threshold)  # type: ignore[no-any-return, no-untyped-call]


class Dropout(nn.Module):
    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share
        self.strength = 1.0  # of the full share; `set_strength` moves it

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.share * self.strength) if self.training else x


def set_strength(model: nn.Module, strength: float) -> None:
    """Let all dropout of a model act at this part of its share."""
    for module in model.modules():
        if hasattr(module, "strength"):
            module.strength = strength  # type: ignore[assignment]
