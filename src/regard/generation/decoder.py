"""The decoder interface of search and sampling, and its torch implementations.

A `Decoder` prefills a batch, then returns the logits of the next token at each step. A search may repeat and drop rows
between steps: one row per sentence becomes one row per beam, and finished sentences leave the batch. `search` and
`sampling` choose the tokens.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

from regard.models.gpt.model import GPT
from regard.models.transformer.model import Transformer
from regard.nn import masks
from regard.nn.blocks import BlockCache
from regard.nn.masks import AttentionMask
from regard.utils.errors import UsageError


class Decoder(Protocol):
    """Computes the logits of a batch of growing sequences. Stateful: use one decoder per search and thread."""

    @property
    def max_new_tokens(self) -> int | None:
        """The number of tokens that fit before positions run out; None if unlimited. Valid after prefill."""

    def prefill(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Reset the decoder and process ids (B, S), right-padded, with their lengths (B,).

        Returns the logits of the first generated token, (B, V).
        """

    def step(self, ids: Tensor) -> Tensor:
        """Add the newest token of each row, ids (rows,); returns the logits of the next token, (rows, V)."""

    def reorder(self, rows: Tensor) -> None:
        """Continue with these rows (rows′,), in this order. A row may be repeated or left out."""


class SpeculativeDecoder(Decoder, Protocol):
    """A decoder that can append several tokens at once and remove them again."""

    def step(self, ids: Tensor) -> Tensor:
        return self.extend(ids[:, None])[:, -1]

    def extend(self, ids: Tensor) -> Tensor:
        """Add several tokens to each row, ids (rows, T); returns the logits after each of them, (rows, T, V)."""

    def rewind(self, count: int) -> None:
        """Remove the last `count` tokens of every row."""

    def refill(self, rows: Tensor, ids: Tensor) -> None:
        """Replace the context of these rows with ids (rows, T); T is 0 to the length of the longest row.

        `reorder` must not have repeated these rows.
        """


class TorchSeq2SeqDecoder:
    """An encoder-decoder with KV caches: the encoder output and its keys and values are computed once.

    The model must be in eval mode, since dropout would make the output random.
    """

    def __init__(self, model: Transformer, *, start_id: int) -> None:
        if not 0 <= start_id < model.config.vocab_size:
            message = f"start_id must be in the vocabulary, 0 to {model.config.vocab_size - 1}, not {start_id}."
            raise UsageError(message, argument="start_id", value=start_id)
        self._model, self._start_id = model, start_id
        self._caches: list[BlockCache] = []
        self._memory_mask: AttentionMask = masks.no_mask()
        self._source_of = torch.empty(0, dtype=torch.long)  # (rows,) the source of each row

    @property
    def max_new_tokens(self) -> int | None:
        config = self._model.config
        return config.max_positions if config.positions == "learned" else None

    # no_grad instead of inference_mode: a position table that grows here may be used in training later.
    @torch.no_grad()
    def prefill(self, ids: Tensor, lengths: Tensor) -> Tensor:
        memory = self.read(ids, lengths)
        self._caches = self._model.new_caches()
        self._source_of = torch.arange(len(ids), device=ids.device)
        start = torch.full((len(ids), 1), self._start_id, device=ids.device)
        hidden = self._model.decode(start, memory, self._memory_mask, caches=self._caches)
        return self._model.logits(hidden[:, -1])

    def read(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Encode the sources: (B, S) → memory (B, S, D)."""
        _check_eval(self._model)
        longest = ids.shape[1]
        mask = masks.no_mask() if bool((lengths == longest).all()) else masks.lengths(lengths)
        self._memory_mask = mask.materialize(1, longest, ids.device)
        return self._model.encode(ids, mask)

    @torch.no_grad()
    def step(self, ids: Tensor) -> Tensor:
        if not self._caches:
            raise no_context()
        hidden = self._model.decode(ids[:, None], memory_mask=self._memory_mask, caches=self._caches)
        return self._model.logits(hidden[:, -1])

    @torch.no_grad()
    def reorder(self, rows: Tensor) -> None:
        for cache in self._caches:
            cache.self_attention.reorder(rows)
        # Beams of one sentence share a source. If they only swap among themselves, the cross-attention cache stays
        # as it is, which saves half of the copying.
        source_of = self._source_of[rows]
        if torch.equal(source_of, self._source_of):
            return
        self._source_of = source_of
        self._memory_mask = self._memory_mask.select(rows)
        for cache in self._caches:
            cache.cross_attention.reorder(rows)


class TorchGPTDecoder(SpeculativeDecoder):
    """A decoder-only model with KV caches. A batch is padded on the left."""

    def __init__(self, model: GPT, *, vocab_size: int | None = None) -> None:
        self._model = model
        self._vocab_size = vocab_size  # size of the tokenizer, if the output matrix has more rows
        self.caches: list[BlockCache] = []
        self._padding: Tensor | None = None  # (rows,) number of padding tokens before each text; None without padding

    @property
    def max_new_tokens(self) -> int:
        """The number of tokens that still fit into the context."""
        return self._model.config.context_length - (self.caches[0].self_attention.length if self.caches else 0)

    @torch.no_grad()
    def prefill(self, ids: Tensor, lengths: Tensor) -> Tensor:
        hidden = self.read(ids, lengths)
        return self._model.logits(hidden[:, -1])[:, : self._vocab_size]

    @torch.no_grad()
    def read(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Fill `caches` with ids (B, T) and return their hidden states (B, T, D), padded on the left."""
        model = self._model
        _check_eval(model)
        longest = ids.shape[1]
        check_fits(longest, model.config.context_length)
        self.caches, self._padding = model.new_caches(), None
        if bool((lengths != longest).any()):
            self._padding = longest - lengths
            places = torch.arange(longest, device=ids.device) - self._padding[:, None]
            ids = ids.gather(1, places.clamp(min=0))  # (B, T), padding now on the left; its ids do not matter
        return model.decode(ids, caches=self.caches, padding=self._padding)

    @torch.no_grad()
    def extend(self, ids: Tensor) -> Tensor:
        if not self.caches:
            raise no_context()
        check_fits(self.caches[0].self_attention.length + ids.shape[1], self._model.config.context_length)
        hidden = self._model.decode(ids, caches=self.caches, padding=self._padding)
        return self._model.logits(hidden)[..., : self._vocab_size]

    def rewind(self, count: int) -> None:
        for cache in self.caches:
            cache.self_attention.truncate(cache.self_attention.length - count)

    @torch.no_grad()
    def refill(self, rows: Tensor, ids: Tensor) -> None:
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
        """Set the padding of each row, (rows,). Positions that are padding in every row are dropped from the caches."""
        spare = int(padding.min())
        for cache in self.caches if spare else ():
            cache.self_attention.drop_first(spare)
        self._padding = padding - spare if bool((padding > spare).any()) else None


def _check_eval(model: nn.Module) -> None:
    if model.training:
        message = "the model is in training mode, where dropout makes its output random: call model.eval()."
        raise UsageError(message, argument="model", hint="model.eval()")


def check_fits(tokens: int, context_length: int) -> None:
    if tokens > context_length:
        message = f"{tokens} tokens exceed the context length, {context_length}."
        raise UsageError(message, argument="ids", value=tokens)


def no_context() -> UsageError:
    return UsageError("the decoder has no context for these rows: call prefill first.", argument="ids", hint="prefill")
