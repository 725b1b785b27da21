"""Sampling: continue prompts token by token, until an end token or the token limit.

| setting | in papers | effect on the probabilities |
|---|---|---|
| temperature | T | divides the logits: below 1 sharpens the distribution; 0 is greedy |
| top_k | k | keeps the k most probable tokens (Fan et al. 2018) |
| top_p | p | keeps the most probable tokens whose probabilities sum to p (Holtzman et al. 2020) |
| min_p | – | keeps tokens with at least this fraction of the highest probability (Nguyen et al. 2024) |
| repetition_penalty | θ | makes tokens that already occurred less probable (Keskar et al. 2019) |

The settings are applied in this order: repetition_penalty, temperature, top_k, top_p, min_p.

When the context is full, generation continues from the last half of the text. Each row of a batch has its own context,
so its tokens do not depend on the other rows. `lookup` is prompt lookup decoding, a form of speculative decoding: the
draft tokens are those that followed an earlier occurrence of the last n-gram, and one forward pass verifies them. Each
token is still sampled from the model's own distribution, so the output does not change.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Generator, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from regard.generation.config import MAX_SEED, SamplingConfig
from regard.generation.decoder import SpeculativeDecoder
from regard.generation.search import no_probabilities
from regard.nn.masks import pad
from regard.nn.threads import one_thread

NGRAM = 3  # length of the n-gram that must match
MAX_DRAFT_TOKENS = 8  # draft tokens verified at a time


class GeneratedToken(NamedTuple):
    """One generated token."""

    row: int
    id: int
    log_prob: float  # before penalty, temperature and filters


class GenerationState:
    """Generates a batch of texts: iterate over it to get the tokens. Call `drop` to end a row early.

    An end token is the last token of its row. The first `prefix` tokens of every prompt always stay in the context.
    """

    def __init__(
        self,
        decoder: SpeculativeDecoder,
        prompts: Sequence[Sequence[int]],
        *,
        config: SamplingConfig,
        context: int,
        end_ids: Collection[int] = (),
        prefix: int = 0,
        lookup: bool = False,
        device: torch.device | None = None,
    ) -> None:
        self.decoder, self.context, self.device = decoder, context, device
        self.end_ids, self.prefix, self.lookup = end_ids, prefix, lookup and len(prompts) == 1
        self.texts = [list(prompt) for prompt in prompts]
        self.evicted = [0] * len(self.texts)  # tokens of each text that are not in the decoder's context
        self.sampler = Sampler(config, len(self.texts))
        self.remaining = dict.fromkeys(range(len(self.texts)), config.max_new_tokens)  # unfinished row → tokens left

    def drop(self, row: int) -> None:
        """Stop generating this row."""
        self.remaining.pop(row, None)

    def __iter__(self) -> Iterator[GeneratedToken]:
        rows = list(self.remaining)
        if not rows:
            return
        logits = self.decoder.prefill(*pad([self._context_ids(row) for row in rows], 0, device=self.device))
        while True:
            chosen = yield from self._draw(logits, rows)
            live = [place for place, row in enumerate(rows) if row in self.remaining]
            if not live:
                return
            if len(live) < len(rows):
                rows = [rows[place] for place in live]
                places = torch.tensor(live, device=chosen.device)
                self.decoder.reorder(places)
                chosen = chosen[places]
            full = [place for place, row in enumerate(rows) if self._context_used(row) == self.context]
            if full:
                self._slide_context(rows, full)
            draft = self._draft_tokens(rows[0]) if self.lookup else []
            if not draft:
                logits = self.decoder.step(chosen)
                continue
            logits = yield from self._verify(rows[0], int(chosen), draft, chosen.device)
            if rows[0] not in self.remaining:
                return

    def _slide_context(self, rows: Sequence[int], full: Sequence[int]) -> None:
        """Refill full contexts with the end of their texts, without the newest token, which the next step adds."""
        ids = [self._context_ids(rows[place])[:-1] for place in full]
        refilled = torch.tensor(ids, dtype=torch.long, device=self.device)
        self.decoder.refill(torch.tensor(full, device=self.device), refilled)

    def _context_ids(self, row: int) -> list[int]:
        """Return the ids of a text for the context. Half of the context stays free, or less if fewer tokens remain."""
        kept = keep_last(self.texts[row], self.context - min(self.remaining[row], self.context // 2), self.prefix)
        self.evicted[row] = len(self.texts[row]) - len(kept)
        return kept

    def _context_used(self, row: int) -> int:
        """The number of tokens of a text in the decoder's context, before the newest token is added."""
        return len(self.texts[row]) - self.evicted[row] - 1

    def _draw(self, logits: Tensor, rows: Sequence[int]) -> Generator[GeneratedToken, None, Tensor]:
        """Sample the next token of each of `rows`; returns their ids, (rows,)."""
        chosen, log_probs = self.sampler.draw(logits, [self.texts[row] for row in rows], rows)
        for row, pick, log_prob in zip(rows, chosen.tolist(), log_probs.tolist(), strict=True):
            if not math.isfinite(log_prob):
                raise no_probabilities()
            if row not in self.remaining:  # dropped by the caller while iterating
                continue
            self.texts[row].append(pick)
            self.remaining[row] -= 1
            if pick in self.end_ids or not self.remaining[row]:
                del self.remaining[row]
            yield GeneratedToken(row, pick, log_prob)
        return chosen

    def _draft_tokens(self, row: int) -> list[int]:
        """The tokens that followed the most recent earlier occurrence of the last n-gram, if any."""
        text, limit = self.texts[row], min(self.remaining[row], self.context - self._context_used(row)) - 1
        last = text[-NGRAM:]
        for place in range(len(text) - NGRAM - 1, -1, -1):
            if text[place : place + NGRAM] == last:
                return text[place + NGRAM : place + NGRAM + min(MAX_DRAFT_TOKENS, max(0, limit))]
        return []

    def _verify(
        self, row: int, newest: int, draft: list[int], device: torch.device
    ) -> Generator[GeneratedToken, None, Tensor]:
        """Verify the draft tokens in one forward pass and accept them up to the first mismatch.

        Returns the logits of the next token.
        """
        logits = self.decoder.extend(torch.tensor([[newest, *draft]], device=device))
        for number, token in enumerate(draft):
            drawn = yield from self._draw(logits[:, number], [row])
            if row not in self.remaining:
                return logits[:, number]
            if int(drawn) != token:
                self.decoder.rewind(len(draft) - number)
                return self.decoder.step(drawn)
        return logits[:, -1]


