"""Counting from settings gives the parameters of the model that is built from them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.models.gpt import GPT
from regard.models.gpt_settings import GPT2, LLAMA, PRESETS, GPTConfig
from regard.training.writing_costs import writer_parameters

SHAPE: dict[str, Any] = dict(vocab_size=11, context=13, layers=3, width=14, hidden=22, heads=6, head_width=8)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        GPT2,
        LLAMA,
        dict(norm_gains=True),
        dict(norm="layer", bias=True),
        dict(norm="layer", norm_gains=True, bias=True, embedding_norm=False),
        dict(key_value_heads=2, activation="swiglu", bias=True),
        dict(heads_at={"decoder.1.self": 2}, tie_embeddings=True),
        dict(positions="learned", norm_gains=True, normalise_queries_and_keys=False),
    ],
    ids=["default", "gpt2", "llama", "gains", "layer", "layer-gains", "shared", "pruned", "learned"],
)
def test_parameters_are_counted_as_they_are_built(settings: dict[str, Any]) -> None:
    config = GPTConfig(**{**settings, **SHAPE})
    with torch.device("meta"):
        model = GPT(config)
    assert sum(writer_parameters(config).values()) == sum(param.numel() for param in model.parameters())


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_counted_as_they_are_built(preset: str) -> None:
    config = GPTConfig(**{"vocab_size": 101, **PRESETS[preset]})
    with torch.device("meta"):
        model = GPT(config)
    assert sum(writer_parameters(config).values()) == sum(param.numel() for param in model.parameters())
