"""Going on with texts: token after token, until an end, a stop or the last token that was asked for.

When the context is full, the writing goes on from its last half: what came before is forgotten, as a reader forgets
the beginning of a long book. Every text has the context to itself: it is the same in company as alone. With `lookup`,
the tokens that followed the last few tokens where these occurred before are taken for a guess and checked in one pass.
Each is drawn as without guessing, so the text is the same, only sooner.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Generator, Iterator, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from regard.generation.decoder import Decoder
from regard.generation.sampling import Sampler
from regard.generation.search import no_probabilities
from regard.generation.settings import SamplingConfig

GRAM = 3  # tokens that must agree before what followed them is guessed
GUESSES = 8  # tokens that are guessed at a time


class GuessingDecoder(Decoder, Protocol):
    """A decoder that can take several tokens at once, and take them back."""

    def extend(self, ids: Tensor) -> Tensor:
        """Add several tokens to each row, ids (rows, T); returns the logits after each of them, (rows, T, N)."""

    def rewind(self, count: int) -> None:
        """Forget the last `count` tokens of every row."""

    def refill(self, rows: Tensor, ids: Tensor) -> None:
        """Let these rows go on from ids (rows, T), from none to as many as the longest row has, instead of theirs."""


class Written(NamedTuple):
    """A token that was added to one of the texts."""

    row: int
    id: int
    log_prob: float  # by the model alone, before temperature and the like


def write(
    decoder: GuessingDecoder,
    prompts: Sequence[Sequence[int]],
    *,
    config: SamplingConfig,
    context: int,
    end_ids: Collection[int] = (),
    prefix: int = 0,
    lookup: bool = False,
    device: torch.device | None = None,
) -> Writing:
    """The tokens that go on from each of `prompts`, as they are drawn; an end symbol ends its row and comes last.

    Every prompt begins with `prefix` tokens that are never forgotten.
    """
    lookup = lookup and len(prompts) == 1
    return Writing(
        decoder, prompts, config, context=context, end_ids=end_ids, prefix=prefix, lookup=lookup, device=device
    )


def ending(ids: Sequence[int], room: int, prefix: int = 0) -> list[int]:
    """As much of the end of a text as there is room for, behind the `prefix` tokens that every text begins with."""
    if len(ids) <= room:
        return list(ids)
    kept = prefix if prefix < room else 0
    return [*ids[:kept], *ids[len(ids) - room + kept :]]


class Writing:
    """Texts under way: who asks for the next token has it written. `drop` a row that needs no more of them."""

    def __init__(
        self,
        decoder: GuessingDecoder,
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
        self.forgotten = [0] * len(self.texts)  # tokens of each text that the decoder does not see, or no more
        self.sampler = Sampler(config, len(self.texts))
        self.left = dict.fromkeys(range(len(self.texts)), config.max_new_tokens)  # tokens still to come of each row

    def drop(self, row: int) -> None:
        """Write no more of this text."""
        self.left.pop(row, None)

    def __iter__(self) -> Iterator[Written]:
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
            full = [place for place, row in enumerate(rows) if self._held(row) == self.context]
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
        """Let the decoder read as much of the texts as there is room for; returns the logits of what comes next."""
        read = [self._end(row) for row in rows]
        lengths = torch.tensor([len(ids) for ids in read], device=self.device)
        longest = max(map(len, read))
        ids = torch.tensor([[*ids, *[0] * (longest - len(ids))] for ids in read], device=self.device)
        return self.decoder.prefill(ids, lengths)

    def _slide(self, rows: Sequence[int], full: Sequence[int]) -> None:
        """Let texts go on from their ends. Their newest tokens are not read here, but stepped to with all others."""
        read = [self._end(rows[place])[:-1] for place in full]
        ids = torch.tensor(read, dtype=torch.long, device=self.device)
        self.decoder.refill(torch.tensor(full, device=self.device), ids)

    def _end(self, row: int) -> list[int]:
        """What is kept of a text: half of the context stays free for what is written, unless less is wanted."""
        kept = ending(self.texts[row], self.context - min(self.left[row], self.context // 2), self.prefix)
        self.forgotten[row] = len(self.texts[row]) - len(kept)
        return kept

    def _held(self, row: int) -> int:
        """How much of a text the decoder holds, when it is still to be told the newest token."""
        return len(self.texts[row]) - self.forgotten[row] - 1

    def _draw(self, logits: Tensor, rows: Sequence[int]) -> Generator[Written, None, Tensor]:
        """One more token for each of `rows`."""
        chosen, log_probs = self.sampler.draw(logits, [self.texts[row] for row in rows], rows)
        for row, pick, log_prob in zip(rows, chosen.tolist(), log_probs.tolist(), strict=True):
            if not math.isfinite(log_prob):
                raise no_probabilities()
            if row not in self.left:  # dropped while others were looked at
                continue
            self.texts[row].append(pick)
            self.left[row] -= 1
            if pick in self.end_ids or not self.left[row]:
                del self.left[row]
            yield Written(row, pick, log_prob)
        return chosen

    def _guess(self, row: int) -> list[int]:
        """What followed the last tokens of a text where they occurred before, the latest time first."""
        text, room = self.texts[row], min(self.left[row], self.context - self._held(row)) - 1
        last = text[-GRAM:]
        for place in range(len(text) - GRAM - 1, -1, -1):
            if text[place : place + GRAM] == last:
                return text[place + GRAM : place + GRAM + min(GUESSES, max(0, room))]
        return []

    def _check(
        self, row: int, newest: int, guesses: list[int], device: torch.device
    ) -> Generator[Written, None, Tensor]:
        """Draw as many tokens as the guesses reach; returns the logits after the last that agreed."""
        logits = self.decoder.extend(torch.tensor([[newest, *guesses]], device=device))
        for number, guess in enumerate(guesses):
            drawn = yield from self._draw(logits[:, number], [row])
            if row not in self.left:
                return logits[:, number]
            if int(drawn) != guess:
                self.decoder.rewind(len(guesses) - number)
                return self.decoder.step(drawn)
        return logits[:, -1]
