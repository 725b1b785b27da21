"""Which words are hidden from a model that has to guess them, and what stands in their place.

Of all words 15 % are chosen. Of these 80 % become the mask symbol, 10 % another word, and 10 % stay as they are: what
a model sees is not always masked, so it cannot rely on a mask where there is something to say (Devlin et al. 2018).
Special symbols are never chosen and never put in.

Chance comes from counting instead of from a generator: a number for each place of each row is computed from the row's
key and the place. So a row is masked alike in whatever batch it stands, and otherwise in every epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.errors import UsageError
from regard.text.tokenizer import Tokenizer

Bits = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]
Ids = npt.NDArray[np.int64]

CHOSEN = 0.15  # of all words
HIDDEN, REPLACED = 0.8, 0.1  # of the chosen ones; the rest stay


@dataclass(frozen=True)
class Vocabulary:
    """What masking has to know of a tokenizer."""

    mask_id: int
    ordinary: Ids  # ids that may be chosen and put in
    is_ordinary: Flags  # (N,)
    continues: Flags  # (N,) whether a piece goes on with the word before it

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Vocabulary:
        tokens = tokenizer.vocabulary()
        is_ordinary = np.ones(len(tokens), dtype=bool)
        is_ordinary[list(tokenizer.special_ids)] = False
        if not is_ordinary.any():
            raise UsageError("the vocabulary has special symbols only: there is no word to guess.")
        continues = np.array([token.startswith("##") for token in tokens])
        return cls(tokenizer.mask_id, np.flatnonzero(is_ordinary), is_ordinary, continues)


class Masked(NamedTuple):
    """Rows as a model reads them, and where it has something to guess."""

    ids: Ids  # (B, T)
    chosen: Flags  # (B, T)
    hidden: Flags  # (B, T) of the chosen ones, those that the mask symbol stands for
    replaced: Flags  # (B, T) of the chosen ones, those that another word stands for


@dataclass
class Rates:
    """What masking and pairing really did, counted."""

    tokens: int = 0  # that could be chosen
    chosen: int = 0
    hidden: int = 0
    replaced: int = 0
    pairs: int = 0  # rows that ask for the next sentence
    following: int = 0  # those where it is

    @classmethod
    def count(cls, before: Ids, masked: Masked, vocabulary: Vocabulary, follows: npt.NDArray[Any]) -> Rates:
        return cls(
            tokens=int(vocabulary.is_ordinary[before].sum()),
            chosen=int(masked.chosen.sum()),
            hidden=int(masked.hidden.sum()),
            replaced=int(masked.replaced.sum()),
            pairs=int((follows >= 0).sum()),
            following=int((follows > 0).sum()),
        )

    def add(self, other: Rates) -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    @property
    def kept(self) -> int:
        return self.chosen - self.hidden - self.replaced

    def __str__(self) -> str:
        of_chosen = [f"{part / max(1, self.chosen):.1%}" for part in (self.hidden, self.replaced, self.kept)]
        text = (
            f"{self.chosen / max(1, self.tokens):.2%} of {self.tokens:,} words chosen; of these {of_chosen[0]} masked, "
            f"{of_chosen[1]} replaced, {of_chosen[2]} kept"
        )
        if self.pairs:
            text += f"; the next sentence was the true one in {self.following / self.pairs:.2%} of {self.pairs:,} pairs"
        return text


def mask_rows(ids: Ids, keys: Bits, vocabulary: Vocabulary, *, whole_words: bool = False) -> Masked:
    """Choose words of each row and change them. ids (B, T) with their special symbols, keys (B,).

    With `whole_words` all pieces of a word are chosen or none.
    """
    bits = noise(keys, ids.shape[1])
    chance = _share(bits, first=40, count=24)
    if whole_words:
        chance = np.take_along_axis(chance, _first_pieces(ids, vocabulary), axis=1)
    chosen = (chance < CHOSEN) & vocabulary.is_ordinary[ids]
    fate = _share(bits, first=24, count=16)
    other = vocabulary.ordinary[(bits & np.uint64(0xFFFFFF)) % np.uint64(len(vocabulary.ordinary))]
    hidden = chosen & (fate < HIDDEN)
    replaced = chosen & (fate >= HIDDEN) & (fate < HIDDEN + REPLACED)
    changed = np.where(hidden, vocabulary.mask_id, np.where(replaced, other, ids))
    return Masked(changed, chosen, hidden, replaced)


def row_keys(rows: Ids, *, seed: int, epoch: int) -> Bits:
    """A key for each row of an epoch: other seeds, epochs and rows have others."""
    start = _mixed(np.array([seed], dtype=np.uint64)) + np.uint64(epoch)
    return _mixed(_mixed(start) + rows.astype(np.uint64))


def noise(keys: Bits, width: int) -> Bits:
    """64 random bits for each place of each row, (B, T): splitmix64 (Steele, Lea and Flood 2014) at their number."""
    places = np.arange(1, width + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return _finished(keys[:, None] + places)


def _mixed(value: Bits) -> Bits:
    return _finished(value * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0xD1B54A32D192ED03))


def _finished(x: Bits) -> Bits:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: Bits = x ^ (x >> np.uint64(31))
    return found


def _share(bits: Bits, *, first: int, count: int) -> npt.NDArray[np.float64]:
    """`count` bits, from bit `first` upwards, as a number from 0 to 1."""
    part = (bits >> np.uint64(first)) & np.uint64((1 << count) - 1)
    return part.astype(np.float64) / (1 << count)


def _first_pieces(ids: Ids, vocabulary: Vocabulary) -> Ids:
    """For each place the place where its word begins."""
    places = np.arange(ids.shape[1])
    begins = ~vocabulary.continues[ids]
    found: Ids = np.maximum.accumulate(np.where(begins, places, 0), axis=1)
    return found
