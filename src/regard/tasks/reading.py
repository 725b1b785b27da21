"""Many texts through one encoder: texts of like length together, and each batch in a thread of its own.

Reading is bound by arithmetic, so what is computed for padding is lost: texts are sorted, and a batch holds texts of
one length, or of nearly one where there are few. Threads that share every operation wait for each other after each of
them; here each takes whole batches and they never meet. And every batch is computed in the same memory: fresh memory
has to be cleared by the system first, page by page, which took a tenth of the time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, cast

import torch
from torch import Tensor, nn

from regard.models.bert import Bert
from regard.nn import masks
from regard.nn.attention import attend
from regard.nn.blocks import Block
from regard.nn.feed_forward import ACTIVATIONS
from regard.nn.taps import is_watched
from regard.nn.threads import one_thread

R = TypeVar("R")

LARGEST = 2048  # tokens of a batch: more do not make the matrix products faster
SMALLEST = 256  # fewer make them slower: then texts of other lengths join, and are padded


def alike(lengths: Sequence[int], *, shares: int = 1) -> list[list[int]]:
    """The numbers of the texts, dealt into batches of like length, the longest first; at least `shares` if possible."""
    largest = min(LARGEST, max(SMALLEST, -(-sum(lengths) // shares)))
    found: list[list[int]] = []
    for number in sorted(range(len(lengths)), key=lambda number: (-lengths[number], number)):
        if not (found and _joins(lengths[number], len(found[-1]), lengths[found[-1][0]], largest)):
            found.append([])
        found[-1].append(number)
    return found


def _joins(length: int, texts: int, longest: int, largest: int) -> bool:
    """Whether a text of `length` joins a batch of so many texts, padded to `longest`."""
    if (texts + 1) * longest > largest:
        return False
    return length == longest or texts * longest < SMALLEST


def padded(rows: Sequence[Sequence[int]], pad_id: int, device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Rows of ids side by side, and how many of each are real; None if all are."""
    longest = max(map(len, rows))
    ids = torch.tensor([[*row, *[pad_id] * (longest - len(row))] for row in rows], device=device)
    lengths = [len(row) for row in rows]
    return ids, None if min(lengths) == longest else torch.tensor(lengths, device=device)


def in_batches(
    run: Callable[[list[int]], R], lengths: Sequence[int], model: nn.Module
) -> Iterator[tuple[list[int], R]]:
    """The numbers of texts of like length, and what `run` makes of them."""
    batches = alike(lengths, shares=torch.get_num_threads())
    # Who watches is known in the thread that asked, and an accelerator computes one batch at a time.
    alone = is_watched(model) or next(model.parameters()).device.type != "cpu"
    yield from zip(batches, (map if alone else in_threads)(run, batches), strict=True)


def in_threads(run: Callable[[list[int]], R], batches: Sequence[list[int]]) -> Iterator[R]:
    """`run` of each batch, in order; as many at a time as torch has threads, each computed by one of them."""
    threads = min(torch.get_num_threads(), len(batches))
    if threads < 2:
        yield from map(run, batches)
        return
    with one_thread(), ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        yield from pool.map(run, batches)


class Reader:
    """The forward pass of an encoder for those who only read: bit for bit the same hidden states, in memory used again.

    It has no gradients, no dropout and no taps; where one of them is wanted, the encoder itself runs.
    """

    def __init__(self, bert: Bert) -> None:
        self.bert = bert
        self._memory = threading.local()  # a thread writes where no other does

    def __call__(self, ids: Tensor, lengths: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        """ids (B, T) → hidden states (B, T, D), as `Bert` gives them."""
        if not self._may_hurry():
            out: Tensor = self.bert(ids, lengths, segments)
            return out
        (batch, tokens), width = ids.shape, self.bert.config.width
        keep = masks.everything() if lengths is None else masks.lengths(lengths).ready(tokens, tokens)
        x: Tensor = self.bert.embedding(ids, segments).view(-1, width)  # the tokens of all texts one below the other
        for block in cast(Iterable[Block], self.bert.encoder):
            attention, feed_forward = block.self_attention, block.feed_forward
            joint = self._linear(attention.query_key_value, x, "attention")
            q, k, v = joint.view(batch, tokens, 3, attention.heads, -1).permute(2, 0, 3, 1, 4)
            heads = attend(q, k, v, keep).transpose(1, 2).reshape(batch * tokens, -1)
            x = block.self_residual.norm(self._linear(attention.output, heads, "sublayer").add_(x))
            inner = self._activated(self._linear(feed_forward.widen, x, "inner"))
            x = block.feed_forward_residual.norm(self._linear(feed_forward.narrow, inner, "sublayer").add_(x))
        return x.view(batch, tokens, width)

    def _may_hurry(self) -> bool:
        plain = all(type(part.weight) is nn.Parameter for part in self.bert.modules() if isinstance(part, nn.Linear))
        on_cpu = self.bert.embedding.positions.weight.device.type == "cpu"
        return plain and on_cpu and not (torch.is_grad_enabled() or self.bert.training or is_watched(self.bert))

    def _linear(self, linear: nn.Linear, x: Tensor, place: str) -> Tensor:
        """x W + b, where what stood at this place is no longer needed."""
        known = getattr(self._memory, place, None)
        size = x.shape[0] * linear.out_features
        if known is None or known.numel() < size or known.dtype != x.dtype:
            known = x.new_empty(size)
            setattr(self._memory, place, known)
        return torch.addmm(linear.bias, x, linear.weight.t(), out=known[:size].view(x.shape[0], -1))

    def _activated(self, x: Tensor) -> Tensor:
        activation = self.bert.config.activation
        return torch.ops.aten.gelu_(x) if activation == "gelu" else ACTIVATIONS[activation](x)
