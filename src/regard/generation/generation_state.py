"""Sampling continuations of prompts, token by token, until an end token or the token limit.

When the context is full, generation continues from the last half of the text. Each row of a batch has its own context:
it gives the same tokens in a batch as alone. With `lookup` (prompt lookup decoding), the tokens that followed the last
n-gram where it occurred before are proposed and verified in one forward pass. Each token is still sampled from the
model's own distribution, so the output is the same, only faster.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Generator, Iterator, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from regard.generation.config import SamplingConfig
from regard.generation.decoder import Decoder
from regard.generation.sampling import Sampler
from regard.generation.search import no_probabilities

GRAM = 3  # length of the n-gram that must match
GUESSES = 8  # tokens proposed at a time


class SpeculativeDecoder(Decoder, Protocol):
    """A decoder that can append several tokens at once and remove them again."""

    def extend(self, ids: Tensor) -> Tensor:
        """Add several tokens to each row, ids (rows, T); returns the logits after each of them, (rows, T, V)."""

    def rewind(self, count: int) -> None:
        """Remove the last `count` tokens of every row."""

    def refill(self, rows: Tensor, ids: Tensor) -> None:
        """Replace the context of these rows by ids (rows, T); T is 0 to the length of the longest row."""


class GeneratedToken(NamedTuple):
    """One generated token."""

    row: int
    id: int
    log_prob: float  # by the model alone, before temperature and the like


def generate(
    decoder: SpeculativeDecoder,
    prompts: Sequence[Sequence[int]],
    *,
    config: SamplingConfig,
    context: int,
    end_ids: Collection[int] = (),
    prefix: int = 0,
    lookup: bool = False,
    device: torch.device | None = None,
) -> GenerationState:
    """The continuation of each prompt, token by token; an end token is the last token of its row.

    The first `prefix` tokens of every prompt always stay in the context.
    """
    lookup = lookup and len(prompts) == 1
    return GenerationState(
        decoder, prompts, config, context=context, end_ids=end_ids, prefix=prefix, lookup=lookup, device=device
    )


def keep_last(ids: Sequence[int], limit: int, prefix: int = 0) -> list[int]:
    """At most `limit` ids: the first `prefix` ids, then the last ones. A prefix that fills the limit is dropped."""
    if len(ids) <= limit:
        return list(ids)
    kept = prefix if prefix < limit else 0
    return [*ids[:kept], *ids[len(ids) - limit + kept :]]


class GenerationState:
    """A batch of texts being generated: iterate to get the next token. `drop` a row to stop it early."""

    def __init__(
        self,
        decoder: SpeculativeDecoder,
        prompts: Sequence[Sequence[int]],
        config: SamplingConfig,
        *,
        context: int,
        end_ids: Collection[int],
        prefix: int,
        lookup: bool,
        device: torch.device | None,
    ) -> None:
        self.decoder, self.context, self.device = decoder, context, device
        self.end_ids, self.prefix, self.lookup = end_ids, prefix, lookup
        self.texts = [list(prompt) for prompt in prompts]
        self.forgotten = [0] * len(self.texts)  # tokens of each text that are not in the decoder's context
        self.sampler = Sampler(config, len(self.texts))
        self.left = dict.fromkeys(range(len(self.texts)), config.max_new_tokens)  # tokens left for each live row

    def drop(self, row: int) -> None:
        """Stop generating this row."""
        self.left.pop(row, None)

    def __iter__(self) -> Iterator[GeneratedToken]:
        rows = list(self.left)
        if not rows:
            return
        logits = self._read(rows)
        while True:
            chosen = yield from self._draw(logits, rows)
            live = [place for place, row in enumerate(rows) if row in self.left]
            if not live:
                return
            if len(live) < len(rows):
                rows = [rows[place] for place in live]
                places = torch.tensor(live, device=chosen.device)
                self.decoder.reorder(places)
                chosen = chosen[places]
            full = [place for place, row in enumerate(rows) if self._context_used(row) == self.context]
            if full:
                self._slide(rows, full)
            guesses = self._guess(rows[0]) if self.lookup else []
            if not guesses:
                logits = self.decoder.step(chosen)
                continue
            logits = yield from self._check(rows[0], int(chosen), guesses, chosen.device)
            if rows[0] not in self.left:
                return

    def _read(self, rows: Sequence[int]) -> Tensor:
        """Prefill the decoder with as much of each text as fits; returns the logits of the next tokens, (rows, V)."""
        read = [self._end(row) for row in rows]
        lengths = torch.tensor([len(ids) for ids in read], device=self.device)
        longest = max(map(len, read))
        ids = torch.tensor([[*ids, *[0] * (longest - len(ids))] for ids in read], device=self.device)
        return self.decoder.prefill(ids, lengths)

    def _slide(self, rows: Sequence[int], full: Sequence[int]) -> None:
        """Refill full contexts with the end of their text, except the newest token, which the next step adds."""
        read = [self._end(rows[place])[:-1] for place in full]
        ids = torch.tensor(read, dtype=torch.long, device=self.device)
        self.decoder.refill(torch.tensor(full, device=self.device), ids)

    def _end(self, row: int) -> list[int]:
        """The part of a text that enters the context; half of the context, or less for the last tokens, stays free."""
        kept = keep_last(self.texts[row], self.context - min(self.left[row], self.context // 2), self.prefix)
        self.forgotten[row] = len(self.texts[row]) - len(kept)
        return kept

    def _context_used(self, row: int) -> int:
        """Tokens of a text in the decoder's context, before the newest token is added."""
        return len(self.texts[row]) - self.forgotten[row] - 1

    def _draw(self, logits: Tensor, rows: Sequence[int]) -> Generator[GeneratedToken, None, Tensor]:
        """Sample the next token of each of `rows`; returns their ids, (rows,)."""
        chosen, log_probs = self.sampler.draw(logits, [self.texts[row] for row in rows], rows)
        for row, pick, log_prob in zip(rows, chosen.tolist(), log_probs.tolist(), strict=True):
            if not math.isfinite(log_prob):
                raise no_probabilities()
            if row not in self.left:  # dropped by the caller while iterating
                continue
            self.texts[row].append(pick)
            self.left[row] -= 1
            if pick in self.end_ids or not self.left[row]:
                del self.left[row]
            yield GeneratedToken(row, pick, log_prob)
        return chosen

    def _guess(self, row: int) -> list[int]:
        """The tokens that followed the most recent earlier occurrence of the last n-gram; empty if there is none."""
        text, limit = self.texts[row], min(self.left[row], self.context - self._context_used(row)) - 1
        last = text[-GRAM:]
        for place in range(len(text) - GRAM - 1, -1, -1):
            if text[place : place + GRAM] == last:
                return text[place + GRAM : place + GRAM + min(GUESSES, max(0, limit))]
        return []

    def _check(
        self, row: int, newest: int, guesses: list[int], device: torch.device
    ) -> Generator[GeneratedToken, None, Tensor]:
        """Verify proposed tokens in one forward pass and accept them up to the first mismatch.

        Returns the logits of the next token.
        """
        logits = self.decoder.extend(torch.tensor([[newest, *guesses]], device=device))
        for number, guess in enumerate(guesses):
            drawn = yield from self._draw(logits[:, number], [row])
            if row not in self.left:
                return logits[:, number]
            if int(drawn) != guess:
                self.decoder.rewind(len(guesses) - number)
                return self.decoder.step(drawn)
        return logits[:, -1]
