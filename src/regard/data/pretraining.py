"""Rows for pretraining BERT (Devlin et al. 2018): sentence pairs for next-sentence prediction, and masked tokens.

A row is [CLS] first [SEP] second [SEP]. An epoch uses all documents. Each row is filled with complete sentences up to
the window, and is split into two segments between sentences. In half of the rows the second segment is replaced with a
segment from another document. The model should tell the two cases apart only by the words, so the other segment also
consists of complete sentences and is about as long as the segment that it replaces. A row with only one sentence has
one segment. The plan of an epoch stores only positions in the array of ids; each row is built when it is needed.

15 % of all tokens are chosen for prediction. Of the chosen tokens, 80 % are replaced with the mask token, 10 % with a
random token, and 10 % stay unchanged. Since a chosen token is not always masked, the model has to encode every token,
not only masks. Special tokens are never chosen and never replace other tokens.

The plan and the masks depend only on the documents, the seed and the epoch. Random numbers for masks are counter-based:
the number for each position is computed from the key of its row and the position. So the mask of a row does not depend
on the batch, but differs in every epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.data.corpus import Ids
from regard.data.documents import Documents, Places
from regard.tokenizers.tokenizer import Tokenizer
from regard.utils.errors import DataError, UsageError

Bits = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]

ALONE, NOT_NEXT, IS_NEXT = -1, 0, 1  # labels of next-sentence prediction; ALONE: no second segment
SHORT_SHARE = 0.1  # fraction of rows with a random shorter limit, so that the model also sees short texts
SMALLEST_WINDOW = 8  # three special tokens and some words
CHOSEN = 0.15  # fraction of all tokens
MASKED, REPLACED = 0.8, 0.1  # fractions of the chosen tokens; the other chosen tokens stay unchanged


@dataclass(frozen=True)
class Rows:
    """The start and end of each row's segments in the ids, and whether the second segment follows the first."""

    first: Places  # (rows, 2)
    second: Places  # (rows, 2), empty where a row has one segment
    nsp_labels: Places  # (rows,) ALONE, NOT_NEXT or IS_NEXT

    @classmethod
    def concatenate(cls, parts: Sequence[Rows]) -> Rows:
        names = ("first", "second", "nsp_labels")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def __len__(self) -> int:
        return len(self.nsp_labels)

    def __getitem__(self, numbers: Places) -> Rows:
        """Return the rows with these indices."""
        return Rows(self.first[numbers], self.second[numbers], self.nsp_labels[numbers])

    @property
    def lengths(self) -> Places:
        """The lengths of the rows, including special tokens."""
        first, second = (part[:, 1] - part[:, 0] for part in (self.first, self.second))
        total: Places = first + second + 2 + (second > 0)
        return total


class PaddedRows(NamedTuple):
    """The ids of rows, with special tokens and padding."""

    ids: Places  # (B, T)
    type_ids: Places  # (B, T) 0 for the first segment, 1 for the second; 0 in the padding
    lengths: Places  # (B,)
    nsp_labels: Places  # (B,)


def longest_sentence(window: int) -> int:
    """Return the maximum length of a sentence in tokens such that any two fit into a row."""
    if window < SMALLEST_WINDOW:
        message = f"window must be at least {SMALLEST_WINDOW} tokens to fit two sentences, got {window}."
        raise UsageError(message, argument="window", value=window)
    return (window - 3) // 2


def plan_rows(documents: Documents, *, window: int, seed: int, epoch: int, pairs: bool = True) -> Rows:
    """Divide all documents into rows of at most `window` ids; without `pairs` every row has one segment."""
    if pairs and len(documents) < 2:
        raise DataError(f"next-sentence prediction needs at least two documents, got {len(documents)}.")
    random = np.random.default_rng([seed, epoch])
    max_len = window - 3 if pairs else window - 2
    begins, ends, document = _packed(documents, max_len, random)
    split_at = ends
    if pairs:  # split each row at a random sentence after its first; a row with one sentence has no second segment
        choices = np.maximum(ends - begins - 1, 1)
        split_at = begins + 1 + (random.random(len(begins)) * choices).astype(np.int64)
    starts = documents.sentences
    first = np.stack([starts[begins], starts[split_at]], axis=1)
    second = np.stack([starts[split_at], starts[ends]], axis=1)
    nsp_labels = np.where(split_at < ends, IS_NEXT, ALONE)
    asked = np.flatnonzero(split_at < ends)
    wrong = asked[random.permutation(len(asked)) % 2 == 1]
    if len(wrong):
        lengths = np.stack([first[wrong, 1] - first[wrong, 0], second[wrong, 1] - second[wrong, 0]], axis=1)
        second[wrong] = _elsewhere(documents, document[wrong], lengths, max_len, random)
        nsp_labels[wrong] = NOT_NEXT
    return Rows(first, second, nsp_labels)


