"""The architecture `gpt`: its capabilities, presets and code. Does not import torch."""

from __future__ import annotations

from regard.models.gpt.config import PRESETS, GPTConfig
from regard.spec import Architecture

ARCHITECTURE = Architecture(
    name="gpt",
    summary="A decoder that predicts the next token, from GPT-2 to Llama.",
    config=GPTConfig,
    model="regard.models.gpt.model:build",
    capabilities=frozenset({"decoder", "generation", "attention"}),
    presets=PRESETS,
    test_settings=dict(num_layers=2, d_model=22, d_ff=37, num_heads=2, head_dim=6, context_length=32),
    formats="regard.models.gpt.convert:FORMATS",
    cost_model="regard.models.gpt.costs:costs",
    decoder_builder="regard.generation.backend:gpt_decoder",
)
