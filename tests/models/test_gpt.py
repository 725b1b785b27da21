"""GPT: published sizes, what position t sees, and settings that make no sense."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.errors import UsageError
from regard.models.gpt import GPT
from regard.models.gpt_settings import PRESETS, GPTConfig


@pytest.mark.parametrize(
    ("preset", "parameters"),
    [
        ("gpt2", 124_439_808),
        ("gpt2-medium", 354_823_168),
        ("gpt2-large", 774_030_080),
        ("gpt2-xl", 1_557_611_200),
        ("gpt3", 174_604_259_328),  # the 175 billion of the paper, counted
        ("llama-7b", 6_738_415_616),
        ("llama3-8b", 8_030_261_248),
    ],
)
def test_m126_m166_published_sizes(preset: str, parameters: int) -> None:
    with torch.device("meta"):
        model = GPT(GPTConfig(**PRESETS[preset]))
    assert sum(param.numel() for param in model.parameters()) == parameters


def test_the_count_of_gpt2_by_hand() -> None:
    width, hidden, layers = 768, 3072, 12
    attention = width * 3 * width + 3 * width + width * width + width
    feed_forward = width * hidden + hidden + hidden * width + width
    norms = 2 * 2 * width
    assert 50_257 * width + 1024 * width + layers * (attention + feed_forward + norms) + 2 * width == 124_439_808


@pytest.mark.parametrize("preset", ["tiny", "small", "base", "large", "llama-tiny"])
def test_every_preset_without_a_vocabulary_can_be_built(preset: str) -> None:
    with torch.device("meta"):
        assert GPT(GPTConfig(vocab_size=101, **PRESETS[preset])).config.vocab_size == 101


def test_a_fresh_model_thinks_all_tokens_equally_likely() -> None:
    torch.manual_seed(0)
    model = GPT(GPTConfig(vocab_size=11, layers=2, width=14, hidden=22, heads=2, head_width=6, context=13))
    assert torch.equal(model(torch.tensor([[1, 2, 3]])), torch.zeros(1, 3, 11))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(layers=0), "layers must be at least 1, not 0"),
        (dict(positions="sinusoidal"), "unknown positions 'sinusoidal'"),
        (dict(heads=4, key_value_heads=3), "4 heads cannot share 3 key-value heads evenly"),
        (dict(dropout=1.0), "dropout must be at least 0 and below 1"),
        (dict(logit_cap=0.0), "logit_cap must be a finite number above 0"),
        (
            dict(rotary_scaling=dict(factor=8, low=4, high=1, context=9)),
            "low less than high: not factor 8, low 4, high 1",
        ),
        (dict(heads_at={"decoder.9.self": 1}), "unknown address in heads_at 'decoder.9.self'"),
        (dict(heads_at={"decoder.1.self": 0}), "must leave at least 1 head"),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        GPTConfig(vocab_size=7, **settings)


def test_texts_that_are_aligned_at_their_ends_are_read_as_if_alone() -> None:
    for positions in ("learned", "rotary", "none"):
        torch.manual_seed(3)
        config = GPTConfig(
            vocab_size=11, layers=2, width=14, hidden=22, heads=2, head_width=6, context=13, positions=positions
        )
        model = GPT(config).double()
        for param in model.parameters():
            torch.nn.init.normal_(param, std=0.4)
        short, long = [5, 3, 8], [1, 9, 4, 2, 7]
        padded = torch.tensor([[0, 0, *short], long])
        together = model.logits(model.decode(padded, padding=torch.tensor([2, 0])))
        # Rotary positions are counted from the padding on: the same angles between tokens, from a table in fp32.
        near = 1e-6 if positions == "rotary" else 1e-10
        torch.testing.assert_close(together[0, 2:], model(torch.tensor([short]))[0], atol=near, rtol=0)
        torch.testing.assert_close(together[1], model(torch.tensor([long]))[0], atol=1e-10, rtol=0)
