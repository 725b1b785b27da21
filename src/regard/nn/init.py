"""Build a model with weights from a seed, or without weights for loading.

Initializing weights takes longer than reading the weights that replace them, and `torch.device("meta")` imports
`torch._dynamo`, which takes seconds. Inside `empty_weights()`, parameters are placeholders: they have a shape, but
all their elements share one number in memory.

`ppmi_vectors` computes token embeddings from co-occurrence counts: tokens with similar neighbors get similar vectors.
The matrix of positive pointwise mutual information between tokens and their neighbors (PPMI, Bullinaria and Levy 2007)
is reduced to its largest singular vectors. This takes seconds; gradient descent needs many minutes to learn the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

NEAR = 4  # window size on either side
NEIGHBORS = 2048  # the most frequent tokens are counted as neighbors
SMOOTHING = 0.75  # exponent of a neighbor's frequency, so that rare neighbors do not dominate
CHUNK = 1 << 22  # positions counted at a time

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
    """Return whether an `empty_weights` block is active, in which weights are not initialized."""
    return _empty.get()


def new_parameter(*shape: int) -> nn.Parameter:
    """Return an uninitialized parameter; inside `empty_weights`, a placeholder."""
    is_empty = weights_are_empty() and math.prod(shape) > 1  # placeholders are recognized by their strides
    return nn.Parameter(torch.empty(()).expand(shape) if is_empty else torch.empty(shape))


def is_placeholder(tensor: Tensor) -> bool:
    """Return whether a parameter was created inside `empty_weights` and has no weights yet."""
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


def ppmi_vectors(ids: npt.NDArray[np.integer], vocab_size: int, d_model: int) -> Tensor:
    """Return vectors of length 1 for all tokens: (vocab_size, d_model). Tokens that never occur get zeros."""
    ppmi = torch.from_numpy(_ppmi(_counts(ids, vocab_size)))  # (vocab_size, neighbors)
    vectors = torch.zeros(vocab_size, d_model)
    rank = min(d_model, *ppmi.shape)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        directions, _, _ = torch.svd_lowrank(ppmi, q=rank, niter=3)
    vectors[:, :rank] = directions
    return torch.nn.functional.normalize(vectors, dim=1) * (ppmi.sum(dim=1, keepdim=True) > 0)


def _counts(ids: npt.NDArray[np.integer], vocab_size: int) -> npt.NDArray[np.float32]:
    """Count how often each token occurs near each frequent token, weighted by 1 / distance: (vocab_size, neighbors)."""
    size = min(NEIGHBORS, vocab_size)
    frequent = np.argsort(-np.bincount(ids, minlength=vocab_size), kind="stable")[:size]
    place = np.full(vocab_size, -1, dtype=np.int64)
    place[frequent] = np.arange(size)
    counts = np.zeros(vocab_size * size, dtype=np.float32)
    for start in range(0, len(ids), CHUNK):
        here = np.asarray(ids[start : start + CHUNK + NEAR]).astype(np.int64)
        columns = place[here]
        for distance in range(1, NEAR + 1):
            # Pairs whose first token is in this chunk.
            first = slice(0, max(0, min(CHUNK, len(here) - distance)))
            second = slice(distance, distance + first.stop)
            for token, beside in ((first, second), (second, first)):
                rows, places = here[token], columns[beside]
                counted = places >= 0
                pairs = np.bincount(rows[counted] * size + places[counted], minlength=len(counts))
                counts += pairs / np.float32(distance)
    return counts.reshape(vocab_size, size)


def _ppmi(counts: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the positive part of log (P(neighbor | token) / P(neighbor))."""
    frequency = counts.sum(axis=0) ** SMOOTHING
    conditional = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-9)
    with np.errstate(divide="ignore", invalid="ignore"):
        pmi = np.log(conditional * (frequency.sum() / frequency))
    positive: npt.NDArray[np.float32] = np.nan_to_num(np.maximum(pmi, 0.0), nan=0.0, posinf=0.0).astype(np.float32)
    return positive
