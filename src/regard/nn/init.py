"""Building a model: with weights from a seed, or without weights for loading.

Initializing weights takes longer than reading those that replace them, and `torch.device("meta")` imports
`torch._dynamo`, which takes seconds. Inside `empty_weights()`, parameters are placeholders: they have a shape, but
all their elements share one number in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import torch
from torch import Tensor, nn

M = TypeVar("M", bound=nn.Module)

_empty: ContextVar[bool] = ContextVar("regard_empty_weights", default=False)


def seeded_init(build: Callable[[], M], *, seed: int) -> M:
    """Call `build` with a seeded generator and return the model. The global generator is not changed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build()


@contextmanager
def empty_weights() -> Iterator[None]:
    """Models built inside the block have placeholders for weights: load weights before use."""
    token = _empty.set(True)
    try:
        yield
    finally:
        _empty.reset(token)


def weights_are_empty() -> bool:
    """Whether an `empty_weights` block is active: then there is nothing to initialize."""
    return _empty.get()


def new_parameter(*shape: int) -> nn.Parameter:
    """An uninitialized parameter; inside `empty_weights`, a placeholder."""
    is_empty = weights_are_empty() and math.prod(shape) > 1  # a single element cannot be told apart by its strides
    return nn.Parameter(torch.empty(()).expand(shape) if is_empty else torch.empty(shape))


def is_placeholder(tensor: Tensor) -> bool:
    """Whether a parameter was made inside `empty_weights` and has no weights yet."""
    return tensor.is_meta or (tensor.numel() > 1 and not any(tensor.stride()))


class Linear(nn.Linear):
    """torch's linear layer, with placeholders for weights inside `empty_weights`."""

    def __init__(self, in_features: int, out_features: int, *, bias: bool = True) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = in_features, out_features
        self.weight = new_parameter(out_features, in_features)
        self.register_parameter("bias", new_parameter(out_features) if bias else None)
        if not weights_are_empty():
            self.reset_parameters()
