"""The architecture `transformer`: its capabilities, presets and code. Does not import torch."""

from __future__ import annotations

from regard.models.transformer.config import PRESETS, TransformerConfig
from regard.spec import Architecture

ARCHITECTURE = Architecture(
    name="transformer",
    summary="The encoder-decoder of 2017, with later variants (pre-norm, rotary positions) as options.",
    config=TransformerConfig,
    model="regard.models.transformer.model:build",
    capabilities=frozenset({"encoder-decoder", "generation", "attention"}),
    presets=PRESETS,
    test_settings=dict(
        num_encoder_layers=1, num_decoder_layers=2, d_model=22, d_ff=37, num_heads=2, head_dim=6, dropout=0.0
    ),
    formats="regard.models.transformer.convert:FORMATS",
    cost_model="regard.models.transformer.costs:costs",
    decoder_builder="regard.generation.backend:translation_decoder",
    fixed=frozenset({"vocab_size", "source_vocab_size"}),
)
