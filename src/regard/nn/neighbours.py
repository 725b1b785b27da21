"""Vectors of pieces from their neighbours, by counting alone: pieces that stand in like company get like vectors.

How often two pieces stand near each other, beside how often that would happen by chance, is their pointwise mutual
information; what is less than chance says little and becomes 0 (Bullinaria and Levy 2007). The matrix of it, pieces by
frequent neighbours, is cut to its strongest directions. That takes seconds, and knows what gradient descent needs many
minutes to find out (Levy and Goldberg 2014: word2vec looks for the same matrix, factored).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

NEAR = 4  # positions to either side
NEIGHBOURS = 2048  # pieces that are counted as neighbours: the most frequent ones
SMOOTHED = 0.75  # the power of a neighbour's frequency, so that rare ones do not look too surprising
AT_ONCE = 1 << 22  # positions that are counted together


def neighbour_vectors(ids: npt.NDArray[np.integer], vocab_size: int, width: int) -> Tensor:
    """The vectors of all pieces, (vocab_size, width), of length 1; zeros for those that never occur."""
    known = torch.from_numpy(_surprise(_counts(ids, vocab_size)))
    found = torch.zeros(vocab_size, width)
    rank = min(width, *known.shape)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        directions, _, _ = torch.svd_lowrank(known, q=rank, niter=3)
    found[:, :rank] = directions
    return torch.nn.functional.normalize(found, dim=1) * (known.sum(dim=1, keepdim=True) > 0)


def _counts(ids: npt.NDArray[np.integer], vocab_size: int) -> npt.NDArray[np.float32]:
    """How often each piece stands near each frequent one, nearer ones counting more: (vocab_size, neighbours)."""
    size = min(NEIGHBOURS, vocab_size)
    frequent = np.argsort(-np.bincount(ids, minlength=vocab_size), kind="stable")[:size]
    place = np.full(vocab_size, -1, dtype=np.int64)
    place[frequent] = np.arange(size)
    found = np.zeros(vocab_size * size, dtype=np.float32)
    for start in range(0, len(ids), AT_ONCE):
        here = np.asarray(ids[start : start + AT_ONCE + NEAR]).astype(np.int64)
        columns = place[here]
        for far in range(1, NEAR + 1):
            # The first of a pair; what begins in the next stretch is its own.
            first = slice(0, max(0, min(AT_ONCE, len(here) - far)))
            second = slice(far, far + first.stop)
            for piece, beside in ((first, second), (second, first)):
                rows, places = here[piece], columns[beside]
                counted = places >= 0
                found += np.bincount(rows[counted] * size + places[counted], minlength=len(found)) / np.float32(far)
    return found.reshape(vocab_size, size)


def _surprise(counts: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The positive part of log P(neighbour | piece) / P(neighbour)."""
    usual = counts.sum(axis=0) ** SMOOTHED
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-9)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.log(share * (usual.sum() / usual))
    positive: npt.NDArray[np.float32] = np.nan_to_num(np.maximum(found, 0.0), nan=0.0, posinf=0.0).astype(np.float32)
    return positive
