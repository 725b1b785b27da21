"""Word frequency and number of tokens: a subword tokenizer splits rare words into more tokens than frequent ones."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from regard.tokenizers.tokenizer import Tokenizer
from regard.tokenizers.training import WORD, require_list
from regard.utils.errors import DataError


@dataclass(frozen=True)
class WordFrequency:
    word: str
    count: int  # occurrences in the texts
    num_tokens: int  # of the word


def frequency_table(tokenizer: Tokenizer, texts: Iterable[str], path: Path | None = None) -> list[WordFrequency]:
    """Return count and number of tokens of each word in `texts`, most frequent first; `path` is for errors."""
    require_list(texts)
    counts = Counter(word for text in texts for word in re.findall(WORD, text))
    if not counts:
        raise DataError(f"{path or 'texts'}: no words found. Give texts with words.", argument="texts", path=path)
    # Byte-level tokens include the space before a word. Without it, the word would be split as at the start of a text.
    space = " " if tokenizer.kind == "byte-bpe" else ""
    words = sorted(counts, key=lambda word: (-counts[word], word))
    encoded = tokenizer.encode_batch([space + word for word in words])
    return [WordFrequency(word, counts[word], len(ids)) for word, ids in zip(words, encoded, strict=True)]
