"""Rows for next-sentence prediction: [CLS] first [SEP] second [SEP].

An epoch goes through all documents. Whole sentences are packed up to the window, and split in two between sentences. In
half of the rows the second segment follows the first in its document; in the other half it comes from another document.
Only the words should differ between the two cases: a segment from elsewhere starts and ends with a sentence, and is
about as long as the one it replaces. A row may have a single sentence.

A plan holds positions in the ids; a row is written out when it is needed. The plan is a function of the documents, the
seed and the epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from regard.data.corpus import Ids
from regard.data.documents import Documents, Places
from regard.utils.errors import DataError, UsageError

ALONE, ELSEWHERE, FOLLOWS = -1, 0, 1  # what the second segment of a row is
SHORT_SHARE = 0.1  # of rows that are not filled, so that short texts occur, too
SMALLEST_WINDOW = 8  # three special tokens and some words


@dataclass(frozen=True)
class Rows:
    """Where the segments of each row start and end in the ids, and whether the second follows the first."""

    first: Places  # (rows, 2)
    second: Places  # (rows, 2), empty where a row has one segment
    follows: npt.NDArray[np.int64]  # (rows,) ALONE, ELSEWHERE or FOLLOWS

    @classmethod
    def concatenate(cls, parts: Sequence[Rows]) -> Rows:
        first, second, follows = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("first", "second", "follows")
        )
        return cls(first, second, follows)

    def __len__(self) -> int:
        return len(self.follows)

    def __getitem__(self, numbers: Places) -> Rows:
        """Some of the rows."""
        return Rows(self.first[numbers], self.second[numbers], self.follows[numbers])

    @property
    def lengths(self) -> Places:
        """With the special tokens."""
        first, second = (part[:, 1] - part[:, 0] for part in (self.first, self.second))
        total: Places = first + second + 2 + (second > 0)
        return total


class PaddedRows(NamedTuple):
    """Rows written out, with padding."""

    ids: npt.NDArray[np.int64]  # (B, T)
    type_ids: npt.NDArray[np.int64]  # (B, T) 0 for the first segment, 1 for the second; 0 in the padding
    lengths: npt.NDArray[np.int64]  # (B,)
    follows: npt.NDArray[np.int64]  # (B,)


def longest_sentence(window: int) -> int:
    """The length of a sentence, in tokens, so that two always fit into a row."""
    if window < SMALLEST_WINDOW:
        message = f"a window of {window} is too short for two sentences: give at least {SMALLEST_WINDOW}."
        raise UsageError(message, argument="window", value=window)
    return (window - 3) // 2


def plan_rows(documents: Documents, *, window: int, seed: int, epoch: int, pairs: bool = True) -> Rows:
    """All documents of an epoch in rows of at most `window` ids; without `pairs` every row has one segment."""
    if pairs and len(documents) < 2:
        raise DataError("next-sentence prediction needs at least two documents, and there is only one.")
    random = np.random.default_rng([seed, epoch])
    room = window - 3 if pairs else window - 2
    begins, ends, document = _packed(documents, room, random)
    split_at = ends if not pairs else _split(begins, ends, random)
    starts = documents.sentences
    first = np.stack([starts[begins], starts[split_at]], axis=1)
    second = np.stack([starts[split_at], starts[ends]], axis=1)
    follows = np.where(split_at < ends, FOLLOWS, ALONE)
    asked = np.flatnonzero(split_at < ends)
    wrong = asked[random.permutation(len(asked)) % 2 == 1]
    if len(wrong):
        lengths = np.stack([first[wrong, 1] - first[wrong, 0], second[wrong, 1] - second[wrong, 0]], axis=1)
        second[wrong] = _elsewhere(documents, document[wrong], lengths, room, random)
        follows[wrong] = ELSEWHERE
    return Rows(first, second, follows)


def _packed(documents: Documents, room: int, random: np.random.Generator) -> tuple[Places, Places, Places]:
    """Rows of whole sentences: the first of each, the one after its last, and its document."""
    starts, count = documents.sentences, documents.num_sentences
    numbers = np.repeat(np.arange(len(documents)), np.diff(documents.documents))  # (sentences,)
    full = random.random(count) >= SHORT_SHARE
    limits = np.where(full, room, random.integers(1, room + 1, count))
    fitting = np.searchsorted(starts, starts[:-1] + limits, side="right") - 1
    following = np.clip(fitting, np.arange(1, count + 1), documents.documents[1:][numbers])
    chain = memoryview(following.data)  # one element of it is read several times as fast as one of an array
    begins, place = [], 0
    while place < count:
        begins.append(place)
        place = chain[place]
    found = np.array(begins, dtype=np.int64)
    return found, following[found], numbers[found]


def _split(begins: Places, ends: Places, random: np.random.Generator) -> Places:
    """The sentence that the second segment starts with, any but the first; of a single sentence, its end."""
    choices = np.maximum(ends - begins - 1, 1)
    found: Places = begins + 1 + (random.random(len(begins)) * choices).astype(np.int64)
    return found


def _elsewhere(documents: Documents, own: Places, lengths: Places, room: int, random: np.random.Generator) -> Places:
    """Segments from other documents than `own`, about as long as those they replace; lengths (rows, 2)."""
    starts, bounds = documents.sentences, documents.documents
    # Any sentence that is not of the own document: those before it, then those after it.
    sizes = bounds[own + 1] - bounds[own]
    drawn = (random.random(len(own)) * (documents.num_sentences - sizes)).astype(np.int64)
    drawn += np.where(drawn >= bounds[own], sizes, 0)
    other = np.searchsorted(bounds, drawn, side="right") - 1
    wanted = lengths[:, 1]
    # Near the end of a document too little follows: start earlier.
    last = np.searchsorted(starts, starts[bounds[other + 1]] - wanted, side="right") - 1
    begin = np.maximum(np.minimum(drawn, last), bounds[other])
    beyond = np.searchsorted(starts, starts[begin] + wanted)
    nearer = starts[beyond - 1] + starts[np.minimum(beyond, len(starts) - 1)] > 2 * (starts[begin] + wanted)
    end = np.clip(beyond - nearer, begin + 1, bounds[other + 1])
    most = starts[begin] + room - lengths[:, 0]
    end = np.where(starts[end] > most, np.maximum(end - 1, begin + 1), end)  # the last sentence does not fit
    return np.stack([starts[begin], np.minimum(starts[end], most)], axis=1)


def write_rows(ids: Ids, rows: Rows, *, start_id: int, end_id: int, pad_id: int) -> PaddedRows:
    """Rows with special tokens and padding, as the model reads them."""
    (begin, stop), (second, second_stop) = rows.first.T[:, :, None], rows.second.T[:, :, None]
    lengths = rows.lengths
    places = np.arange(lengths.max())
    first_end = stop - begin + 1  # the place of the first [SEP]
    in_first = (places > 0) & (places < first_end)
    in_second = (places > first_end) & (places <= first_end + second_stop - second)
    where = np.where(in_first, begin + places - 1, np.where(in_second, second + places - first_end - 1, 0))
    found = np.where(in_first | in_second, ids[where].astype(np.int64), pad_id)
    found[:, 0] = start_id
    found[(places == first_end) | (places == lengths[:, None] - 1)] = end_id
    type_ids = ((places > first_end) & (places < lengths[:, None])).astype(np.int64)
    return PaddedRows(found, type_ids, lengths, rows.follows)
