"""Counted costs: the formulas against models built on the meta device, and lengths of time in humane units."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.models.transformer import Transformer
from regard.models.transformer_settings import MODERN, PRESETS, TransformerConfig
from regard.training.costs import lasting, parameters_by_part, plan
from regard.training.recipes import RECIPES, translation_recipe

SHAPE: dict[str, Any] = dict(
    vocab_size=101, encoder_layers=2, decoder_layers=3, width=26, hidden=17, heads=3, head_width=4, max_positions=19
)
VARIANTS: dict[str, dict[str, Any]] = {
    "as in 2017": {},
    "modern": MODERN,
    "two vocabularies": dict(source_vocab_size=53),
    "own output": dict(tie_embeddings=False, output_bias=True),
    "own output, two vocabularies": dict(tie_embeddings=False, source_vocab_size=53),
    "learned positions": dict(positions="learned"),
    "RMS norms": dict(norm="rms", final_norm=True),
    "no biases": dict(bias=False, embedding_norm=True),
    "a gate": dict(activation="swiglu"),
    "normalised": dict(normalise_queries_and_keys=True),
    "pruned heads": dict(heads_at={"decoder.1.cross": 1, "encoder.0.self": 2}),
    "an encoder alone": dict(architecture="encoder-only", positions="learned"),
    "a decoder alone": dict(architecture="decoder-only", final_norm=True),
}


def counted(config: TransformerConfig) -> int:
    with torch.device("meta"):
        return sum(param.numel() for param in Transformer(config).parameters())


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_count_is_that_of_the_model(variant: str) -> None:
    config = TransformerConfig(**{**SHAPE, **VARIANTS[variant]})
    parts = parameters_by_part(config)
    assert sum(parts.values()) == counted(config)
    assert all(parts.values())


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("preset", PRESETS)
def test_the_plan_of_every_preset(preset: str, recipe: str) -> None:
    found = plan(preset, recipe=recipe, vocab_size=101)
    config = TransformerConfig(**{**translation_recipe(recipe, preset).model, "vocab_size": 101})
    assert found.parameters == counted(config)


def test_a_plan_takes_the_recipe_of_the_training() -> None:
    assert [plan(size).recipe for size in ("tiny", "large", "transformer-base")] == ["default", "default", "paper"]
    assert plan("transformer-base", recipe="default").recipe == "default"


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
def test_a_length_of_time_in_its_own_unit(seconds: float, words: str) -> None:
    assert lasting(seconds) == words
