"""Fast encoder inference on a CPU: texts of equal length share a batch, and each thread runs its own batches.

A padding token costs as much as a real one, so texts are sorted by length. A batch consists of texts of equal length,
or of similar lengths if there are too few of equal length. Each thread runs its own batches: threads that share an
operation wait for each other after every operation. All batches of a thread reuse the same buffers: the operating
system clears new memory page by page, which took a tenth of the time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, cast

import torch
from torch import Tensor, nn

from regard.models.bert.model import Bert
from regard.nn import masks
from regard.nn.attention import attention
from regard.nn.blocks import Block
from regard.nn.hooks import has_hooks
from regard.nn.layers import ACTIVATIONS
from regard.nn.threads import one_thread

R = TypeVar("R")

MAX_BATCH_TOKENS = 2048  # larger batches do not make matrix products faster
MIN_BATCH_TOKENS = 256  # smaller batches are slower, so they are filled up with padded shorter texts


def length_batches(lengths: Sequence[int], *, min_batches: int = 1) -> list[list[int]]:
    """Group text indices into batches of similar length, longest first; at least `min_batches` if possible."""
    limit = min(MAX_BATCH_TOKENS, max(MIN_BATCH_TOKENS, -(-sum(lengths) // min_batches)))
    batches: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda index: (-lengths[index], index)):
        if not (batches and _fits(lengths[index], len(batches[-1]), lengths[batches[-1][0]], limit)):
            batches.append([])
        batches[-1].append(index)
    return batches


def _fits(length: int, num_texts: int, longest: int, limit: int) -> bool:
    """Return whether a text of `length` can join a batch of `num_texts` texts that is padded to `longest`."""
    if (num_texts + 1) * longest > limit:
        return False
    return length == longest or num_texts * longest < MIN_BATCH_TOKENS


def in_batches(
    run: Callable[[list[int]], R], lengths: Sequence[int], model: nn.Module
) -> Iterator[tuple[list[int], R]]:
    """Call `run` on batches of texts of similar length; yield the text indices and result of each batch."""
    batches = length_batches(lengths, min_batches=torch.get_num_threads())
    # Hooks are visible only in the calling thread, and an accelerator runs one batch at a time.
    single = has_hooks(model) or next(model.parameters()).device.type != "cpu"
    yield from zip(batches, (map if single else in_threads)(run, batches), strict=True)


def in_threads(run: Callable[[list[int]], R], batches: Sequence[list[int]]) -> Iterator[R]:
    """Run batches in parallel, one per torch thread, and yield the results in order."""
    num_threads = min(torch.get_num_threads(), len(batches))
    if num_threads < 2:
        yield from map(run, batches)
        return
    with one_thread(), ThreadPoolExecutor(num_threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        yield from pool.map(run, batches)


class BufferedEncoder:
    """A forward pass of BERT that reuses memory and returns bitwise identical hidden states.

    It supports no gradients, dropout or hooks; if any of these is needed, it calls the original encoder.
    """

    def __init__(self, bert: Bert) -> None:
        self.bert = bert
        self._buffers = threading.local()  # each thread has its own

    def __call__(self, ids: Tensor, lengths: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """Return the same hidden states (B, T, D) as `Bert` for ids (B, T)."""
        if not self._can_buffer():
            out: Tensor = self.bert(ids, lengths, type_ids)
            return out
        (batch, tokens), d_model = ids.shape, self.bert.config.d_model
        mask = masks.no_mask() if lengths is None else masks.lengths(lengths).materialize(tokens, tokens)
        x: Tensor = self.bert.embedding(ids, type_ids).view(-1, d_model)  # (B · T, D)
        for block in cast(Iterable[Block], self.bert.encoder):
            attn, feed_forward = block.self_attention, block.feed_forward
            qkv = self._linear(attn.qkv_proj, x, "qkv")
            q, k, v = qkv.view(batch, tokens, 3, attn.num_heads, -1).permute(2, 0, 3, 1, 4)  # (B, H, T, Dh)
            heads = attention(q, k, v, mask).transpose(1, 2).reshape(batch * tokens, -1)
            x = block.self_residual.norm(self._linear(attn.out_proj, heads, "sublayer").add_(x))
            inner = self._activate(self._linear(feed_forward.up_proj, x, "inner"))
            x = block.feed_forward_residual.norm(self._linear(feed_forward.down_proj, inner, "sublayer").add_(x))
        return x.view(batch, tokens, d_model)

    def _can_buffer(self) -> bool:
        plain = all(type(part.weight) is nn.Parameter for part in self.bert.modules() if isinstance(part, nn.Linear))
        on_cpu = self.bert.embedding.positions.weight.device.type == "cpu"
        return plain and on_cpu and not (torch.is_grad_enabled() or self.bert.training or has_hooks(self.bert))

    def _linear(self, linear: nn.Linear, x: Tensor, name: str) -> Tensor:
        """Compute x W + b into the buffer `name`, overwriting its content."""
        buffer = getattr(self._buffers, name, None)
        size = x.shape[0] * linear.out_features
        if buffer is None or buffer.numel() < size or buffer.dtype != x.dtype:
            buffer = x.new_empty(size)
            setattr(self._buffers, name, buffer)
        return torch.addmm(linear.bias, x, linear.weight.t(), out=buffer[:size].view(x.shape[0], -1))

    def _activate(self, x: Tensor) -> Tensor:
        activation = self.bert.config.activation
        return torch.ops.aten.gelu_(x) if activation == "gelu" else ACTIVATIONS[activation](x)
