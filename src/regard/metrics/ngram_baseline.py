"""Baselines for masked-token prediction: the most frequent token, overall (unigram) or after a given token (bigram)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[Any]

MAX_COUNTED = 20_000_000  # tokens of a long text that are counted; more would hardly change the most frequent ones


@dataclass(frozen=True)
class NgramBaseline:
    """The most frequent token of a text, and the most frequent successor of each token."""

    most_frequent: int
    following: npt.NDArray[np.int64]  # (V,) most frequent successor; the unigram for tokens without a successor

    @classmethod
    def fit(cls, ids: Ids, vocab_size: int) -> NgramBaseline:
        """Count the ids of a text; among equally frequent tokens, the lowest id is chosen."""
        text = np.asarray(ids[:MAX_COUNTED]).astype(np.int64)
        most_frequent = int(np.bincount(text, minlength=vocab_size).argmax())
        pairs, counts = np.unique(text[:-1] * vocab_size + text[1:], return_counts=True)
        left, right = np.divmod(pairs, vocab_size)
        following = np.full(vocab_size, most_frequent, dtype=np.int64)
        order = np.lexsort((-right, counts, left))  # the most frequent pair of each left token comes last, and stays
        following[left[order]] = right[order]
        return cls(most_frequent, following)

    def unigram(self, targets: Ids) -> float:
        """Accuracy in % of always predicting the most frequent token."""
        return _percent(targets == self.most_frequent)

    def bigram(self, previous: Ids, targets: Ids) -> float:
        """Accuracy in % of always predicting the most frequent successor of the previous token."""
        return _percent(self.following[previous] == targets)


def _percent(correct: npt.NDArray[np.bool_]) -> float:
    return 100 * float(correct.mean()) if len(correct) else 0.0
