"""Autocomplete: the most probable next words of a text.

Words are found token by token with a beam search over prefixes. The probability of a word is the product of its token
probabilities and the probability of a word boundary (space or punctuation) after it. If the text ends inside a word,
only completions of this word are suggested.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from regard.generation.decoder import Decoder

BEAMS = 24  # prefixes in the beam
MAX_WORD_CHARACTERS = 14  # for character tokenizers
MAX_WORD_TOKENS = 5  # for subword tokenizers
CACHED_PREFIXES = 64  # cache size of WordTokens.spelling


class Suggestion(NamedTuple):
    """A word that may come next."""

    word: str
    probability: float


class _Prefix(NamedTuple):
    text: str  # from the beginning of the word, with the space before it
    log_prob: float
    id: int  # the newest token
    row: int  # the decoder row that it continues


class WordTokens:
    """Masks of the tokens that can begin, continue or end a word, each (V,), and the text of each token in `texts`."""

    def __init__(self, texts: Sequence[str], *, by_character: bool) -> None:
        self.texts, self.by_character = texts, by_character
        self.longest = MAX_WORD_CHARACTERS if by_character else MAX_WORD_TOKENS  # tokens of a word
        # Letters, with one space before them or none, or the space alone.
        self.begins = torch.tensor([text == " " or text.removeprefix(" ").isalnum() for text in texts])
        self.continues = torch.tensor([bool(text) and text.isalnum() for text in texts])
        self.ends = torch.tensor([not text or not (text[0].isalnum() or text[0] == "_") for text in texts])
        self.spelling = lru_cache(CACHED_PREFIXES)(self._spelling)

    def _spelling(self, rest: str) -> Tensor:
        """Mask (V,) of the tokens whose text is a prefix of `rest`, or is `rest` followed by more of the same word."""

        def spells(text: str) -> bool:
            return bool(text) and (rest.startswith(text) or (text.startswith(rest) and text[len(rest) :].isalnum()))

        return torch.tensor(list(map(spells, self.texts)))


def suggest(
    decoder: Decoder, prompt: str, *, encode: Callable[[str], Sequence[int]], word_tokens: WordTokens, count: int
) -> list[Suggestion]:
    """Return the `count` most probable words after `prompt`, most probable first.

    `encode` must leave `word_tokens.longest` positions of the context free; words that do not fit are not found.
    """
    by_character = word_tokens.by_character
    # Subword tokens include the space before a word, so an unfinished word is removed and spelled again.
    match = re.search(r"\w*\Z" if by_character else r" ?\w*\Z", prompt)
    partial = match[0] if match else ""
    context = prompt if by_character else prompt[: len(prompt) - len(partial)]
    ids = torch.tensor([list(encode(context))])  # (1, T)
    logits = decoder.prefill(ids, torch.tensor([ids.shape[1]]))
    beams = [_Prefix(partial if by_character else "", 0.0, -1, 0)]
    words: dict[str, float] = {}  # word → probability
    for step in range(word_tokens.longest):
        log_probs = logits.log_softmax(dim=-1)  # (beams, V)
        ends = log_probs.masked_fill(~word_tokens.ends, -torch.inf).logsumexp(dim=-1).tolist()
        for row, prefix in enumerate(beams):
            word = prefix.text.strip()
            if word and len(prefix.text) >= len(partial):
                words[word] = words.get(word, 0.0) + float(torch.tensor(prefix.log_prob + ends[row]).exp())
        beams = _next_beams(beams, log_probs, word_tokens, partial)
        is_last = step + 1 == word_tokens.longest or decoder.max_new_tokens == 0
        if not beams or is_last or _is_settled(words, beams, count):
            break
        decoder.reorder(torch.tensor([prefix.row for prefix in beams]))
        logits = decoder.step(torch.tensor([prefix.id for prefix in beams]))
    best = sorted(words.items(), key=lambda item: (-item[1], item[0]))
    return [Suggestion(word, probability) for word, probability in best[:count]]


def _next_beams(beams: Sequence[_Prefix], log_probs: Tensor, word_tokens: WordTokens, partial: str) -> list[_Prefix]:
    """Return up to `BEAMS` continuations of the prefixes, most probable first."""
    totals = log_probs + torch.tensor([prefix.log_prob for prefix in beams])[:, None]  # (beams, V)
    for row, prefix in enumerate(beams):
        # First allow only tokens that spell the rest of the partial word, then tokens inside a word.
        rest = partial[len(prefix.text) :]
        inside = word_tokens.continues if prefix.text.strip() else word_tokens.begins
        allowed = word_tokens.spelling(rest) if rest else inside
        totals[row, ~allowed] = -torch.inf
    values, places = totals.flatten().topk(min(BEAMS, totals.numel()))
    continuations = []
    for value, place in zip(values.tolist(), places.tolist(), strict=True):
        if value == -torch.inf:
            break
        row, id_ = divmod(place, totals.shape[1])
        continuations.append(_Prefix(beams[row].text + word_tokens.texts[id_], value, id_, row))
    return continuations


def _is_settled(words: dict[str, float], beams: Sequence[_Prefix], count: int) -> bool:
    """Return whether no prefix can become one of the `count` best words any more."""
    best = sorted(words.values(), reverse=True)[:count]
    return len(best) == count and best[-1] > float(torch.tensor(beams[0].log_prob).exp())
