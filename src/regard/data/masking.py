"""Choose and replace tokens for masked language modeling (Devlin et al. 2018).

15 % of all tokens are chosen for prediction. Of these, 80 % are replaced with the mask token, 10 % with a random token,
and 10 % stay unchanged. Since a chosen token is not always masked, the model has to encode every token, not only masks.
Special tokens are never chosen and never replace other tokens.

Random numbers are counter-based: the number for each position is computed from the key of its row and the position. So
a row gets the same mask in any batch, and a different one in every epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.tokenizers.tokenizer import Tokenizer
from regard.utils.errors import UsageError

Bits = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]
Ids = npt.NDArray[np.int64]

CHOSEN = 0.15  # fraction of all tokens
MASKED, REPLACED = 0.8, 0.1  # fractions of the chosen tokens; the other chosen tokens stay unchanged


@dataclass(frozen=True)
class Vocabulary:
    """The properties of a tokenizer that masking needs."""

    mask_id: int
    ordinary: Ids  # ids that may be chosen and may replace other ids
    is_ordinary: Flags  # (V,)
    continues: Flags  # (V,) whether a token continues the word before it

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Vocabulary:
        tokens = tokenizer.vocabulary()
        is_ordinary = np.ones(len(tokens), dtype=bool)
        is_ordinary[list(tokenizer.special_ids)] = False
        if not is_ordinary.any():
            raise UsageError("the vocabulary must have tokens other than special tokens. Use another tokenizer.")
        continues = np.array([token.startswith("##") for token in tokens])
        return cls(tokenizer.mask_id, np.flatnonzero(is_ordinary), is_ordinary, continues)


class Masked(NamedTuple):
    """The input rows of a model and the positions that it has to predict."""

    ids: Ids  # (B, T)
    chosen: Flags  # (B, T)
    masked: Flags  # (B, T) chosen tokens that were replaced with the mask token
    replaced: Flags  # (B, T) chosen tokens that were replaced with a random token


@dataclass
class MaskingStats:
    """Counts of masked tokens and of segment pairs."""

    tokens: int = 0  # tokens that may be chosen
    chosen: int = 0
    masked: int = 0
    replaced: int = 0
    pairs: int = 0  # rows with two segments
    following: int = 0  # pairs whose second segment follows the first

    @classmethod
    def count(cls, before: Ids, masked: Masked, vocabulary: Vocabulary, follows: npt.NDArray[Any]) -> MaskingStats:
        return cls(
            tokens=int(vocabulary.is_ordinary[before].sum()),
            chosen=int(masked.chosen.sum()),
            masked=int(masked.masked.sum()),
            replaced=int(masked.replaced.sum()),
            pairs=int((follows >= 0).sum()),
            following=int((follows > 0).sum()),
        )

    def add(self, other: MaskingStats) -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    @property
    def kept(self) -> int:
        return self.chosen - self.masked - self.replaced

    def __str__(self) -> str:
        of_chosen = [f"{part / max(1, self.chosen):.1%}" for part in (self.masked, self.replaced, self.kept)]
        text = (
            f"{self.chosen / max(1, self.tokens):.2%} of {self.tokens:,} tokens chosen; of these {of_chosen[0]} "
            f"masked, {of_chosen[1]} replaced, {of_chosen[2]} kept"
        )
        if self.pairs:
            text += f"; the second segment follows in {self.following / self.pairs:.2%} of {self.pairs:,} pairs"
        return text


def mask_rows(ids: Ids, keys: Bits, vocabulary: Vocabulary, *, whole_words: bool = False) -> Masked:
    """Choose tokens in each row and mask or replace them. `ids` (B, T) include special tokens; `keys` are (B,).

    With `whole_words`, either all tokens of a word are chosen or none.
    """
    bits = noise(keys, ids.shape[1])
    chance = _share(bits, first=40, count=24)
    if whole_words:
        chance = np.take_along_axis(chance, _word_starts(ids, vocabulary), axis=1)
    chosen = (chance < CHOSEN) & vocabulary.is_ordinary[ids]
    outcome = _share(bits, first=24, count=16)
    other = vocabulary.ordinary[(bits & np.uint64(0xFFFFFF)) % np.uint64(len(vocabulary.ordinary))]
    masked = chosen & (outcome < MASKED)
    replaced = chosen & (outcome >= MASKED) & (outcome < MASKED + REPLACED)
    changed = np.where(masked, vocabulary.mask_id, np.where(replaced, other, ids))
    return Masked(changed, chosen, masked, replaced)


def row_keys(rows: Ids, *, seed: int, epoch: int) -> Bits:
    """Return a random key for each row, which depends on seed, epoch and row."""
    start = _mixed(np.array([seed], dtype=np.uint64)) + np.uint64(epoch)
    return _mixed(_mixed(start) + rows.astype(np.uint64))


def noise(keys: Bits, width: int) -> Bits:
    """Return 64 random bits for each position of each row (B, T), by splitmix64 (Steele, Lea and Flood 2014)."""
    places = np.arange(1, width + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return _finished(keys[:, None] + places)


def _mixed(value: Bits) -> Bits:
    return _finished(value * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0xD1B54A32D192ED03))


def _finished(x: Bits) -> Bits:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Bits = x ^ (x >> np.uint64(31))
    return mixed


def _share(bits: Bits, *, first: int, count: int) -> npt.NDArray[np.float64]:
    """Convert `count` bits, from bit `first` upwards, to a number in [0, 1)."""
    part = (bits >> np.uint64(first)) & np.uint64((1 << count) - 1)
    return part.astype(np.float64) / (1 << count)


def _word_starts(ids: Ids, vocabulary: Vocabulary) -> Ids:
    """Return for each position the position at which its word starts."""
    places = np.arange(ids.shape[1])
    begins = ~vocabulary.continues[ids]
    starts: Ids = np.maximum.accumulate(np.where(begins, places, 0), axis=1)
    return starts
