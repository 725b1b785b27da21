"""What guessing hidden words achieves without a model: by how often words occur, and by the word before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[Any]

COUNTED = 20_000_000  # words of a long text that are counted; more would hardly change what is most frequent


@dataclass(frozen=True)
class Guesser:
    """The most frequent word of a text, and for each word the one that follows it most often."""

    commonest: int
    following: npt.NDArray[np.int64]  # (N,) the commonest word for those that nothing follows

    @classmethod
    def learn(cls, ids: Ids, vocab_size: int) -> Guesser:
        """Count the ids of a text; of equally frequent words the one with the lowest id counts."""
        text = np.asarray(ids[:COUNTED]).astype(np.int64)
        commonest = int(np.bincount(text, minlength=vocab_size).argmax())
        pairs, counts = np.unique(text[:-1] * vocab_size + text[1:], return_counts=True)
        left, right = np.divmod(pairs, vocab_size)
        following = np.full(vocab_size, commonest, dtype=np.int64)
        order = np.lexsort((-right, counts, left))  # the best of each left word comes last, and stays
        following[left[order]] = right[order]
        return cls(commonest, following)

    def unigram(self, hidden: Ids) -> float:
        """In hundredths: how many of the hidden words are the most frequent one."""
        return _hundredths(hidden == self.commonest)

    def bigram(self, before: Ids, hidden: Ids) -> float:
        """In hundredths: how many of the hidden words follow most often on the word that is `before` them."""
        return _hundredths(self.following[before] == hidden)


def _hundredths(right: npt.NDArray[np.bool_]) -> float:
    return 100 * float(right.mean()) if len(right) else 0.0
