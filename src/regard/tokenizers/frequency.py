"""How often a word occurs beside how many tokens it is cut into, on the user's own texts.

Counts words by a fixed rule, so that the tables of two tokenizers have the same rows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

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
    counts = Counter(word for text in texts for word in _WORD.findall(text))
    if not counts:
        raise DataError("there are no words to count: every text is empty. Give other texts.")
    # Byte-level tokens hold the space before a word; without it the word would be cut as at a text's start.
    before = " " if tokenizer.kind == "byte-bpe" else ""
    words = sorted(counts, key=lambda word: (-counts[word], word))
    encoded = tokenizer.encode_batch([before + word for word in words])
    return [WordFrequency(word, counts[word], len(ids)) for word, ids in zip(words, encoded, strict=True)]
