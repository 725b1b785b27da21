"""What a search asks of a model: read a batch, then one symbol after another, row by row.

`Decoder` is the interface; ids and logits are torch tensors, and how the logits come about stays behind it. A
search may repeat and drop rows between steps: one row per sentence becomes one row per beam, and sentences that are
done leave the batch. `TorchSeq2SeqDecoder` is the encoder-decoder behind that interface, `TorchGPTDecoder` the
decoder alone. Nothing here chooses symbols: that is the business of `search` and `sampling`.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from regard.errors import UsageError
from regard.models.gpt import GPT
from regard.models.transformer import Transformer
from regard.nn import masks
from regard.nn.blocks import BlockCache
from regard.nn.masks import Keep


class Decoder(Protocol):
    """One batch in the course of being written. It has a state, so every search and every thread takes its own."""

    @property
    def max_new_tokens(self) -> int | None:
        """How many symbols a row can get before positions run out; None: any number. To be read after prefill."""

    def prefill(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Start anew: read what was given, ids (B, S) of which the first lengths (B,) are real.

        Returns the logits of the first symbol to be written, (B, N), one row for each row that was read.
        """

    def step(self, ids: Tensor) -> Tensor:
        """Add the newest symbol of each row, ids (rows,); returns the logits of the next symbol, (rows, N)."""

    def reorder(self, rows: Tensor) -> None:
        """Go on with these rows (rows′,), in this order; a row may be named several times or not at all."""


