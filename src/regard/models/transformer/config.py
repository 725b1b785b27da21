"""Config and presets of the Transformer. Does not import torch."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from regard.models.config import AttentionModelConfig
from regard.nn.config import Activation, Layout, NormKind, Placement, PositionKind


class TransformerConfig(AttentionModelConfig):
    """Config of an encoder-decoder Transformer."""

    vocab_size: int = Field(ge=1, description="Tokens in the (target) vocabulary.")
    source_vocab_size: int | None = Field(None, ge=1, description="Tokens in the source vocabulary, if it has its own.")
    num_encoder_layers: int = Field(6, ge=1, description="Blocks of the encoder.")
    num_decoder_layers: int = Field(6, ge=1, description="Blocks of the decoder.")
    d_model: int = Field(512, ge=1, description="Size of the hidden states.")
    d_ff: int = Field(2048, ge=1, description="Inner size of the feed-forward layers.")
    num_heads: int = Field(8, ge=1, description="Attention heads per attention layer.")
    head_dim: int = Field(64, ge=1, description="Size of queries, keys and values of a head.")
    positions: PositionKind = Field("sinusoidal", description="Position encoding.")
    position_layout: Layout = Field("interleaved", description="Order of sines and cosines.")
    max_positions: int = Field(512, ge=1, description="Maximum sequence length in tokens if positions are learned.")
    norm: NormKind = Field("layer", description="LayerNorm or RMSNorm.")
    norm_placement: Placement = Field("post", description="Norm before each sublayer, or after it as in 2017.")
    final_norm: bool = Field(False, description="A norm after each stack, as pre-norm needs.")
    qk_norm: bool = Field(False, description="Normalize queries and keys before scoring.")
    activation: Activation = Field("relu", description="Activation of the feed-forward layers.")
    bias: bool = Field(True, description="Biases in linear layers and norms.")
    output_bias: bool = Field(False, description="A bias on the logits.")
    tie_embeddings: bool = Field(True, description="Share the target's input and output embedding.")
    scale_embeddings: bool = Field(True, description="Multiply embeddings by the square root of d_model.")
    embedding_norm: bool = Field(False, description="A norm after the embeddings.")
    dropout: float = Field(0.1, ge=0, lt=1, description="Dropout after each sublayer.")
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="Dropout of attention weights.")
    activation_dropout: float = Field(0.0, ge=0, lt=1, description="Dropout inside the feed-forward layers.")

    @property
    def attentions(self) -> tuple[str, ...]:
        """Addresses of all attention layers, in forward-pass order."""
        encoder = [f"encoder.{i}.self" for i in range(self.num_encoder_layers)]
        decoder = [f"decoder.{i}.{kind}" for i in range(self.num_decoder_layers) for kind in ("self", "cross")]
        return (*encoder, *decoder)


MODERN = {
    "positions": "rotary",
    "norm_placement": "pre",
    "final_norm": True,
    "activation": "relu2",
    "bias": False,
    "scale_embeddings": False,
    "embedding_norm": True,
}

# Presets. `vocab_size` comes from the tokenizer, except in transformer-*, which use the values from the paper.
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": dict(num_encoder_layers=2, num_decoder_layers=2, d_model=128, d_ff=256, num_heads=4, head_dim=32),
    "small": dict(num_encoder_layers=3, num_decoder_layers=3, d_model=256, d_ff=512, num_heads=4, head_dim=64),
    "base": dict(num_encoder_layers=6, num_decoder_layers=6, d_model=512, d_ff=2048, num_heads=8, head_dim=64),
    "large": dict(num_encoder_layers=6, num_decoder_layers=6, d_model=1024, d_ff=4096, num_heads=16, head_dim=64),
    "transformer-base": dict(
        vocab_size=37_000, num_encoder_layers=6, num_decoder_layers=6, d_model=512, d_ff=2048, num_heads=8, head_dim=64
    ),
    "transformer-big": dict(
        vocab_size=37_000,
        num_encoder_layers=6,
        num_decoder_layers=6,
        d_model=1024,
        d_ff=4096,
        num_heads=16,
        head_dim=64,
        dropout=0.3,
    ),
    "transformer-big-fr": dict(  # the paper's English–French model: smaller vocabulary, more data, less dropout
        vocab_size=32_000,
        num_encoder_layers=6,
        num_decoder_layers=6,
        d_model=1024,
        d_ff=4096,
        num_heads=16,
        head_dim=64,
        dropout=0.1,
    ),
}
