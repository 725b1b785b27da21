"""GPT: published sizes, initial weights, padding, and invalid settings."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.models.gpt.config import PRESETS, GPTConfig
from regard.models.gpt.model import GPT
from regard.nn.init import empty_weights
from regard.utils.errors import UsageError

SCALING = dict(factor=8, low_freq_factor=0.5, high_freq_factor=1, original_max_position_embeddings=9)


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
    with empty_weights():
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
    with empty_weights():
        assert GPT(GPTConfig(vocab_size=101, **PRESETS[preset])).config.vocab_size == 101


def test_a_new_model_gives_all_tokens_the_same_probability() -> None:
    torch.manual_seed(0)
    model = GPT(GPTConfig(vocab_size=11, num_layers=2, d_model=14, d_ff=22, num_heads=2, head_dim=6, context_length=13))
    assert torch.equal(model(torch.tensor([[1, 2, 3]])), torch.zeros(1, 3, 11))


@pytest.mark.parametrize(
    ("settings", "argument"),
    [
        (dict(num_layers=0), "num_layers"),
        (dict(positions="sinusoidal"), "positions"),
        (dict(num_heads=4, num_kv_heads=3), "num_kv_heads"),
        (dict(dropout=1.0), "dropout"),
        (dict(logit_softcap=0.0), "logit_softcap"),
        (dict(rope_scaling={**SCALING, "low_freq_factor": 4}), "rope_scaling"),
        (dict(rope_scaling={"factor": 8}), "rope_scaling"),
        (dict(num_heads_by_layer={"decoder.9.self": 1}), "num_heads_by_layer"),
        (dict(num_heads_by_layer={"decoder.1.self": 0}), "num_heads_by_layer"),
        (dict(init="gpt3"), "init"),
    ],
)
def test_invalid_settings(settings: dict[str, Any], argument: str) -> None:
    with pytest.raises(UsageError) as caught:
        GPTConfig(vocab_size=7, **settings)
    assert caught.value.argument == argument


def test_left_padding_does_not_change_the_logits() -> None:
    for positions in ("learned", "rotary", "none"):
        torch.manual_seed(3)
        config = GPTConfig(
            vocab_size=11,
            num_layers=2,
            d_model=14,
            d_ff=22,
            num_heads=2,
            head_dim=6,
            context_length=13,
            positions=positions,
        )
        model = GPT(config).double()
        for param in model.parameters():
            torch.nn.init.normal_(param, std=0.4)
        short, long = [5, 3, 8], [1, 9, 4, 2, 7]
        padded = torch.tensor([[0, 0, *short], long])
        together = model.logits(model.decode(padded, padding=torch.tensor([2, 0])))
        # Rotary positions include the padding. Only differences matter, but the table is in fp32.
        near = 1e-6 if positions == "rotary" else 1e-10
        torch.testing.assert_close(together[0, 2:], model(torch.tensor([short]))[0], atol=near, rtol=0)
        torch.testing.assert_close(together[1], model(torch.tensor([long]))[0], atol=1e-10, rtol=0)


@pytest.mark.parametrize("positions", ["learned", "rotary", "none"])
@pytest.mark.parametrize("kind", [torch.long, torch.bool])
def test_an_attention_mask_gives_the_logits_of_the_unpadded_texts(positions: Any, kind: torch.dtype) -> None:
    torch.manual_seed(0)
    config = GPTConfig(
        vocab_size=11,
        num_layers=2,
        d_model=14,
        d_ff=22,
        num_heads=2,
        head_dim=6,
        context_length=13,
        positions=positions,
    )
    model = GPT(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    texts = [[3, 1, 4], [1, 5, 9, 2, 6], [5]]
    for left in (True, False):
        ids, mask = torch.zeros(3, 7, dtype=torch.long), torch.zeros(3, 7, dtype=kind)
        for row, text in enumerate(texts):
            place = slice(7 - len(text), 7) if left else slice(len(text))
            ids[row, place], mask[row, place] = torch.tensor(text), True
        with torch.no_grad():
            logits = model(ids, attention_mask=mask)
            for row, text in enumerate(texts):
                alone = model(torch.tensor([text]))[0]
                torch.testing.assert_close(logits[row][mask[row].bool()], alone, atol=1e-10, rtol=0)


def test_gpt2_presets_are_initialized_like_gpt2() -> None:
    """Standard deviation 0.02; 0.02 / √(2 · layers) where a sublayer writes to the residual stream; no biases."""
    torch.manual_seed(0)
    settings = {**PRESETS["gpt2"], "vocab_size": 503, "num_layers": 8, "d_model": 192, "d_ff": 768, "num_heads": 3}
    model = GPT(GPTConfig(**settings))
    for name, param in model.named_parameters():
        if name.endswith(("out_proj.weight", "down_proj.weight")):
            assert param.std().item() == pytest.approx(0.02 / 4, rel=0.05), name
        elif "norm" in name:
            assert (param == (0 if name.endswith("bias") else 1)).all(), name
        elif name.endswith("bias"):
            assert not param.any(), name
        else:
            assert param.std().item() == pytest.approx(0.02, rel=0.05), name
            assert param.mean().item() == pytest.approx(0, abs=0.001), name
    assert {name for name in PRESETS if PRESETS[name].get("init") == "gpt2"} == {
        *(name for name in PRESETS if name.startswith("gpt"))
    }
