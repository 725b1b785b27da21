"""How often a word occurs beside how many tokens it is cut into, on the user's own texts.

Counts words by a fixed rule, so that the tables of two tokenizers have the same rows. Nothing here knows how
a tokenizer was trained.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regard.tokenizers.tokenizer import Tokenizer
from regard.utils.errors import DataError, UsageError

_WORD = re.compile(r"\w+(?:['’\-]\w+)*")


@dataclass(frozen=True)
class WordFrequency:
    word: str
    count: int  # how often it occurs in the texts
    num_tokens: int  # how many tokens write it


def frequency_table(tokenizer: Tokenizer, texts: Iterable[str]) -> list[WordFrequency]:
    """Every word of `texts` with its count and its number of tokens, the most frequent first."""
    if isinstance(texts, str):
        raise UsageError("texts must be a list of texts, got one str; put it into a list.")
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(_WORD.findall(text))
    if not counts:
        raise DataError("there are no words to count: every text is empty. Give other texts.")
    # Byte-level tokens hold the space before a word; without it the word would be cut as at a text's start.
    before = " " if tokenizer.kind == "byte-bpe" else ""
    words = sorted(counts, key=lambda word: (-counts[word], word))
    encoded = tokenizer.encode_batch([before + word for word in words])
    return [WordFrequency(word, counts[word], len(ids)) for word, ids in zip(words, encoded, strict=True)]


def frequency_correlation(rows: Sequence[WordFrequency]) -> float:
    """Spearman's correlation of count and tokens: below 0 where rarer words are cut into more tokens."""
    return spearman([row.count for row in rows], [row.num_tokens for row in rows])


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's rank correlation; equal values share the mean of their ranks."""
    if len(first) != len(second):
        raise UsageError(f"spearman needs as many values on both sides, got {len(first)} and {len(second)}.")
    if len(first) < 2:
        raise UsageError(f"spearman needs at least 2 values on each side, got {len(first)}.")
    left, right = (_ranks(values) for values in (first, second))
    left, right = left - left.mean(), right - right.mean()
    spread = float(np.sqrt((left @ left) * (right @ right)))
    if spread == 0.0:
        raise UsageError("spearman is undefined where all values of one side are equal.")
    return float(left @ right) / spread


def write_frequency_csv(path: Path | str, rows: Iterable[WordFrequency]) -> None:
    """Write the table with the header word,count,tokens."""
    with Path(path).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("word", "count", "tokens"))
        writer.writerows((row.word, row.count, row.num_tokens) for row in rows)


def _ranks(values: Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    _, places, counts = np.unique(np.asarray(values, dtype=np.float64), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: np.ndarray[tuple[int], np.dtype[np.float64]] = (last - (counts - 1) / 2.0)[places]
    return ranks
