"""Decoders for CPUs: the torch model reads what is given, compiled kernels write what follows.

Both decoders run a `Program` over the rows of a batch. Keys and values are never moved when a search goes on from
other rows: every row has a line of its own in the cache, and a `history` that says in whose line each of its earlier
positions lies. With packed weights the cache is packed, too: 8 bits and a scale for each key and each value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from numba.core import event
from torch import Tensor

from regard.errors import UsageError
from regard.generation import kernels as k
from regard.generation.barrier import ABANDONED, wait_for
from regard.generation.crew import MOST, crew, start_anew
from regard.generation.decoder import TorchGPTDecoder, TorchSeq2SeqDecoder
from regard.generation.program import Program, gpt_program, head_program, translation_program
from regard.models.gpt import GPT
from regard.models.transformer import Transformer
from regard.nn.blocks import Block
from regard.nn.packed import Packed
from regard.nn.threads import one_thread

SHARED_FROM = 4_000_000  # bytes of weights from which a step is worth more than one thread
ROOM = 64  # positions that a cache begins with, or has left after what was read
READ_HERE = 16  # tokens that are read faster by the kernels than by torch

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


class Lines:
    """Keys and values of all layers, a line for each row.

    A row that is named twice by `reorder` gets a second line for what is to come; what was before stays where it is
    and is found by `history`.
    """

    def __init__(self, shapes: Sequence[tuple[int, int]], *, packed: bool) -> None:
        self.shapes, self.packed = shapes, packed
        self.addresses = np.zeros((len(shapes), 4), dtype=np.int64)  # of keys, values and their scales
        self.start(0)

    def start(self, rows: int, positions: int = ROOM) -> None:
        """Empty lines for so many texts."""
        self.lengths = np.zeros(rows, dtype=np.int64)
        self.own = np.arange(rows, dtype=np.int64)  # the line that each row writes to
        self.history = np.zeros((rows, positions), dtype=np.int64)
        self.arrays: list[list[Any]] = [[] for _ in self.shapes]
        self.count = 0
        self._make_room(rows, positions)

    def restart(self, rows: Ints, length: int) -> None:
        """Let these rows begin anew with so many positions, in lines that nobody else goes on from."""
        self.lengths = self.lengths.copy()
        self.lengths[rows] = length
        self.history[rows] = self.own[rows, None]

    def fill(self, layer: int, rows: Ints, keys: Tensor, values: Tensor) -> None:
        """What torch has read of `rows`, (rows, H, T, Dh), ending with the newest position of each."""
        longest = keys.shape[2]
        arrays = self.arrays[layer]
        for number, tensor in enumerate((keys, values)):
            if self.packed:
                scales = tensor.abs().amax(dim=-1).clamp_(min=1e-20) / 127
                self._copy(arrays[2 + number], rows, scales.numpy(), longest)
                tensor = (tensor / scales[..., None]).round_().to(torch.int8)
            self._copy(arrays[number], rows, tensor.numpy(), longest)

    def _copy(self, array: Any, rows: Ints, new: Any, longest: int) -> None:
        for place, row in enumerate(rows):
            length = self.lengths[row]
            array[self.own[row], :, :length] = new[place, :, longest - length :]

    def extend(self, count: int) -> Ints:
        """Make room for `count` more positions of each row; returns which they are, (rows, count)."""
        positions = self.lengths[:, None] + np.arange(count)
        if positions.size and positions.max() >= self.history.shape[1]:
            self._make_room(self.count, max(int(positions.max()) + 1, 2 * self.history.shape[1]))
        np.put_along_axis(self.history, positions, self.own[:, None], axis=1)
        self.lengths = self.lengths + count
        return positions

    def reorder(self, rows: Ints) -> None:
        kept, first = np.unique(rows, return_index=True)
        own = np.full(len(rows), -1, dtype=np.int64)
        own[first] = self.own[kept]
        self.lengths, self.history = self.lengths[rows], self.history[rows]
        copies = np.flatnonzero(own < 0)
        if len(copies):
            free = np.setdiff1d(np.arange(self.count), self._taken(own))[: len(copies)]
            more = np.arange(self.count, self.count + len(copies) - len(free))
            own[copies] = np.concatenate((free, more))
            self._make_room(self.count + len(more), self.history.shape[1])
        self.own = own

    def _taken(self, own: Ints) -> Ints:
        """Lines that nobody else may write to. Of texts of one length only those that are being written: what is
        found in another line lies before the positions to come."""
        if len(self.lengths) and self.lengths.min() == self.lengths.max():
            return own
        past = np.arange(self.history.shape[1]) < self.lengths[:, None]
        return np.concatenate((own, self.history[past]))

    def _make_room(self, lines: int, positions: int) -> None:
        known = self.history.shape[1]
        if lines <= self.count and positions <= known and self.count:
            return
        wider = np.zeros((len(self.history), max(positions, known)), dtype=np.int64)
        wider[:, :known] = self.history
        self.history = wider
        for layer, (heads, width) in enumerate(self.shapes):
            shape = (max(lines, self.count), heads, wider.shape[1])
            kind: Any = np.int8 if self.packed else np.float32
            new = [np.empty((*shape, width), dtype=kind) for _ in range(2)]
            new += [np.empty(shape, dtype=np.float32) for _ in range(2)] if self.packed else []
            for old, bigger in zip(self.arrays[layer], new, strict=False):
                bigger[: old.shape[0], :, : old.shape[2]] = old
            self.arrays[layer] = new
            self.addresses[layer, : len(new)] = [array.ctypes.data for array in new]
        self.count = max(lines, self.count)


class Sources:
    """What cross-attention looks at: the keys and values of every layer, (sources, H, S, Dh), fp32."""

    def __init__(self) -> None:
        self.of_row = np.zeros(0, dtype=np.int64)
        self.lengths = np.ones(1, dtype=np.int64)
        self.history = np.zeros((1, 1), dtype=np.int64)  # a source lies in the line of its own number
        self.arrays: list[tuple[Tensor, Tensor]] = []


class Machine:
    """A program with what it needs to run: the slots' state and the threads' own buffers."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.table = program.table()
        self.constants = np.array([*program.constants, 0.0], dtype=np.float32)
        self.threads = min(torch.get_num_threads(), MOST) if program.weight_bytes >= SHARED_FROM else 1
        self.barrier = np.zeros(8, dtype=np.int64)
        self.state: Floats = np.zeros((0, program.state_width), dtype=np.float32)
        self.buffers: Floats = np.zeros((self.threads, 0), dtype=np.float32)

    def run(self, ids: Ints, rows: Ints, positions: Ints, lines: Lines, sources: Sources) -> None:
        """One step over as many slots as there are `ids`: which token, of which row, at which position."""
        self._make_room(len(ids), max(lines.history.shape[1], sources.history.shape[1]))
        _check_ids(ids, self.program.vocab_size)
        try:
            self._run(ids, rows, positions, lines, sources)
        except BaseException:  # Ctrl-C in the one moment when the others are called and this thread is not yet there
            self.barrier[:] = ABANDONED  # whoever waits for it goes on, and must have ended before the next step
            if not crew().settle():
                start_anew()
            self.barrier = np.zeros(8, dtype=np.int64)
            raise

    def _run(self, ids: Ints, rows: Ints, positions: Ints, lines: Lines, sources: Sources) -> None:
        crew().run(
            self.threads,
            k.run,
            self.table,
            self.state,
            self.inputs,
            self.codes,
            self.code_scales,
            self.corrections,
            self.buffers,
            lines.addresses,
            lines.history.shape[1],
            ids,
            rows,
            lines.own[rows],
            positions,
            positions,
            lines.history,
            sources.of_row[rows] if len(sources.of_row) else rows,
            sources.lengths,
            sources.history,
            self.constants,
            self.barrier,
        )

    def part(self, name: str, width: int) -> Floats:
        """The slots' vectors of this name, (slots, width)."""
        start = self.program.places[name]
        return self.state[:, start : start + width]

    def logits(self) -> Tensor:
        return torch.from_numpy(self.part("logits", self.program.vocab_size).copy())

    def _make_room(self, slots: int, positions: int) -> None:
        program, threads = self.program, self.threads
        if slots != len(self.state) or not slots:
            groups = -(-program.widest // (2 * k.GROUP)) * 2
            self.state = np.zeros((slots, program.state_width), dtype=np.float32)
            self.inputs = np.zeros((threads, slots, groups * k.GROUP), dtype=np.float32)
            self.codes = np.zeros((threads, slots, groups * k.GROUP), dtype=np.int8)
            self.code_scales = np.zeros((threads, slots, groups), dtype=np.float32)
            self.corrections = np.zeros((threads, slots, groups), dtype=np.float32)
        needed = program.widest + positions  # a prepared query, and the scores of a head
        if self.buffers.shape[1] < needed:
            self.buffers = np.zeros((threads, needed), dtype=np.float32)


class FastGPTDecoder:
    """A decoder alone. Every text has its own count of positions, so texts of a batch need no padding."""

    def __init__(self, model: GPT, *, vocab_size: int | None = None) -> None:
        self._model, self._vocab_size = model, vocab_size
        self._machine = Machine(gpt_program(model))
        self._head = Machine(head_program(model))
        self._lines = Lines(self._machine.program.caches, packed=isinstance(model.output_weight, Packed))
        self._sources = Sources()

    @property
    def max_new_tokens(self) -> int:
        """How many more tokens fit into the context."""
        return self._model.config.context - int(self._lines.lengths.max(initial=0))

    @torch.no_grad()
    def prefill(self, ids: Tensor, lengths: Tensor) -> Tensor:
        model, (rows, longest) = self._model, ids.shape
        if longest > model.config.context:
            raise UsageError(f"{longest} tokens do not fit into a context of {model.config.context}.")
        same = bool((lengths == longest).all())
        self._lines.start(rows, min(model.config.context, longest + ROOM))
        if same and ids.numel() <= READ_HERE:
            return self.extend(ids)[:, -1]
        reader = TorchGPTDecoder(model)
        hidden = reader.read(ids, lengths)
        self._lines.lengths = lengths.numpy().astype(np.int64)
        self._lines.history[:] = self._lines.own[:, None]
        self._fill(np.arange(rows), reader)
        return self._logits_of(hidden[:, -1])

    def _fill(self, rows: Ints, reader: TorchGPTDecoder) -> None:
        for layer, cache in enumerate(reader.caches):
            self._lines.fill(layer, rows, *cache.self_attention.read())

    def _logits_of(self, hidden: Tensor) -> Tensor:
        slots = np.arange(len(hidden))
        self._head._make_room(len(hidden), 1)
        self._head.part("x", hidden.shape[1])[:] = hidden.numpy()
        self._head.run(np.zeros_like(slots), slots, slots, self._lines, self._sources)  # no id is looked up
        return self._finished(self._head.logits())

    @torch.no_grad()
    def step(self, ids: Tensor) -> Tensor:
        return self.extend(ids[:, None])[:, -1]

    @torch.no_grad()
    def extend(self, ids: Tensor) -> Tensor:
        """Add several tokens to each row, ids (rows, T); returns the logits after each of them, (rows, T, N)."""
        rows, count = ids.shape
        if rows != len(self._lines.lengths):
            raise UsageError("step goes on from what prefill has read: call prefill first.")
        if count > self.max_new_tokens:
            raise UsageError(f"the context of {self._model.config.context} tokens is full.")
        positions = self._lines.extend(count)
        of_slot = np.repeat(np.arange(rows), count)
        self._machine.run(ids.numpy().astype(np.int64).ravel(), of_slot, positions.ravel(), self._lines, self._sources)
        return self._finished(self._machine.logits()).view(rows, count, -1)

    def _finished(self, logits: Tensor) -> Tensor:
        cap = self._model.config.logit_cap
        with one_thread():
            logits = logits if cap is None else cap * torch.tanh(logits / cap)
        return logits[:, : self._vocab_size]

    def rewind(self, count: int) -> None:
        """Forget the last `count` tokens of every row."""
        self._lines.lengths = self._lines.lengths - count

    @torch.no_grad()
    def refill(self, rows: Tensor, ids: Tensor) -> None:
        """Let these rows, of which none was named twice, go on from ids (rows, T) instead of what they have."""
        self._lines.restart(rows.numpy(), ids.shape[1])
        if ids.shape[1]:
            reader = TorchGPTDecoder(self._model)
            reader.read(ids, torch.full((len(ids),), ids.shape[1]))
            self._fill(rows.numpy(), reader)

    def reorder(self, rows: Tensor) -> None:
        self._lines.reorder(rows.numpy())


class FastSeq2SeqDecoder:
    """The decoder of an encoder-decoder. Beams of one sentence share what was read of it."""

    def __init__(self, model: Transformer, *, start_id: int) -> None:
        self._model, self._start_id = model, start_id
        self._reader = TorchSeq2SeqDecoder(model, start_id=start_id)
        self._machine = Machine(translation_program(model, ROOM))
        self._lines = Lines(self._machine.program.caches, packed=isinstance(model.output_weight, Packed))
        self._sources = Sources()

    @property
    def max_new_tokens(self) -> int | None:
        return self._reader.max_new_tokens

    @torch.no_grad()
    def prefill(self, ids: Tensor, lengths: Tensor) -> Tensor:
        memory = self._reader.read(ids, lengths)
        self._lines.start(len(ids))
        sources = self._sources = Sources()
        sources.of_row = np.arange(len(ids), dtype=np.int64)
        sources.lengths = lengths.numpy().astype(np.int64)
        sources.history = np.repeat(sources.of_row[:, None], ids.shape[1], axis=1)
        for block in self._model.decoder:
            assert isinstance(block, Block) and block.cross_attention is not None
            keys, values = block.cross_attention.read_memory(memory)
            sources.arrays.append((keys.contiguous(), values.contiguous()))
        self._name_sources()
        return self.step(torch.full((len(ids),), self._start_id))

    def _name_sources(self) -> None:
        """Tell the program where the sources lie."""
        table, program = self._machine.table, self._machine.program
        for operation, (keys, values) in zip(program.cross_attentions, self._sources.arrays, strict=True):
            table[operation, k.CROSS_KEYS], table[operation, k.CROSS_VALUES] = keys.data_ptr(), values.data_ptr()

    @torch.no_grad()
    def step(self, ids: Tensor) -> Tensor:
        if len(ids) != len(self._lines.lengths) or not len(ids):
            raise UsageError("step goes on from what prefill has read: call prefill first.")
        if self.max_new_tokens is not None and self._lines.lengths.max() >= self.max_new_tokens:
            raise UsageError(f"this model has learned {self.max_new_tokens} positions, and no more can be written.")
        positions = self._lines.extend(1)
        if positions.max() >= self._machine.program.capacity and self.max_new_tokens is None:
            self._machine = Machine(translation_program(self._model, 2 * int(positions.max())))
            self._name_sources()
        rows = np.arange(len(ids))
        self._machine.run(ids.numpy().astype(np.int64), rows, positions.ravel(), self._lines, self._sources)
        return self._machine.logits()

    def reorder(self, rows: Tensor) -> None:
        chosen = rows.numpy()
        self._lines.reorder(chosen)
        self._sources.of_row = self._sources.of_row[chosen]


def _check_ids(ids: Ints, vocab_size: int) -> None:
    """The kernels read where an id points to, whatever it is."""
    if len(ids) and vocab_size and not 0 <= ids.min() <= ids.max() < vocab_size:
        raise UsageError(f"ids must be those of the vocabulary, 0 to {vocab_size - 1}, not {ids.min()} to {ids.max()}.")


def warm_up(say: Callable[[], None]) -> None:
    """Load the kernels from where an earlier process left them, or `say` that they are compiled, and do it."""
    with event.install_listener("numba:compile", _Announcement(say)):
        wait_for(np.zeros(1, dtype=np.int64).ctypes.data, 0, 1)  # what the crew's threads call first
        machine = Machine(Program(width=1, capacity=0))
        nothing = np.zeros(0, dtype=np.int64)
        machine.run(nothing, nothing, nothing, Lines([], packed=False), Sources())


class _Announcement(event.Listener):  # type: ignore[misc]
    """Says something the first time that numba compiles."""

    def __init__(self, say: Callable[[], None]) -> None:
        self._say: Callable[[], None] | None = say

    def on_start(self, happening: Any) -> None:
        if self._say is not None:
            self._say()
        self._say = None

    def on_end(self, happening: Any) -> None:
        """Nothing more is said."""
