"""Alignments from attention, by hand: tokens of each word, choice of the head, error rate.

Weights are planted in a stand-in for a trace, and the tokenizer is one of single characters, so that every token is
known and every number can be worked out on paper.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.inspection.alignment import (
    AlignedPair,
    AligningHead,
    align,
    choose_head,
    error_rate,
    plain_pair,
    word_links,
    word_spans,
    word_weights,
)
from regard.tasks.translate.predictor import TokenizerPair
from regard.tokenizers.training import train_tokenizer
from regard.utils.errors import UsageError

CHARACTERS = train_tokenizer(["ab c", "x yz", "wv"], kind="char", vocab_size=40)


class PlantedTranslator:
    """A translator with fixed attention: address → (heads, start and target tokens, source tokens and end)."""

    tokenizers = TokenizerPair(CHARACTERS, CHARACTERS)

    def __init__(self, weights: dict[str, Tensor]) -> None:
        self.weights = weights

    def trace(self, source: str, target: str) -> Any:
        return SimpleNamespace(captured=dict.fromkeys(self.weights), weights=lambda address: self.weights[address])


def planted(weights: dict[str, Tensor]) -> Any:
    return PlantedTranslator(weights)


def test_the_characters_are_the_tokens() -> None:
    assert [span.token for span in CHARACTERS.token_spans("ab c")] == ["a", "b", " ", "c"]


# "ab c" has the words ab and c; "x yz" the words x and yz. Rows: start, x, space, y, z; columns: a, b, space, c, end.
PAIR = plain_pair("ab c", "x yz")
ROWS = [
    [0.10, 0.30, 0.00, 0.40, 0.20],  # start, where x is written
    [0.50, 0.25, 0.05, 0.10, 0.10],  # x, where the space is written
    [0.00, 0.00, 1.00, 0.00, 0.00],  # space, where y is written
    [0.10, 0.10, 0.20, 0.50, 0.10],  # y, where z is written
    [0.00, 0.10, 0.10, 0.70, 0.10],  # z, where the end is written
]


def test_source_tokens_are_added_and_target_tokens_averaged() -> None:
    weights = torch.tensor([ROWS])
    translator = planted({"decoder.0.cross": weights})
    trace = translator.trace("ab c", "x yz")
    reading = word_weights(translator, trace, PAIR, "decoder.0.cross", "reading")
    # x: a + b = 0.75 and c = 0.1; yz: the mean of y (0.2, 0.5) and z (0.1, 0.7)
    np.testing.assert_allclose(reading, [[[0.75, 0.10], [0.15, 0.60]]], atol=1e-7)
    writing = word_weights(translator, trace, PAIR, "decoder.0.cross", "writing")
    # the row before: x from start (0.4, 0.4); yz from space (0, 0) and y (0.2, 0.5)
    np.testing.assert_allclose(writing, [[[0.40, 0.40], [0.10, 0.25]]], atol=1e-7)


def test_a_link_is_the_source_word_with_the_largest_weight() -> None:
    translator = planted({"decoder.0.cross": torch.tensor([ROWS, [row[::-1] for row in ROWS]])})
    assert align(translator, PAIR, AligningHead("decoder.0.cross", 0, "reading")) == {(0, 0), (1, 1)}
    # Backwards: end, c, space, b, a. x: 0.10 + 0.10 on ab, 0.25 on c; yz: the mean of 0.6 and 0.8 on ab, 0.1 on c.
    backwards = AligningHead("decoder.0.cross", 1, "reading")
    assert align(translator, PAIR, backwards) == {(1, 0), (0, 1)}
    assert word_links(translator, " ab c", "x yz ", backwards) == [("c", "x"), ("ab", "yz")]


def gold_pair(*links: tuple[int, int]) -> AlignedPair:
    return AlignedPair(PAIR.source, PAIR.target, PAIR.source_words, PAIR.target_words, frozenset(links))


def noise(heads: int) -> Tensor:
    """Heads that attend mostly to the end token and a little to the first word: at most half of the links are right."""
    weights = torch.zeros(heads, 5, 5)
    weights[..., 4], weights[..., 0] = 0.9, 0.1
    return weights


def test_the_planted_head_is_found_in_its_layer_and_with_its_timing() -> None:
    right = torch.zeros(5, 5)
    right[0, 0] = right[2, 3] = right[3, 3] = 1.0  # where x is written: a; where y and z are written: c
    right[1, 3] = right[4, 0] = 1.0  # where they are read: the wrong words
    second = noise(3)
    second[2] = right
    translator = planted(
        {"encoder.0.self": right.expand(3, 5, 5), "decoder.0.cross": noise(2), "decoder.1.cross": second}
    )
    pairs = [gold_pair((0, 0), (1, 1))] * 3
    head = choose_head(translator, pairs)
    assert head == AligningHead("decoder.1.cross", 2, "writing", error_rate=0.0)
    assert str(head) == "decoder.1.cross head 2, when writing a token"
    assert error_rate(translator, pairs, head) == 0


def test_the_error_rate_by_hand() -> None:
    """Predicted in both sentences: ab–x and c–yz. Of 2 + 2 predicted and 1 + 3 gold links, 1 + 2 agree."""
    translator = planted({"decoder.0.cross": torch.tensor([ROWS])})
    pairs = [gold_pair((0, 0)), gold_pair((0, 0), (1, 1), (1, 0))]
    head = AligningHead("decoder.0.cross", 0, "reading")
    assert error_rate(translator, pairs, head) == pytest.approx(1 - 2 * 3 / (4 + 4))


def test_words_and_punctuation() -> None:
    text = "L'animal n'a pas traversé la rue, car il était trop fatigué !"
    words = [text[start:end] for start, end in word_spans(text)]
    assert words == [
        *("L'", "animal", "n'", "a", "pas", "traversé", "la", "rue", ",", "car", "il", "était", "trop", "fatigué", "!")
    ]


def test_white_space_around_a_sentence_does_not_shift_the_words() -> None:
    assert plain_pair("  ab c ", "x yz\n") == PAIR


def test_choosing_a_head_needs_sentences() -> None:
    with pytest.raises(UsageError) as error:
        choose_head(planted({}), [])
    assert error.value.argument == "pairs"


def test_a_real_model_is_traced_as_the_planted_one(tmp_path: Any) -> None:
    """Rows of word weights sum to at most 1: the weights of spaces and the end token are left out."""
    import regard

    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"ab c{i}\tx yz{i}\n" for i in range(10)), encoding="utf-8")
    shape: dict[str, Any] = dict(size="tiny", d_model=16, num_heads=2, head_dim=8, d_ff=16, tokenizer="byte-bpe")
    translator = regard.train("translate", file, out=tmp_path / "m", steps=1, vocab_size=300, **shape)
    pair = plain_pair("ab c1", "x yz1")
    trace = translator.trace(pair.source, pair.target)
    for when in ("reading", "writing"):
        weights = word_weights(translator, trace, pair, "decoder.1.cross", when)
        assert weights.shape == (2, 2, 2)
        assert (weights >= 0).all()
        assert (weights.sum(-1) <= 1 + 1e-5).all()
    head = choose_head(translator, [pair])
    assert head.address.endswith(".cross")
    assert len(align(translator, pair, head)) == 2
