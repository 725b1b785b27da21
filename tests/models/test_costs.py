"""Costs: the formulas compared with models that are built without weights, and readable units."""

from __future__ import annotations

from typing import Any

import pytest

from regard.models.bert.config import BertConfig
from regard.models.bert.costs import parameters_by_part as bert_parameters
from regard.models.bert.model import Bert
from regard.models.costs import duration_text
from regard.models.gpt.config import GPT2, LLAMA, GPTConfig
from regard.models.gpt.costs import parameters_by_part as gpt_parameters
from regard.models.gpt.model import GPT
from regard.models.transformer.config import MODERN, TransformerConfig
from regard.models.transformer.costs import parameters_by_part as transformer_parameters
from regard.models.transformer.model import Transformer
from regard.nn.init import empty_weights
from regard.registry import architectures
from regard.training.plan import plan
from regard.utils.errors import UsageError

TRANSFORMER: dict[str, Any] = dict(
    vocab_size=101,
    num_encoder_layers=2,
    num_decoder_layers=3,
    d_model=26,
    d_ff=17,
    num_heads=3,
    head_dim=4,
    max_positions=19,
)
GPT_SHAPE: dict[str, Any] = dict(
    vocab_size=11, context_length=13, num_layers=3, d_model=14, d_ff=22, num_heads=6, head_dim=8
)
VARIANTS: dict[str, Any] = {
    "as in 2017": TransformerConfig(**TRANSFORMER),
    "modern": TransformerConfig(**TRANSFORMER, **MODERN),
    "two vocabularies": TransformerConfig(**TRANSFORMER, source_vocab_size=53),
    "own output": TransformerConfig(**TRANSFORMER, tie_embeddings=False, output_bias=True),
    "own output, two vocabularies": TransformerConfig(**TRANSFORMER, tie_embeddings=False, source_vocab_size=53),
    "learned positions": TransformerConfig(**TRANSFORMER, positions="learned"),
    "RMS norms": TransformerConfig(**TRANSFORMER, norm="rms", final_norm=True),
    "no biases": TransformerConfig(**TRANSFORMER, bias=False, embedding_norm=True),
    "a gate": TransformerConfig(**TRANSFORMER, activation="swiglu"),
    "normalized": TransformerConfig(**TRANSFORMER, qk_norm=True),
    "final norms": TransformerConfig(**TRANSFORMER, final_norm=True),
    "pruned": TransformerConfig(**TRANSFORMER, num_heads_by_layer={"decoder.1.cross": 1, "encoder.0.self": 2}),
    "gpt": GPTConfig(**GPT_SHAPE),
    "gpt2": GPTConfig(**{**GPT2, **GPT_SHAPE}),
    "llama": GPTConfig(**{**LLAMA, **GPT_SHAPE}),
    "gpt, affine norms": GPTConfig(**GPT_SHAPE, norm_affine=True),
    "gpt, layer norms": GPTConfig(**GPT_SHAPE, norm="layer", bias=True),
    "gpt, affine layer norms": GPTConfig(**GPT_SHAPE, norm="layer", norm_affine=True, bias=True, embedding_norm=False),
    "gpt, grouped queries": GPTConfig(**GPT_SHAPE, num_kv_heads=2, activation="swiglu", bias=True),
    "gpt, pruned": GPTConfig(**GPT_SHAPE, num_heads_by_layer={"decoder.1.self": 2}, tie_embeddings=True),
    "gpt, learned positions": GPTConfig(**GPT_SHAPE, positions="learned", norm_affine=True, qk_norm=False),
    "bert": BertConfig(**GPT_SHAPE),
    "bert without a pooler": BertConfig(**GPT_SHAPE, pooler=False, type_vocab_size=1),
    "bert, pruned": BertConfig(**GPT_SHAPE, num_heads_by_layer={"encoder.1.self": 2}, activation="swiglu"),
}
COUNTS: dict[type, Any] = {
    TransformerConfig: (Transformer, transformer_parameters),
    GPTConfig: (GPT, gpt_parameters),
    BertConfig: (Bert, bert_parameters),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_counted_parameters_equal_those_of_the_model(variant: str) -> None:
    config = VARIANTS[variant]
    model, parameters = COUNTS[type(config)]
    with empty_weights():
        built = sum(param.numel() for param in model(config).parameters())
    parts = parameters(config)
    assert sum(parts.values()) == built
    assert all(parts.values())


@pytest.mark.parametrize("name", architectures)
def test_the_plan_of_every_preset(name: str) -> None:
    architecture = architectures[name]
    for preset, shape in architecture.presets.items():
        found = plan(preset, model=name).costs
        assert found.vocab_size == shape.get("vocab_size", found.vocab_size)
        assert found.training_flops == 3 * found.forward_flops > 0
        assert found.activation_bytes > 0
        assert str(plan(preset, model=name))


def test_a_plan_accepts_model_settings() -> None:
    modern, paper = plan("transformer-base", recipe="default"), plan("transformer-base", recipe="paper")
    assert plan("transformer-base").costs.parameters == paper.costs.parameters == 63_082_496
    assert modern.costs.parameters < paper.costs.parameters, "no biases"
    assert plan("tiny").architecture == "transformer"
    assert plan("bert-base").costs.parameters == 109_482_240


@pytest.mark.parametrize(
    ("settings", "argument"),
    [
        (dict(preset="gpt4"), "preset"),
        (dict(preset="gpt2", model="transformer"), "preset"),
        (dict(preset="gpt2", model="mamba"), "architecture"),
        (dict(preset="gpt2", recipe="paper"), "recipe"),
        (dict(preset="tiny", recipe="plain"), "recipe"),
        (dict(preset="tiny", vocab_size=0), "vocab_size"),
        (dict(preset="tiny", batch_tokens=0), "batch_tokens"),
    ],
)
def test_invalid_plans(settings: dict[str, Any], argument: str) -> None:
    with pytest.raises(UsageError) as caught:
        plan(**settings)
    assert caught.value.argument == argument


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (20, "0 minutes"),
        (119 * 60, "119 minutes"),
        (2.5 * 3600, "2.5 hours"),
        (30 * 3600, "30 hours"),
        (3 * 86_400, "3.0 days"),
        (45 * 86_400, "45 days"),
        (0.3 * 365 * 86_400, "3.6 months"),
        (40 * 365 * 86_400, "40 years"),
    ],
)
def test_durations_are_formatted_in_a_suitable_unit(seconds: float, words: str) -> None:
    assert duration_text(seconds) == words
