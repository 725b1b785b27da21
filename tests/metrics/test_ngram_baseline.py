"""Baselines of masked-token prediction, computed by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.metrics.ngram_baseline import NgramBaseline


def test_the_most_frequent_token_and_the_most_frequent_after_each() -> None:
    text = np.array([1, 2, 1, 2, 1, 3, 4, 3, 1], dtype=np.uint16)
    found = NgramBaseline.fit(text, vocab_size=6)
    assert found.most_frequent == 1
    # After 1 comes 2 twice and 3 once; after 3 comes 1 and 4 once each; nothing follows 0 and 5.
    assert found.following.tolist() == [1, 2, 1, 1, 3, 1]
    assert found.unigram(np.array([1, 2, 3, 1])) == 50
    assert found.bigram(np.array([1, 1, 4, 5]), np.array([2, 3, 3, 1])) == 75
    assert found.unigram(np.array([], dtype=int)) == 0


@given(st.lists(st.integers(0, 4), min_size=2, max_size=40))
def test_following_is_what_counting_says(text: list[int]) -> None:
    found = NgramBaseline.fit(np.array(text), vocab_size=5)
    for word in set(text[:-1]):
        counts = [sum(a == word and b == other for a, b in itertools.pairwise(text)) for other in range(5)]
        assert found.following[word] == counts.index(max(counts))


def test_only_the_start_of_a_long_text_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.metrics.ngram_baseline.MAX_COUNTED", 4)
    assert NgramBaseline.fit(np.array([2, 2, 2, 1, 1, 1, 1, 1]), vocab_size=3).most_frequent == 2
