"""The likeliest next words of a text, for a keyboard that offers them.

A word is found token by token: the best beginnings are pursued side by side, and each is a word with the probability
that a boundary (a space, a mark) comes next. Where the text ends within a word, only words that begin so count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.generation.decoder import Decoder

BEAMS = 24  # beginnings that are pursued at a time
LONGEST = {True: 14, False: 5}  # tokens of a word: characters, or pieces


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


def suggest(
    decoder: Decoder,
    prompt: str,
    *,
    encode: Callable[[str], Sequence[int]],
    texts: Sequence[str],  # of every token
    by_character: bool,
    count: int,
) -> list[Suggestion]:
    """The `count` likeliest words after `prompt`, the likeliest first."""
    # A piece holds the space before a word and as much of it as it can: a word that has begun is cut anew.
    wanted = _ends_with(r"\w*$" if by_character else r" ?\w*$", prompt)
    read = prompt if by_character else prompt[: len(prompt) - len(wanted)]
    ids = torch.tensor([list(encode(read))])
    logits = decoder.prefill(ids, torch.tensor([ids.shape[1]]))
    live = [_Beginning(wanted if by_character else "", 0.0, -1, 0)]
    goes_on, boundary = _kinds_of_tokens(texts)
    found: dict[str, float] = {}
    for step in range(LONGEST[by_character]):
        log_probs = logits.log_softmax(dim=-1)
        ends = log_probs.masked_fill(~boundary, -torch.inf).logsumexp(dim=-1).tolist()
        for row, one in enumerate(live):
            word = one.text.strip()
            if word and len(one.text) >= len(wanted):
                found[word] = found.get(word, 0.0) + float(torch.tensor(one.log_prob + ends[row]).exp())
        live = _next(live, log_probs, texts, goes_on, wanted)
        if not live or step + 1 == LONGEST[by_character] or _is_settled(found, live, count):
            break
        decoder.reorder(torch.tensor([one.row for one in live]))
        logits = decoder.step(torch.tensor([one.id for one in live]))
    best = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return [Suggestion(word, probability) for word, probability in best[:count]]


def _next(
    live: Sequence[_Beginning], log_probs: Tensor, texts: Sequence[str], goes_on: Tensor, wanted: str
) -> list[_Beginning]:
    """The best ways to go on with the beginnings that are pursued."""
    first = _first_tokens(texts)
    totals = log_probs + torch.tensor([one.log_prob for one in live])[:, None]
    for row, one in enumerate(live):
        # Until the word that has begun is there again, only tokens that spell it count; then, those inside a word.
        rest = wanted[len(one.text) :]
        fits = goes_on if one.text.strip() else first
        if rest:
            fits = torch.tensor([_spells(text, rest) for text in texts])
        totals[row, ~fits] = -torch.inf
    values, places = totals.flatten().topk(min(BEAMS, totals.numel()))
    found = []
    for value, place in zip(values.tolist(), places.tolist(), strict=True):
        if value == -torch.inf:
            break
        row, id_ = divmod(place, totals.shape[1])
        found.append(_Beginning(live[row].text + texts[id_], value, id_, row))
    return found


def _spells(text: str, rest: str) -> bool:
    """Whether a token spells some of `rest`, or all of it and more of the same word."""
    return bool(text) and (rest.startswith(text) or (text.startswith(rest) and text[len(rest) :].isalnum()))


def _first_tokens(texts: Sequence[str]) -> Tensor:
    """Tokens that a word may begin with: letters, with one space before them or none, or the space alone."""
    return torch.tensor([text == " " or text.removeprefix(" ").isalnum() for text in texts])


def _kinds_of_tokens(texts: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Which tokens go on with a word, and which end it."""
    goes_on = torch.tensor([bool(text) and text.isalnum() for text in texts])
    boundary = torch.tensor([not text or not (text[0].isalnum() or text[0] == "_") for text in texts])
    return goes_on, boundary


def _is_settled(found: dict[str, float], live: Sequence[_Beginning], count: int) -> bool:
    """Whether no beginning can still become a word among the best."""
    best = sorted(found.values(), reverse=True)[:count]
    return len(best) == count and best[-1] > float(torch.tensor(live[0].log_prob).exp())


def _ends_with(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    return match[0] if match else ""