def keep_last(ids: Sequence[int], limit: int, prefix: int = 0) -> list[int]:
    """Return at most `limit` ids: the first `prefix` ids, then the last ids. Drop a prefix that fills the limit."""
    if len(ids) <= limit:
        return list(ids)
    kept = prefix if prefix < limit else 0
    return [*ids[:kept], *ids[len(ids) - limit + kept :]]


class Sampler:
    """Samples the next tokens of a batch; each row has its own random generator."""

    def __init__(self, config: SamplingConfig, rows: int) -> None:
        self.config = config
        # torch.seed() would reseed the global generator, so the seed comes from a new one.
        first = torch.Generator().seed() if config.seed is None else config.seed
        self._generators = [torch.Generator().manual_seed((first + row) % MAX_SEED) for row in range(rows)]

    def draw(self, logits: Tensor, before: Sequence[Sequence[int]], rows: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Sample from logits (rows, V): ids (rows,) and their log-probabilities before temperature and filters.

        `before` contains the ids of each row so far, for the repetition penalty; `rows` are the indices of the rows in
        the batch, which select their generators.
        """
        with one_thread():
            plain = logits.log_softmax(dim=-1)
            if self.config.repetition_penalty != 1:
                logits = apply_repetition_penalty(logits, before, self.config.repetition_penalty)
            if self.config.is_greedy:
                chosen = logits.argmax(dim=-1)
            else:
                probabilities = filtered_probabilities(logits, self.config)
                drawn = [_draw(p, self._generators[row]) for p, row in zip(probabilities, rows, strict=True)]
                chosen = torch.tensor(drawn, device=logits.device)
            return chosen, plain.gather(-1, chosen[:, None]).squeeze(-1)


def filtered_probabilities(logits: Tensor, config: SamplingConfig) -> Tensor:
    """Return the distribution to sample from, (rows, V): removed tokens have probability 0, the others sum to 1."""
    ranked, order = logits.sort(dim=-1, descending=True, stable=True)
    # Shift the maximum to 0 first, so that a tiny temperature cannot overflow to +inf.
    ranked = (ranked - ranked[:, :1]) / max(config.temperature, torch.finfo(ranked.dtype).tiny)
    probabilities = ranked.softmax(dim=-1)
    kept = torch.ones_like(probabilities, dtype=torch.bool)
    if config.top_k is not None:
        kept[:, config.top_k :] = False
    if config.top_p is not None:
        # Keep a token if the tokens ranked above it sum to less than p; the first is always kept.
        among = torch.where(kept, probabilities, 0.0)
        among = among / among.sum(dim=-1, keepdim=True)
        kept &= among.cumsum(dim=-1) - among < config.top_p
    if config.min_p is not None:
        kept &= probabilities >= config.min_p * probabilities[:, :1]
    kept[:, 0] = True
    probabilities = torch.where(kept, probabilities, 0.0)
    probabilities = probabilities / probabilities.sum(dim=-1, keepdim=True)
    return torch.zeros_like(probabilities).scatter_(-1, order, probabilities)


def apply_repetition_penalty(logits: Tensor, before: Sequence[Sequence[int]], penalty: float) -> Tensor:
    """Apply the repetition penalty: for tokens that occurred, divide positive logits and multiply negative ones."""
    out = logits.clone()
    for row, ids in enumerate(before):
        seen = torch.tensor(sorted(set(ids)), dtype=torch.long, device=logits.device)
        values = out[row, seen]
        out[row, seen] = torch.where(values > 0, values / penalty, values * penalty)
    return out


def _draw(probabilities: Tensor, generator: torch.Generator) -> int:
    """Draw tokens by inverse transform sampling in float64, with one random number per token."""
    levels = probabilities.double().cumsum(dim=0)
    point = torch.rand((), generator=generator, dtype=torch.float64).to(levels.device) * levels[-1]
    place = int(torch.searchsorted(levels, point, right=True))
    # Rounding may put the point past the end: then take the last token with probability above 0.
    return min(place, int(probabilities.nonzero().max()))
