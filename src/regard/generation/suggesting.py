"""The likeliest next words of a text, for a keyboard that offers them.

A word is found token by token: the best beginnings are pursued side by side, and each is a word with the probability
that a boundary (a space, a mark) comes next. Where the text ends within a word, only words that begin so count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from regard.generation.decoder import Decoder

BEAMS = 24  # beginnings that are pursued at a time
LONGEST_WORD = 14  # characters, where these are the tokens
MOST_PIECES = 5  # of a word, where tokens are longer
REMEMBERED = 64  # beginnings of words for which is known which tokens spell them


@dataclass(frozen=True)
class Suggestion:
    """A word that may come next."""

    word: str
    probability: float


@dataclass(frozen=True)
class _Beginning:
    text: str  # from the beginning of the word, with the space before it
    log_prob: float
    id: int  # its newest token
    row: int  # which row of the decoder it goes on from


class Pieces:
    """What tokens can be to a word, found out once for a whole vocabulary: `texts` has the text of every token."""

    def __init__(self, texts: Sequence[str], *, by_character: bool) -> None:
        self.texts, self.by_character = texts, by_character
        self.longest = LONGEST_WORD if by_character else MOST_PIECES  # tokens of a word
        # Letters, with one space before them or none, or the space alone.
        self.begins = torch.tensor([text == " " or text.removeprefix(" ").isalnum() for text in texts])
        self.goes_on = torch.tensor([bool(text) and text.isalnum() for text in texts])
        self.ends = torch.tensor([not text or not (text[0].isalnum() or text[0] == "_") for text in texts])
        self.spelling = lru_cache(REMEMBERED)(self._spelling)

    def _spelling(self, rest: str) -> Tensor:
        """Which tokens spell some of `rest`, or all of it and more of the same word."""
        return torch.tensor([_spells(text, rest) for text in self.texts])


def suggest(
    decoder: Decoder,
    prompt: str,
    *,
    encode: Callable[[str], Sequence[int]],
    pieces: Pieces,
    count: int,
) -> list[Suggestion]:
    """The `count` likeliest words after `prompt`, the likeliest first.

    `encode` leaves room for `pieces.longest` tokens; where a context is shorter than that, long words are not found.
    """
    by_character = pieces.by_character
    # A piece holds the space before a word and as much of it as it can: a word that has begun is cut anew.
    wanted = _ends_with(r"\w*$" if by_character else r" ?\w*$", prompt)
    read = prompt if by_character else prompt[: len(prompt) - len(wanted)]
    ids = torch.tensor([list(encode(read))])
    logits = decoder.prefill(ids, torch.tensor([ids.shape[1]]))
    live = [_Beginning(wanted if by_character else "", 0.0, -1, 0)]
    found: dict[str, float] = {}
    for step in range(pieces.longest):
        log_probs = logits.log_softmax(dim=-1)
        ends = log_probs.masked_fill(~pieces.ends, -torch.inf).logsumexp(dim=-1).tolist()
        for row, one in enumerate(live):
            word = one.text.strip()
            if word and len(one.text) >= len(wanted):
                found[word] = found.get(word, 0.0) + float(torch.tensor(one.log_prob + ends[row]).exp())
        live = _next(live, log_probs, pieces, wanted)
        is_last = step + 1 == pieces.longest or decoder.max_new_tokens == 0
        if not live or is_last or _is_settled(found, live, count):
            break
        decoder.reorder(torch.tensor([one.row for one in live]))
        logits = decoder.step(torch.tensor([one.id for one in live]))
    best = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return [Suggestion(word, probability) for word, probability in best[:count]]


def _next(live: Sequence[_Beginning], log_probs: Tensor, pieces: Pieces, wanted: str) -> list[_Beginning]:
    """The best ways to go on with the beginnings that are pursued."""
    totals = log_probs + torch.tensor([one.log_prob for one in live])[:, None]
    for row, one in enumerate(live):
        # Until the word that has begun is there again, only tokens that spell it count; then, those inside a word.
        rest = wanted[len(one.text) :]
        fits = pieces.spelling(rest) if rest else pieces.goes_on if one.text.strip() else pieces.begins
        totals[row, ~fits] = -torch.inf
    values, places = totals.flatten().topk(min(BEAMS, totals.numel()))
    found = []
    for value, place in zip(values.tolist(), places.tolist(), strict=True):
        if value == -torch.inf:
            break
        row, id_ = divmod(place, totals.shape[1])
        found.append(_Beginning(live[row].text + pieces.texts[id_], value, id_, row))
    return found


def _spells(text: str, rest: str) -> bool:
    """Whether a token spells some of `rest`, or all of it and more of the same word."""
    return bool(text) and (rest.startswith(text) or (text.startswith(rest) and text[len(rest) :].isalnum()))


def _is_settled(found: dict[str, float], live: Sequence[_Beginning], count: int) -> bool:
    """Whether no beginning can still become a word among the best."""
    best = sorted(found.values(), reverse=True)[:count]
    return len(best) == count and best[-1] > float(torch.tensor(live[0].log_prob).exp())


def _ends_with(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    return match[0] if match else ""
