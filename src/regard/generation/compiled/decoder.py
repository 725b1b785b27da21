"""Decoders for CPUs: torch encodes the prompt, compiled kernels generate the continuation.

Both decoders run a `Program` over the rows of a batch. `reorder` never moves keys and values: each row of the batch
writes to its own row of the cache, and `history` maps each earlier position to the cache row that stores it. With
quantized weights the cache is quantized too: 8 bits per number and a scale for each key and each value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from numba.core import event
from torch import Tensor

from regard.generation.compiled import kernels as k
from regard.generation.compiled.intrinsics import ABANDONED, wait_for
from regard.generation.compiled.program import Program, gpt_program, head_program, translation_program
from regard.generation.compiled.thread_pool import MAX_THREADS, replace_pool, thread_pool
from regard.generation.decoder import SpeculativeDecoder, TorchGPTDecoder, TorchSeq2SeqDecoder, check_fits, no_context
from regard.models.gpt.model import GPT
from regard.models.transformer.model import Transformer
from regard.nn.blocks import Block
from regard.nn.threads import one_thread
from regard.utils.errors import UsageError

MULTITHREAD_BYTES = 4_000_000  # a step uses several threads if the model has at least this many bytes of weights
SPARE_POSITIONS = 64  # positions of a new cache, or free positions after the prompt
MAX_KERNEL_PREFILL = 16  # largest prompt, in tokens of the batch, that the kernels prefill faster than torch

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


class BeamKVCache:
    """The KV cache of all layers, (cache rows, H, positions, Dh) each.

    A row of the batch that `reorder` repeats gets a new cache row for its next positions. Its earlier positions are not
    moved; `history` (rows, positions) maps them to their cache rows.
    """

    def __init__(self, program: Program) -> None:
        self.shapes, self.quantized = program.caches, program.quantized
        self.addresses = np.zeros((len(self.shapes), 4), dtype=np.int64)  # of keys, values and their scales
        self.start(0)

    def start(self, rows: int, positions: int = SPARE_POSITIONS) -> None:
        """Clear the cache and reserve a cache row for each of `rows` rows."""
        self.lengths = np.zeros(rows, dtype=np.int64)
        self.cache_rows = np.arange(rows, dtype=np.int64)  # (rows,) where each row writes to
        self.history = np.zeros((rows, positions), dtype=np.int64)
        self.arrays: list[list[Any]] = [[] for _ in self.shapes]
        self.count = 0
        self._reserve(rows, positions)

    def restart(self, rows: Ints, lengths: Ints | int) -> None:
        """Reset each of these rows to `lengths` positions. Their cache rows must not be shared with other rows."""
        self.lengths = self.lengths.copy()
        self.lengths[rows] = lengths
        self.history[rows] = self.cache_rows[rows, None]

    def fill(self, layer: int, rows: Ints, keys: Tensor, values: Tensor) -> None:
        """Copy keys and values from torch, (rows, H, T, Dh), padded on the left, into the cache rows of `rows`."""
        longest = keys.shape[2]
        arrays = self.arrays[layer]
        for number, tensor in enumerate((keys, values)):
            if self.quantized:
                scales = tensor.abs().amax(dim=-1).clamp_(min=1e-20) / 127
                self._copy(arrays[2 + number], rows, scales.numpy(), longest)
                tensor = (tensor / scales[..., None]).round_().to(torch.int8)
            self._copy(arrays[number], rows, tensor.numpy(), longest)

    def _copy(self, array: Any, rows: Ints, new: Any, longest: int) -> None:
        for place, row in enumerate(rows):
            length = self.lengths[row]
            array[self.cache_rows[row], :, :length] = new[place, :, longest - length :]

    def extend(self, count: int) -> Ints:
        """Reserve `count` more positions for each row; returns the positions, (rows, count)."""
        positions = self.lengths[:, None] + np.arange(count)
        if positions.size and positions.max() >= self.history.shape[1]:
            self._reserve(self.count, max(int(positions.max()) + 1, 2 * self.history.shape[1]))
        np.put_along_axis(self.history, positions, self.cache_rows[:, None], axis=1)
        self.lengths = self.lengths + count
        return positions

    def reorder(self, rows: Ints) -> None:
        kept, first = np.unique(rows, return_index=True)
        cache_rows = np.full(len(rows), -1, dtype=np.int64)
        cache_rows[first] = self.cache_rows[kept]
        self.lengths, self.history = self.lengths[rows], self.history[rows]
        copies = np.flatnonzero(cache_rows < 0)
        if len(copies):
            free = np.setdiff1d(np.arange(self.count), self._in_use(cache_rows))[: len(copies)]
            more = np.arange(self.count, self.count + len(copies) - len(free))
            cache_rows[copies] = np.concatenate((free, more))
            self._reserve(self.count + len(more), self.history.shape[1])
        self.cache_rows = cache_rows

    def _in_use(self, cache_rows: Ints) -> Ints:
        """The cache rows that cannot be reused, given the current ones.

        If all rows have the same length, only the current cache rows are in use: other cache rows are read only at
        earlier positions, and new positions are written after them.
        """
        if len(self.lengths) and self.lengths.min() == self.lengths.max():
            return cache_rows
        past = np.arange(self.history.shape[1]) < self.lengths[:, None]
        return np.concatenate((cache_rows, self.history[past]))

    def _reserve(self, rows: int, positions: int) -> None:
        capacity = self.history.shape[1]
        if rows <= self.count and positions <= capacity and self.count:
            return
        larger = np.zeros((len(self.history), max(positions, capacity)), dtype=np.int64)
        larger[:, :capacity] = self.history
        self.history = larger
        for layer, (num_heads, head_dim) in enumerate(self.shapes):
            shape = (max(rows, self.count), num_heads, larger.shape[1])
            kind: Any = np.int8 if self.quantized else np.float32
            new = [np.empty((*shape, head_dim), dtype=kind) for _ in range(2)]
            new += [np.empty(shape, dtype=np.float32) for _ in range(2)] if self.quantized else []
            for old, bigger in zip(self.arrays[layer], new, strict=False):
                bigger[: old.shape[0], :, : old.shape[2]] = old
            self.arrays[layer] = new
            self.addresses[layer, : len(new)] = [array.ctypes.data for array in new]
        self.count = max(rows, self.count)


class CrossKVCache:
    """Keys and values of the encoder output for every layer, (sources, H, S, Dh), fp32."""

    def __init__(self) -> None:
        self.of_row = np.zeros(0, dtype=np.int64)
        self.lengths = np.ones(1, dtype=np.int64)
        self.history = np.zeros((1, 1), dtype=np.int64)  # source i is in cache row i
        self.arrays: list[tuple[Tensor, Tensor]] = []


NO_SOURCES = CrossKVCache()  # for a decoder-only model


class ProgramRunner:
    """Runs a program, and owns the state of the slots and the buffers of each thread."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.table = program.table()
        self.constants = np.array([*program.constants, 0.0], dtype=np.float32)
        self.threads = min(torch.get_num_threads(), MAX_THREADS) if program.weight_bytes >= MULTITHREAD_BYTES else 1
        self.barrier = np.zeros(8, dtype=np.int64)
        self.state: Floats = np.zeros((0, 0), dtype=np.float32)
        self.buffers: Floats = np.zeros((self.threads, 0), dtype=np.float32)

    def run(
        self, ids: Ints, rows: Ints, positions: Ints, cache: BeamKVCache, cross_cache: CrossKVCache = NO_SOURCES
    ) -> None:
        """Run one step. `ids`, `rows` and `positions` have one entry for each slot: its token, row and position."""
        self._reserve(len(ids), max(cache.history.shape[1], cross_cache.history.shape[1]))
        vocab_size = self.program.vocab_size
        if vocab_size and not 0 <= ids.min(initial=0) <= ids.max(initial=0) < vocab_size:  # kernels do not check bounds
            message = f"ids must be in the vocabulary, 0 to {vocab_size - 1}, got {ids.min()} to {ids.max()}."
            raise UsageError(message, argument="ids", value=(int(ids.min()), int(ids.max())))
        memory = self.state, self.buffers, self.inputs, self.codes, self.code_scales, self.corrections
        slots = ids, rows, positions, cache.cache_rows[rows], cache.history, cache.addresses
        source_of = cross_cache.of_row[rows] if len(cross_cache.of_row) else rows
        sources = source_of, cross_cache.lengths, cross_cache.history
        try:
            job = self.table, self.constants, self.barrier, *memory, *slots, *sources
            thread_pool().run(self.threads, k.run, *job)
        except BaseException:  # Ctrl-C after the other threads started and before this one joined
            self.barrier[:] = ABANDONED  # releases the waiting threads; they must finish before the next step
            if not thread_pool().wait_until_idle():
                replace_pool()
            self.barrier = np.zeros(8, dtype=np.int64)
            raise

    def part(self, name: str, size: int) -> Floats:
        """Return the part `name` of the state, (slots, size)."""
        start = self.program.offsets[name]
        return self.state[:, start : start + size]

    def logits(self) -> Tensor:
        return torch.from_numpy(self.part("logits", self.program.vocab_size).copy())

    def _reserve(self, slots: int, positions: int) -> None:
        program, threads = self.program, self.threads
        if slots != len(self.state) or not slots:
            groups = -(-program.max_inputs // (2 * k.GROUP)) * 2
            self.state = np.zeros((slots, sum(program.sizes.values())), dtype=np.float32)
            self.inputs = np.zeros((threads, slots, groups * k.GROUP), dtype=np.float32)
            self.codes = np.zeros((threads, slots, groups * k.GROUP), dtype=np.int8)
            self.code_scales = np.zeros((threads, slots, groups), dtype=np.float32)
            self.corrections = np.zeros((threads, slots, groups), dtype=np.float32)
        needed = program.max_inputs + positions  # a query after norm and rotation, and the scores of a head
        if self.buffers.shape[1] < needed:
            self.buffers = np.zeros((threads, needed), dtype=np.float32)


class CompiledGPTDecoder(SpeculativeDecoder):
    """A decoder-only model. Each row has its own length, so a batch needs no padding."""

    def __init__(self, model: GPT, *, vocab_size: int | None = None) -> None:
        self._model, self._vocab_size = model, vocab_size
        self._runner, self._head = ProgramRunner(gpt_program(model)), ProgramRunner(head_program(model))
        self._cache = BeamKVCache(self._runner.program)

    @property
    def max_new_tokens(self) -> int:
        """The number of tokens that still fit into the context."""
        return self._model.config.context_length - int(self._cache.lengths.max(initial=0))

    @torch.no_grad()
    def prefill(self, ids: Tensor, lengths: Tensor) -> Tensor:
        model, (rows, longest) = self._model, ids.shape
        check_fits(longest, model.config.context_length)
        self._cache.start(rows, min(model.config.context_length, longest + SPARE_POSITIONS))
        if ids.numel() <= MAX_KERNEL_PREFILL and bool((lengths == longest).all()):
            return self.extend(ids)[:, -1]
        return self._logits_of(self._read(np.arange(rows), ids, lengths))

    def _read(self, rows: Ints, ids: Tensor, lengths: Tensor) -> Tensor:
        """Encode the contexts of these rows with torch and cache them; returns their last hidden states, (rows, D)."""
        reader = TorchGPTDecoder(self._model)
        hidden = reader.read(ids, lengths)
        self._cache.restart(rows, lengths.numpy())
        for layer, cache in enumerate(reader.caches):
            self._cache.fill(layer, rows, *cache.self_attention.read())
        return hidden[:, -1]

    def _logits_of(self, hidden: Tensor) -> Tensor:
        slots, no_ids = np.arange(len(hidden)), np.zeros(len(hidden), dtype=np.int64)
        self._head._reserve(len(hidden), 1)
        self._head.part("x", hidden.shape[1])[:] = hidden.numpy()
        self._head.run(no_ids, slots, slots, self._cache)
        return self._capped(self._head.logits())

    @torch.no_grad()
    def extend(self, ids: Tensor) -> Tensor:
        rows, count = ids.shape
        if rows != len(self._cache.lengths):
            raise no_context()
        check_fits(int(self._cache.lengths.max(initial=0)) + count, self._model.config.context_length)
        positions, of_slot = self._cache.extend(count), np.repeat(np.arange(rows), count)
        self._runner.run(ids.numpy().astype(np.int64).ravel(), of_slot, positions.ravel(), self._cache)
        return self._capped(self._runner.logits()).view(rows, count, -1)

    def _capped(self, logits: Tensor) -> Tensor:
        cap = self._model.config.logit_softcap
        with one_thread():
            logits = logits if cap is None else cap * torch.tanh(logits / cap)
        return logits[:, : self._vocab_size]

    def rewind(self, count: int) -> None:
        self._cache.lengths = self._cache.lengths - count

    @torch.no_grad()
    def refill(self, rows: Tensor, ids: Tensor) -> None:
        if ids.shape[1]:
            self._read(rows.numpy(), ids, torch.full((len(ids),), ids.shape[1]))
        else:
            self._cache.restart(rows.numpy(), 0)

    def reorder(self, rows: Tensor) -> None:
        self._cache.reorder(rows.numpy())


class CompiledSeq2SeqDecoder:
    """The decoder of an encoder-decoder. Beams of one sentence share its cross-attention cache."""

    def __init__(self, model: Transformer, *, start_id: int) -> None:
        self._model, self._start_id = model, start_id
        self._reader = TorchSeq2SeqDecoder(model, start_id=start_id)
        self._runner = ProgramRunner(translation_program(model, SPARE_POSITIONS))
        self._cache = BeamKVCache(self._runner.program)
        self._cross_cache = CrossKVCache()

    @property
    def max_new_tokens(self) -> int | None:
        return self._reader.max_new_tokens

    @torch.no_grad()
    def prefill(self, ids: Tensor, lengths: Tensor) -> Tensor:
        memory = self._reader.read(ids, lengths)
        self._cache.start(len(ids))
        cross_cache = self._cross_cache = CrossKVCache()
        cross_cache.of_row = np.arange(len(ids), dtype=np.int64)
        cross_cache.lengths = lengths.numpy().astype(np.int64)
        cross_cache.history = np.repeat(cross_cache.of_row[:, None], ids.shape[1], axis=1)
        for block in self._model.decoder:
            assert isinstance(block, Block) and block.cross_attention is not None
            keys, values = block.cross_attention.read_memory(memory)
            cross_cache.arrays.append((keys.contiguous(), values.contiguous()))
        self._set_source_addresses()
        return self.step(torch.full((len(ids),), self._start_id))

    def _set_source_addresses(self) -> None:
        """Write the addresses of the cross-attention cache into the program."""
        table, program = self._runner.table, self._runner.program
        for operation, (keys, values) in zip(program.cross_attentions, self._cross_cache.arrays, strict=True):
            table[operation, k.CROSS_KEYS], table[operation, k.CROSS_VALUES] = keys.data_ptr(), values.data_ptr()

    @torch.no_grad()
    def step(self, ids: Tensor) -> Tensor:
        if len(ids) != len(self._cache.lengths) or not len(ids):
            raise no_context()
        if self.max_new_tokens is not None:
            check_fits(int(self._cache.lengths.max()) + 1, self.max_new_tokens)
        positions = self._cache.extend(1)
        if positions.max() >= self._runner.program.capacity and self.max_new_tokens is None:
            self._runner = ProgramRunner(translation_program(self._model, 2 * int(positions.max())))
            self._set_source_addresses()
        rows = np.arange(len(ids))
        self._runner.run(ids.numpy().astype(np.int64), rows, positions.ravel(), self._cache, self._cross_cache)
        return self._runner.logits()

    def reorder(self, rows: Tensor) -> None:
        self._cache.reorder(rows.numpy())
        self._cross_cache.of_row = self._cross_cache.of_row[rows.numpy()]


def warm_up(notify: Callable[[], None]) -> None:
    """Load the kernels from numba's cache. If they are not cached, call `notify`, then compile them."""
    with event.install_listener("numba:compile", _CompileListener(notify)):
        wait_for(np.zeros(1, dtype=np.int64).ctypes.data, 0, 1)  # the first function that the threads of the pool call
        nothing, empty = np.zeros(0, dtype=np.int64), Program(d_model=1, capacity=0)
        ProgramRunner(empty).run(nothing, nothing, nothing, BeamKVCache(empty))


class _CompileListener(event.Listener):  # type: ignore[misc]
    """Calls `notify` the first time that numba compiles."""

    def __init__(self, notify: Callable[[], None]) -> None:
        self._notify: Callable[[], None] | None = notify

    def on_start(self, event: Any) -> None:
        if self._notify is not None:
            self._notify()
        self._notify = None

    def on_end(self, event: Any) -> None:
        """Do nothing; required by numba's interface."""