class TorchSeq2SeqDecoder:
    """An encoder-decoder with caches: the source is encoded once, and so are its keys and values.

    The model is only read. It must be in eval mode, since dropout would make every answer a different one.
    """

    def __init__(self, model: Transformer, *, start_id: int) -> None:
        config = model.config
        if not (config.has_encoder and config.has_decoder):
            raise UsageError(f"translating needs an encoder-decoder, but this model is {config.architecture}.")
        if not 0 <= start_id < config.vocab_size:
            raise UsageError(f"start_id must be an id of the vocabulary, 0 to {config.vocab_size - 1}, not {start_id}.")
        self._model = model
        self._start_id = start_id
        self._caches: list[BlockCache] = []
        self._memory_keep: Keep = masks.everything()
        self._source_of = torch.empty(0, dtype=torch.long)  # (rows,) which source each row reads

    @property
    def max_new_tokens(self) -> int | None:
        config = self._model.config
        return config.max_positions if config.positions == "learned" else None

    # Without gradients rather than in inference mode: a table of positions that grows here is used by training too.
    @torch.no_grad()
    def prefill(self, ids: Tensor, lengths: Tensor) -> Tensor:
        memory = self.read(ids, lengths)
        self._caches = self._model.new_caches()
        self._source_of = torch.arange(len(ids), device=ids.device)
        start = torch.full((len(ids), 1), self._start_id, device=ids.device)
        hidden = self._model.decode(start, memory, self._memory_keep, caches=self._caches)
        return self._model.logits(hidden[:, -1])

    def read(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """What the encoder makes of the sources, (B, S, D)."""
        model = self._model
        if model.training:
            raise UsageError("the model is in training mode, where dropout changes its answers: call model.eval().")
        longest = ids.shape[1]
        keep = masks.everything() if bool((lengths == longest).all()) else masks.lengths(lengths)
        self._memory_keep = keep.ready(1, longest, ids.device)
        return model.encode(ids, keep)

    @torch.no_grad()
    def step(self, ids: Tensor) -> Tensor:
        if not self._caches:
            raise UsageError("step goes on from what prefill has read: call prefill first.")
        hidden = self._model.decode(ids[:, None], memory_keep=self._memory_keep, caches=self._caches)
        return self._model.logits(hidden[:, -1])

    @torch.no_grad()
    def reorder(self, rows: Tensor) -> None:
        for cache in self._caches:
            cache.self_attention.reorder(rows)
        # Beams of one sentence read the same source. As long as they only change places among themselves, what was
        # kept of the source stays where it is, which saves half of the copying.
        source_of = self._source_of[rows]
        if torch.equal(source_of, self._source_of):
            return
        self._source_of = source_of
        self._memory_keep = self._memory_keep.select(rows)
        for cache in self._caches:
            cache.cross_attention.reorder(rows)


class TorchGPTDecoder:
    """A decoder alone, with caches. Texts of a batch are aligned at their ends: padding comes before them."""

    def __init__(self, model: GPT, *, vocab_size: int | None = None) -> None:
        self._model = model
        self._vocab_size = vocab_size  # tokens that there are, where the weights have more rows than that
        self.caches: list[BlockCache] = []
        self._padding: Tensor | None = None  # (rows,) where texts differ in length

    @property
    def max_new_tokens(self) -> int:
        """How many more tokens fit into the context."""
        return self._model.config.context - (self.caches[0].self_attention.length if self.caches else 0)

    @torch.no_grad()
    def prefill(self, ids: Tensor, lengths: Tensor) -> Tensor:
        hidden = self.read(ids, lengths)
        return self._model.logits(hidden[:, -1])[:, : self._vocab_size]

    @torch.no_grad()
    def read(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Hidden states of what is given, (B, T, D), each row ending with its newest; `caches` then hold the rest."""
        model = self._model
        if model.training:
            raise UsageError("the model is in training mode, where dropout changes its answers: call model.eval().")
        longest = ids.shape[1]
        if longest > model.config.context:
            raise UsageError(f"{longest} tokens do not fit into a context of {model.config.context}.")
        self.caches, self._padding = model.new_caches(), None
        if bool((lengths != longest).any()):
            self._padding = longest - lengths
            places = torch.arange(longest, device=ids.device) - self._padding[:, None]
            ids = ids.gather(1, places.clamp(min=0))  # what padding stands for is never looked at
        return model.decode(ids, caches=self.caches, padding=self._padding)

    @torch.no_grad()
    def step(self, ids: Tensor) -> Tensor:
        return self.extend(ids[:, None])[:, -1]

    @torch.no_grad()
    def extend(self, ids: Tensor) -> Tensor:
        """Add several tokens to each row, ids (rows, T); returns the logits after each of them, (rows, T, N)."""
        if not self.caches:
            raise UsageError("step goes on from what prefill has read: call prefill first.")
        if ids.shape[1] > self.max_new_tokens:
            raise UsageError(f"the context of {self._model.config.context} tokens is full.")
        hidden = self._model.decode(ids, caches=self.caches, padding=self._padding)
        return self._model.logits(hidden)[..., : self._vocab_size]

    def rewind(self, count: int) -> None:
        """Forget the last `count` tokens of every row."""
        for cache in self.caches:
            cache.self_attention.truncate(cache.self_attention.length - count)

    @torch.no_grad()
    def refill(self, rows: Tensor, ids: Tensor) -> None:
        """Let these rows go on from ids (rows, T), no more than the longest row has, instead of what they have."""
        fresh = self._model.new_caches()
        if ids.shape[1]:
            self._model.decode(ids, caches=fresh)
        count, _, length, _ = self.caches[0].self_attention.read()[0].shape
        padding = torch.zeros(count, dtype=torch.long, device=ids.device)
        if self._padding is not None:
            padding += self._padding
        padding[rows] = length - ids.shape[1]
        for cache, new in zip(self.caches, fresh, strict=True):
            cache.self_attention.refill(rows, new.self_attention)
        self._pad(padding)

    @torch.no_grad()
    def reorder(self, rows: Tensor) -> None:
        for cache in self.caches:
            cache.self_attention.reorder(rows)
        if self._padding is not None:
            self._pad(self._padding[rows])

    def _pad(self, padding: Tensor) -> None:
        """Rows begin with so much padding. What is padding in all of them is forgotten: it would take their room."""
        spare = int(padding.min())
        for cache in self.caches if spare else ():
            cache.self_attention.forget(spare)
        self._padding = padding - spare if bool((padding > spare).any()) else None
