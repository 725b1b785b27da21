"""The architecture `bert`: its capabilities, presets and code. Does not import torch."""

from __future__ import annotations

from regard.models.bert.config import PRESETS, BertConfig
from regard.models.heads import HEAD_KINDS
from regard.spec import Architecture

HEADS = frozenset(HEAD_KINDS) - {"none"}

ARCHITECTURE = Architecture(
    name="bert",
    summary="BERT: a bidirectional encoder (Devlin et al. 2018).",
    config=BertConfig,
    model="regard.models.bert.model:build",
    capabilities=HEADS | {"encoder", "attention", "pairs", "summed_embeddings"},
    heads=HEADS,
    presets=PRESETS,
    formats="regard.models.bert.convert:FORMATS",
    cost_model="regard.models.bert.costs:costs",
    test_settings=dict(num_layers=2, d_model=22, d_ff=37, num_heads=2, head_dim=7),
)
