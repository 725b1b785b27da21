"""Masking: rates over a million words, special tokens, whole words, and repeatable random numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.pretraining import MaskingStats, Vocabulary, mask_rows, noise, row_keys
from regard.tokenizers.tokenizer import BERT_SPECIAL_TOKENS
from regard.tokenizers.training import train_tokenizer
from regard.utils.errors import UsageError

SPECIAL, SIZE = 5, 997
ROWS, WIDTH = 8500, 127
NO_PAIRS = np.full(ROWS, -1)


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    ordinary = np.arange(SPECIAL, SIZE)
    is_ordinary = np.arange(SIZE) >= SPECIAL
    return Vocabulary(4, ordinary, is_ordinary, continues=is_ordinary & (np.arange(SIZE) % 3 == 0))


@pytest.fixture(scope="module")
def table() -> np.ndarray:
    """Words, with a special token at every ninth place."""
    ids = np.random.default_rng(0).integers(SPECIAL, SIZE, (ROWS, WIDTH))
    ids[:, ::9] = np.arange(WIDTH)[::9] % SPECIAL
    return ids


@pytest.mark.parametrize("whole_words", [False, True])
def test_rates_over_a_million_words(vocabulary: Vocabulary, table: np.ndarray, whole_words: bool) -> None:
    masked = mask_rows(table, row_keys(np.arange(ROWS), seed=0, epoch=0), vocabulary, whole_words=whole_words)
    words = table >= SPECIAL
    assert 9e5 < words.sum() < 1.1e6
    chosen = masked.chosen
    assert abs(chosen[words].mean() - 0.15) < 0.002
    assert not chosen[~words].any(), "special tokens are never chosen"
    assert (masked.ids[~chosen] == table[~chosen]).all()
    now, was = masked.ids[chosen], table[chosen]
    hidden, kept = (now == 4).mean(), (now == was).mean()
    assert abs(hidden - 0.8) < 0.005
    assert abs(kept - 0.1) < 0.005
    assert abs(1 - hidden - kept - 0.1) < 0.005
    put_in = now[(now != 4) & (now != was)]
    assert put_in.min() >= SPECIAL, "special tokens are never put in"
    counts = np.bincount(put_in, minlength=SIZE)[SPECIAL:]
    assert counts.min() > 0, "any word may be put in"
    assert abs(counts / counts.mean() - 1).max() < 1.5  # about 15 each, a Poisson's spread
    rates = MaskingStats.count(table, masked, vocabulary, NO_PAIRS)
    assert (rates.tokens, rates.chosen, rates.masked) == (words.sum(), chosen.sum(), (now == 4).sum())
    assert f" {words.sum():,} " in str(rates)


def test_whole_words_are_chosen_whole(vocabulary: Vocabulary, table: np.ndarray) -> None:
    keys = row_keys(np.arange(ROWS), seed=1, epoch=0)
    chosen = mask_rows(table, keys, vocabulary, whole_words=True).chosen
    continues = vocabulary.continues[table[:, 1:]] & (table[:, :-1] >= SPECIAL)
    assert continues.sum() > 1e5
    assert (chosen[:, 1:] == chosen[:, :-1])[continues].all()
    apart = mask_rows(table, keys, vocabulary).chosen
    assert not (apart[:, 1:] == apart[:, :-1])[continues].all()


def test_each_epoch_row_and_seed_has_its_own_mask(vocabulary: Vocabulary, table: np.ndarray) -> None:
    same = np.repeat(table[:1], 3, axis=0)
    masks = [
        mask_rows(same, row_keys(np.arange(3), seed=seed, epoch=epoch), vocabulary).chosen
        for seed in (0, 1)
        for epoch in (0, 1)
    ]
    rows = {row.tobytes() for mask in masks for row in mask}
    assert len(rows) == 12


@given(st.integers(0, 2**32 - 1), st.integers(0, 10_000), st.permutations(range(6)))
def test_a_row_is_masked_alike_in_every_batch(seed: int, epoch: int, order: list[int]) -> None:
    ids = np.arange(SPECIAL, SPECIAL + 6 * 31).reshape(6, 31)
    words = np.arange(SIZE) >= SPECIAL
    vocabulary = Vocabulary(4, np.flatnonzero(words), words, np.zeros(SIZE, dtype=bool))
    together = mask_rows(ids, row_keys(np.arange(6), seed=seed, epoch=epoch), vocabulary)
    moved = np.array(order)
    wider = np.pad(ids[moved], ((0, 0), (0, 7)))  # the padding of a longer neighbor
    again = mask_rows(wider, row_keys(moved, seed=seed, epoch=epoch), vocabulary)
    assert (again.ids[:, :31] == together.ids[moved]).all()
    assert (again.ids[:, 31:] == 0).all()
    assert not again.chosen[:, 31:].any()


def test_noise_is_even() -> None:
    bits = noise(row_keys(np.arange(400), seed=3, epoch=5), 500)
    for shift in range(0, 64, 8):
        counts = np.bincount(((bits >> np.uint64(shift)) & np.uint64(255)).astype(int).ravel(), minlength=256)
        expected = bits.size / 256
        assert ((counts - expected) ** 2 / expected).sum() < 400  # chi-square with 255 degrees: 400 is 1e-8
    assert len(np.unique(bits)) == bits.size


def test_a_vocabulary_is_read_from_its_tokenizer() -> None:
    tokenizer = train_tokenizer(
        ["unhappy happy unhappy"], kind="wordpiece", vocab_size=60, special_tokens=BERT_SPECIAL_TOKENS
    )
    found = Vocabulary.of(tokenizer)
    tokens = tokenizer.vocabulary()
    assert tokens[found.mask_id] == "[MASK]" == tokens[4]
    assert sorted(tokens[i] for i in np.flatnonzero(~found.is_ordinary)) == sorted(
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    )
    assert [tokens[i] for i in np.flatnonzero(found.continues)] == [t for t in tokens if t.startswith("##")]
    plain = train_tokenizer(["a b"], kind="word", vocab_size=9)
    with pytest.raises(UsageError):  # it has no mask token
        Vocabulary.of(plain)
