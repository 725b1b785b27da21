"""Parameter counts of the value path, calculated by hand and compared with a layer."""

from __future__ import annotations

import pytest

from regard.models.costs import ValueCounts, counts_of, spoken
from regard.models.gpt.config import GPTConfig
from regard.nn.multihead import MultiHeadAttention

BERT_BASE = ValueCounts(d_model=768, head_dim=64, num_heads=(12,) * 12)


def test_m118_one_square_matrix() -> None:
    counts = BERT_BASE
    assert counts.full_head == 768 * 768 == 589_824
    assert counts.full_layer(12) == 7_077_888
    assert counts.as_dict()["full"] == {"head": 589_824, "layer": 7_077_888, "model": 84_934_656}


def test_m119_two_smaller_matrices() -> None:
    counts = BERT_BASE
    assert counts.factored_head == 2 * 768 * 64 == 98_304
    assert counts.full_head == 6 * counts.factored_head
    assert counts.factored == 12 * 12 * 98_304


def test_m120_billions_need_a_larger_model_than_bert() -> None:
    """With full matrices, BERT-base would have 84.9 million and GPT-3 1.39 trillion. Its factors have 29 billion."""
    assert BERT_BASE.full == 12 * 12 * 589_824 == 84_934_656
    assert spoken(BERT_BASE.full) == "84.9 million"
    gpt3 = ValueCounts(d_model=12_288, head_dim=128, num_heads=(96,) * 96)
    assert spoken(gpt3.full) == "1.39 trillion"
    assert spoken(gpt3.factored) == "29 billion"


@pytest.mark.parametrize("shared", [None, 1, 3])
def test_the_factors_are_the_parameters_of_a_layer(shared: int | None) -> None:
    attention = MultiHeadAttention(14, num_heads=3, head_dim=5, num_kv_heads=shared, bias=False)
    values = attention.qkv_proj.weight.numel() * attention.num_kv_heads // (3 + 2 * attention.num_kv_heads)
    counts = ValueCounts(d_model=14, head_dim=5, num_heads=(3,), num_kv_heads=shared)
    assert counts.factored == values + attention.out_proj.weight.numel()


def test_layers_with_different_head_counts() -> None:
    config = GPTConfig(
        vocab_size=7, num_layers=3, d_model=14, num_heads=2, head_dim=6, num_heads_by_layer={"decoder.1.self": 1}
    )
    counts = counts_of(config)
    assert counts.full == 5 * 14 * 14
    assert counts.factored == 5 * 2 * 14 * 6
    assert "all heads" in str(counts)


def test_numbers_are_formatted_in_words() -> None:
    said = [spoken(n) for n in (7, 1_200, 5_600_000, 3.2e9, 4e12)]
    assert said == ["7", "1.2 thousand", "5.6 million", "3.2 billion", "4 trillion"]