def _packed(documents: Documents, max_len: int, random: np.random.Generator) -> tuple[Places, Places, Places]:
    """Pack sentences into rows. Return the first sentence, the end (exclusive) and the document of each row."""
    starts, count = documents.sentences, documents.num_sentences
    numbers = np.repeat(np.arange(len(documents)), np.diff(documents.documents))  # (sentences,)
    full = random.random(count) >= SHORT_SHARE
    limits = np.where(full, max_len, random.integers(1, max_len + 1, count))
    fitting = np.searchsorted(starts, starts[:-1] + limits, side="right") - 1
    following = np.clip(fitting, np.arange(1, count + 1), documents.documents[1:][numbers])
    chain = memoryview(following.data)  # reading single elements is several times faster than from an array
    begins, place = [], 0
    while place < count:
        begins.append(place)
        place = chain[place]
    found = np.array(begins, dtype=np.int64)
    return found, following[found], numbers[found]


def _elsewhere(documents: Documents, own: Places, lengths: Places, max_len: int, random: np.random.Generator) -> Places:
    """Return random segments from documents other than `own`, about as long as the segments that they replace."""
    starts, bounds = documents.sentences, documents.documents
    # Draw any sentence outside the row's own document.
    sizes = bounds[own + 1] - bounds[own]
    drawn = (random.random(len(own)) * (documents.num_sentences - sizes)).astype(np.int64)
    drawn += np.where(drawn >= bounds[own], sizes, 0)
    other = np.searchsorted(bounds, drawn, side="right") - 1
    wanted = lengths[:, 1]
    # Near the end of a document too few tokens remain: start earlier.
    last = np.searchsorted(starts, starts[bounds[other + 1]] - wanted, side="right") - 1
    begin = np.maximum(np.minimum(drawn, last), bounds[other])
    beyond = np.searchsorted(starts, starts[begin] + wanted)
    nearer = starts[beyond - 1] + starts[np.minimum(beyond, len(starts) - 1)] > 2 * (starts[begin] + wanted)
    end = np.clip(beyond - nearer, begin + 1, bounds[other + 1])
    most = starts[begin] + max_len - lengths[:, 0]
    end = np.where(starts[end] > most, np.maximum(end - 1, begin + 1), end)  # the last sentence does not fit
    return np.stack([starts[begin], np.minimum(starts[end], most)], axis=1)


def write_rows(ids: Ids, rows: Rows, *, start_id: int, end_id: int, pad_id: int) -> PaddedRows:
    """Build the input of the model from planned rows: ids with special tokens and padding."""
    (begin, stop), (second, second_stop) = rows.first.T[:, :, None], rows.second.T[:, :, None]
    lengths = rows.lengths
    places = np.arange(lengths.max())
    first_end = stop - begin + 1  # position of the first [SEP]
    in_first = (places > 0) & (places < first_end)
    in_second = (places > first_end) & (places <= first_end + second_stop - second)
    where = np.where(in_first, begin + places - 1, np.where(in_second, second + places - first_end - 1, 0))
    found = np.where(in_first | in_second, ids[where].astype(np.int64), pad_id)
    found[:, 0] = start_id
    found[(places == first_end) | (places == lengths[:, None] - 1)] = end_id
    type_ids = ((places > first_end) & (places < lengths[:, None])).astype(np.int64)
    return PaddedRows(found, type_ids, lengths, rows.nsp_labels)


# --- Masks --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Vocabulary:
    """The properties of a tokenizer that are needed for masking."""

    mask_id: int
    ordinary: Places  # ids that may be chosen and may replace other ids
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
    """The masked input rows and the positions that the model has to predict."""

    ids: Places  # (B, T)
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
    def count(
        cls, before: Places, masked: Masked, vocabulary: Vocabulary, nsp_labels: npt.NDArray[Any]
    ) -> MaskingStats:
        return cls(
            tokens=int(vocabulary.is_ordinary[before].sum()),
            chosen=int(masked.chosen.sum()),
            masked=int(masked.masked.sum()),
            replaced=int(masked.replaced.sum()),
            pairs=int((nsp_labels >= 0).sum()),
            following=int((nsp_labels > 0).sum()),
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
            f"{self.chosen / max(1, self.tokens):.2%} of {self.tokens:,} tokens chosen: {of_chosen[0]} "
            f"masked, {of_chosen[1]} replaced, {of_chosen[2]} unchanged"
        )
        if self.pairs:
            text += f"; {self.following / self.pairs:.2%} of {self.pairs:,} pairs are consecutive"
        return text


def mask_rows(ids: Places, keys: Bits, vocabulary: Vocabulary, *, whole_words: bool = False) -> Masked:
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


def row_keys(rows: Places, *, seed: int, epoch: int) -> Bits:
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
    """Convert the `count` bits that start at bit `first` to a number in [0, 1)."""
    part = (bits >> np.uint64(first)) & np.uint64((1 << count) - 1)
    return part.astype(np.float64) / (1 << count)


def _word_starts(ids: Places, vocabulary: Vocabulary) -> Places:
    """Return for each position the position at which its word starts."""
    places = np.arange(ids.shape[1])
    begins = ~vocabulary.continues[ids]
    starts: Places = np.maximum.accumulate(np.where(begins, places, 0), axis=1)
    return starts
