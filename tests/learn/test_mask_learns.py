"""Without the causal mask a language model learns to look up the answer, and cannot write."""

from __future__ import annotations

import pytest

from regard.data.world.translation import sentences
from regard.errors import DataError, UsageError
from regard.labs.mask import compare


def test_m96_without_the_mask_the_loss_collapses_and_writing_fails() -> None:
    text = " ".join(sentence.source for sentence in sentences("train", count=600))
    found = compare(text, steps=260)
    masked, peeking = found.with_mask, found.without_mask
    assert peeking.train_loss < 0.8 < 1.4 < masked.train_loss
    assert peeking.writing_loss > masked.writing_loss + 0.3
    assert masked.known_words > peeking.known_words
    assert "without it" in str(found)


def test_what_cannot_be_compared() -> None:
    with pytest.raises(UsageError, match="steps must be at least 20, not 3"):
        compare("a text", steps=3)
    with pytest.raises(DataError, match="too short to learn from"):
        compare("a text")
