"""BPE dropout: decodes to the same text, equals plain BPE without dropout, depends only on the seed."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.tokenizers.bpe_dropout import NUM_SEGMENTATIONS, BPEDropout
from regard.tokenizers.tokenizer import Tokenizer
from regard.tokenizers.training import train_tokenizer
from regard.utils.errors import UsageError

TEXTS = ["the lower lowest newer newest widest wider hat", "the width of the new hat, the newest one!"] * 5


@pytest.fixture(scope="module", params=["bpe", "byte-bpe"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return train_tokenizer(TEXTS, kind=request.param, vocab_size=300)


@settings(max_examples=60, deadline=None)
@given(text=st.text(alphabet="the lowrnsi,!é\n9", max_size=40))
def test_without_dropout_the_ids_are_those_of_encode(text: str, tokenizer: Tokenizer) -> None:
    assert BPEDropout(tokenizer, 0.0).draw(tokenizer.words(text)) == tokenizer.encode(text)


@settings(max_examples=60, deadline=None)
@given(text=st.text(alphabet="the lowrnsi,!", max_size=40), seed=st.integers(0, 99))
def test_segmentations_decode_to_the_same_text(text: str, seed: int, tokenizer: Tokenizer) -> None:
    drawn = BPEDropout(tokenizer, 0.5, seed=seed).draw(tokenizer.words(text))
    assert tokenizer.decode(drawn) == tokenizer.decode(tokenizer.encode(text))


def test_a_frequent_word_has_several_segmentations(tokenizer: Tokenizer) -> None:
    (word,) = tokenizer.words("newest")
    segmentations = BPEDropout(tokenizer, 0.3).segmentations(word)
    assert len(segmentations) == NUM_SEGMENTATIONS
    assert len({tuple(ids) for ids in segmentations}) > 3


def test_merges_are_dropped_with_the_given_probability() -> None:
    # "ab" has a single merge, so it has two tokens exactly if that merge is dropped.
    tokenizer = train_tokenizer(["ab"] * 9, kind="byte-bpe", vocab_size=400)
    (word,) = tokenizer.words("ab")
    assert len(tokenizer.encode("ab")) == 1
    dropouts = [BPEDropout(tokenizer, 0.25, seed=seed) for seed in range(200)]
    merged = [len(ids) == 1 for dropout in dropouts for ids in dropout.segmentations(word)]
    assert sum(merged) / len(merged) == pytest.approx(0.75, abs=0.03)


def test_the_same_seed_gives_the_same_ids_in_any_order_of_words(tokenizer: Tokenizer) -> None:
    words = tokenizer.words("the newest lower hat")
    first, second = BPEDropout(tokenizer, 0.4, seed=3), BPEDropout(tokenizer, 0.4, seed=3)
    for word in reversed(words):
        second.segmentations(word)
    draws = [dropout.draw(words, torch.Generator().manual_seed(5)) for dropout in (first, second)]
    assert draws[0] == draws[1]


def test_a_tokenizer_without_merges_is_refused() -> None:
    words = train_tokenizer(TEXTS, kind="word", vocab_size=50)
    with pytest.raises(UsageError) as caught:
        BPEDropout(words, 0.1)
    assert (caught.value.argument, caught.value.value) == ("kind", "word")
    assert caught.value.allowed == ("bpe", "byte-bpe")
