"""Config and presets of BERT. Does not import torch."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from regard.models.config import AttentionModelConfig
from regard.nn.config import Activation


class BertConfig(AttentionModelConfig):
    """Config of a BERT encoder."""

    vocab_size: int = Field(ge=1, description="Tokens in the vocabulary.")
    context_length: int = Field(512, ge=1, description="Maximum sequence length in tokens.")
    type_vocab_size: int = Field(2, ge=1, description="Number of token types: maximum texts per sequence.")
    num_layers: int = Field(12, ge=1, description="Number of blocks.")
    d_model: int = Field(768, ge=1, description="Size of the hidden states.")
    d_ff: int = Field(3072, ge=1, description="Inner size of the feed-forward layers.")
    num_heads: int = Field(12, ge=1, description="Attention heads per layer.")
    head_dim: int = Field(64, ge=1, description="Size of queries, keys and values of a head.")
    activation: Activation = Field("gelu", description="Activation of the feed-forward layers.")
    norm_eps: float = Field(1e-12, gt=0, description="Epsilon in normalization layers.")
    pooler: bool = Field(True, description="Add a pooler: a layer on the output at [CLS], as in the BERT paper.")
    dropout: float = Field(0.1, ge=0, lt=1, description="Dropout after each sublayer.")
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="Dropout of attention weights.")
    head_dropout: float | None = Field(None, ge=0, lt=1, description="Dropout before the head (default: --dropout).")

    @property
    def attentions(self) -> tuple[str, ...]:
        return tuple(f"encoder.{i}.self" for i in range(self.num_layers))


def _shape(num_layers: int, d_model: int) -> dict[str, Any]:
    """Return a preset. All published BERT models have head_dim 64 and d_ff = 4 · d_model."""
    return dict(num_layers=num_layers, d_model=d_model, d_ff=4 * d_model, num_heads=d_model // 64, head_dim=64)


# Presets: the two sizes from the paper (Devlin et al. 2018) and the smaller ones from Turc et al. (2019).
# `vocab_size` comes from the tokenizer, except in the presets bert-*, which use the value from the paper.
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": _shape(2, 128),
    "mini": _shape(4, 256),
    "small": _shape(4, 512),
    "medium": _shape(8, 512),
    "base": _shape(12, 768),
    "large": _shape(24, 1024),
    "bert-base": {**_shape(12, 768), "vocab_size": 30_522},
    "bert-large": {**_shape(24, 1024), "vocab_size": 30_522},
}
