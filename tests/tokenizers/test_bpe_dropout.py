"""Words cut in other ways: always the same text, the usual cut when nothing is left out, repeatable."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.tokenizers.bpe_dropout import CUTS, BPEDropout
from regard.tokenizers.tokenizer import Tokenizer
from regard.tokenizers.training import train_tokenizer
from regard.utils.errors import UsageError

TEXTS = ["the lower lowest newer newest widest wider hat", "the width of the new hat, the newest one!"] * 5


@pytest.fixture(scope="module", params=["bpe", "byte-bpe"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return train_tokenizer(TEXTS, kind=request.param, vocab_size=300)


@settings(max_examples=60, deadline=None)
@given(text=st.text(alphabet="the lowrnsi,!é\n9", max_size=40))
def test_nothing_left_out_is_the_usual_cut(text: str, tokenizer: Tokenizer) -> None:
    assert BPEDropout(tokenizer, 0.0).draw(tokenizer.words(text)) == tokenizer.encode(text)


@settings(max_examples=60, deadline=None)
@given(text=st.text(alphabet="the lowrnsi,!", max_size=40), seed=st.integers(0, 99))
def test_every_cut_decodes_to_the_same_text(text: str, seed: int, tokenizer: Tokenizer) -> None:
    drawn = BPEDropout(tokenizer, 0.5, seed=seed).draw(tokenizer.words(text))
    assert tokenizer.decode(drawn) == tokenizer.decode(tokenizer.encode(text))


def test_a_frequent_word_is_sometimes_cut_into_its_parts(tokenizer: Tokenizer) -> None:
    (word,) = tokenizer.words("newest")
    cuts = BPEDropout(tokenizer, 0.3).cuts(word)
    assert len(cuts) == CUTS
    assert len({tuple(cut) for cut in cuts}) > 3


def test_about_the_share_of_single_merges_is_left_out() -> None:
    # "ab" knows one merge only, so it stays two tokens exactly when that merge is left out.
    tokenizer = train_tokenizer(["ab"] * 9, kind="byte-bpe", vocab_size=400)
    (word,) = tokenizer.words("ab")
    assert len(tokenizer.encode("ab")) == 1
    whole = [len(cut) == 1 for seed in range(200) for cut in BPEDropout(tokenizer, 0.25, seed=seed).cuts(word)]
    assert sum(whole) / len(whole) == pytest.approx(0.75, abs=0.03)


def test_the_same_seed_draws_the_same_ids_in_any_order(tokenizer: Tokenizer) -> None:
    words = tokenizer.words("the newest lower hat")
    first, second = BPEDropout(tokenizer, 0.4, seed=3), BPEDropout(tokenizer, 0.4, seed=3)
    for word in reversed(words):
        second.cuts(word)
    draws = [dropout.draw(words, torch.Generator().manual_seed(5)) for dropout in (first, second)]
    assert draws[0] == draws[1]


def test_a_tokenizer_without_merges_is_refused() -> None:
    words = train_tokenizer(TEXTS, kind="word", vocab_size=50)
    with pytest.raises(UsageError, match=r"a word tokenizer has no merges .*bpe_dropout.*: bpe, byte-bpe"):
        BPEDropout(words, 0.1)
