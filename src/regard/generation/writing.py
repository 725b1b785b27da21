"""Going on with texts: token after token, until an end, a stop or the last token that was asked for.

When the context is full, the writing goes on from its last half: what came before is forgotten, as a reader forgets
the beginning of a long book. With `lookup`, the tokens that followed the last few tokens where these occurred before
are taken for a guess and checked in one pass. Each is drawn as without guessing, so the text is the same, only sooner.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from regard.generation.decoder import Decoder
from regard.generation.sampling import Sampler
from regard.generation.settings import SamplingConfig

GRAM = 3  # tokens that must agree before what followed them is guessed
GUESSES = 8  # tokens that are guessed at a time


class GuessingDecoder(Decoder, Protocol):
    """A decoder that can take several tokens at once, and take them back."""

    def extend(self, ids: Tensor) -> Tensor:
        """Add several tokens to each row, ids (rows, T); returns the logits after each of them, (rows, T, N)."""

    def rewind(self, count: int) -> None:
        """Forget the last `count` tokens of every row."""


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
) -> Iterator[Written]:
    """The tokens that go on from each of `prompts`, as they are drawn; an end symbol ends its row and comes last.

    Every prompt begins with `prefix` tokens that are never forgotten.
    """
    lookup = lookup and len(prompts) == 1
    writing = _Writing(decoder, prompts, config, end_ids=end_ids, prefix=prefix, lookup=lookup)
    while writing.left:
        yield from writing.until_full(context, device)


def ending(ids: Sequence[int], room: int, prefix: int = 0) -> list[int]:
    """As much of the end of a text as there is room for, behind the `prefix` tokens that every text begins with."""
    if len(ids) <= room:
        return list(ids)
    kept = prefix if prefix < room else 0
    return [*ids[:kept], *ids[len(ids) - room + kept :]]


class _Writing:
    """Texts under way. `left` says how many tokens each row that is not done may still get."""

    def __init__(
        self,
        decoder: GuessingDecoder,
        prompts: Sequence[Sequence[int]],
        config: SamplingConfig,
        *,
        end_ids: Collection[int],
        prefix: int,
        lookup: bool,
    ) -> None:
        self.decoder, self.end_ids, self.prefix, self.lookup = decoder, end_ids, prefix, lookup
        self.texts = [list(prompt) for prompt in prompts]
        self.sampler = Sampler(config, len(self.texts))
        self.left = dict.fromkeys(range(len(self.texts)), config.max_new_tokens)

    def until_full(self, context: int, device: torch.device | None) -> Iterator[Written]:
        """Read what fits of the texts, and write until no row is left or no room."""
        rows = list(self.left)
        # Half of the context stays free for what is written, unless less is wanted.
        kept = context - min(max(self.left.values()), context // 2)
        read = [ending(self.texts[row], kept, self.prefix) for row in rows]
        lengths = torch.tensor([len(ids) for ids in read], device=device)
        longest = max(map(len, read))
        ids = torch.tensor([[*ids, *[0] * (longest - len(ids))] for ids in read], device=device)
        logits = self.decoder.prefill(ids, lengths)
        while True:
            chosen = yield from self._draw(logits, rows)
            live = [place for place, row in enumerate(rows) if row in self.left]
            if not live or not self.decoder.max_new_tokens:
                return
            if len(live) < len(rows):
                rows = [rows[place] for place in live]
                places = torch.tensor(live, device=chosen.device)
                self.decoder.reorder(places)
                chosen = chosen[places]
            guesses = self._guess(rows[0]) if self.lookup else []
            if not guesses:
                logits = self.decoder.step(chosen)
                continue
            logits = yield from self._check(rows[0], int(chosen), guesses, chosen.device)
            if rows[0] not in self.left:
                return

    def _draw(self, logits: Tensor, rows: Sequence[int]) -> Generator[Written, None, Tensor]:
        """One more token for each of `rows`."""
        chosen, log_probs = self.sampler.draw(logits, [self.texts[row] for row in rows], rows)
        for row, pick, log_prob in zip(rows, chosen.tolist(), log_probs.tolist(), strict=True):
            self.texts[row].append(pick)
            self.left[row] -= 1
            if pick in self.end_ids or not self.left[row]:
                del self.left[row]
            yield Written(row, pick, log_prob)
        return chosen

    def _guess(self, row: int) -> list[int]:
        """What followed the last tokens of a text where they occurred before, the latest time first."""
        text, room = self.texts[row], min(self.left[row], self.decoder.max_new_tokens or 0) - 1
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
