"""Without the causal mask a language model learns to copy its targets, and cannot generate."""

from __future__ import annotations

import pytest

from regard.data.synthetic.translation import sentences
from regard.experiments.mask import compare
from regard.utils.errors import DataError, UsageError


def test_m96_without_the_mask_the_loss_collapses_and_writing_fails() -> None:
    text = " ".join(sentence.source for sentence in sentences("train", count=600))
    found = compare(text, steps=260)
    masked, peeking = found.with_mask, found.without_mask
    assert peeking.train_loss < 0.8 < 1.4 < masked.train_loss
    assert peeking.generation_loss > masked.generation_loss + 0.3
    assert masked.known_words > peeking.known_words
    assert "without it" in str(found)


def test_what_cannot_be_compared() -> None:
    with pytest.raises(UsageError) as error:
        compare("a text", steps=3)
    assert (error.value.argument, error.value.value) == ("steps", 3)
    with pytest.raises(DataError):
        compare("a text")
