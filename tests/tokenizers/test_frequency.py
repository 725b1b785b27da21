"""Word frequency and number of tokens: counts by hand, and a negative correlation on two corpora."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

from regard.metrics.labels import spearman
from regard.tokenizers.frequency import WordFrequency, frequency_table
from regard.tokenizers.training import train_tokenizer
from regard.utils.errors import DataError, UsageError


def _zipf_corpus(num_words: int) -> list[str]:
    """Random words with frequencies that follow Zipf's law, as in natural text."""
    draw = random.Random(11)
    syllables = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]
    words = list(dict.fromkeys("".join(draw.choices(syllables, k=draw.randint(1, 5))) for _ in range(6007)))
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    drawn = draw.choices(words, weights, k=num_words)
    return [" ".join(drawn[start : start + 20]) for start in range(0, num_words, 20)]


def _correlation(rows: list[WordFrequency]) -> float:
    """Spearman correlation of count and number of tokens, in percent; negative if rare words have more tokens."""
    return spearman([row.count for row in rows], [row.num_tokens for row in rows]).value


@pytest.mark.parametrize("kind", ["bpe", "byte-bpe", "wordpiece"])
def test_m4_rarer_words_have_more_tokens(kind: str) -> None:
    texts = _zipf_corpus(100_003)
    tokenizer = train_tokenizer(texts, kind=kind, vocab_size=1500)
    rows = frequency_table(tokenizer, texts)
    assert sum(row.count for row in rows) == 100_003
    assert _correlation(rows) < -30


def test_m4_on_a_natural_corpus(real_data: Path) -> None:
    with gzip.open(real_data / "multi30k" / "train.en.gz", "rt", encoding="utf-8") as file:
        texts = [next(file).strip() for _ in range(12_000)]
    rows = frequency_table(train_tokenizer(texts, vocab_size=2000), texts)
    assert sum(row.count for row in rows) > 100_000
    assert _correlation(rows) < -50


def test_counts_by_hand() -> None:
    tokenizer = train_tokenizer(["aa b aa don't"], kind="char")
    assert frequency_table(tokenizer, ["aa b, aa!", "don't (b) aa"]) == [
        WordFrequency("aa", 3, 2),
        WordFrequency("b", 2, 1),
        WordFrequency("don't", 1, 5),
    ]


def test_byte_level_words_are_split_as_inside_a_text() -> None:
    tokenizer = train_tokenizer(["x low low low low"], kind="byte-bpe", vocab_size=300)
    [row] = frequency_table(tokenizer, ["low"])
    assert row.num_tokens == 1  # "Ġlow" is a token


def test_texts_without_words_are_refused() -> None:
    tokenizer = train_tokenizer(["a"], kind="char")
    with pytest.raises(DataError) as no_words:
        frequency_table(tokenizer, ["", " !"], Path("texts.txt"))
    assert (no_words.value.argument, no_words.value.path) == ("texts", Path("texts.txt"))
    with pytest.raises(UsageError) as no_list:
        frequency_table(tokenizer, "a b")
    assert (no_list.value.argument, no_list.value.value) == ("texts", "a b")
