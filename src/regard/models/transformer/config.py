"""Config and presets of the Transformer. Does not import torch."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from regard.models.config import AttentionModelConfig
from regard.nn.config import Activation, Layout, NormKind, Placement, PositionKind


class TransformerConfig(AttentionModelConfig):
    """Config of an encoder-decoder Transformer."""

    vocab_size: int = Field(ge=1, description="Tokens in the (target) vocabulary.")
    source_vocab_size: int | None = Field(None, ge=1, description="Tokens in the source vocabulary, if it is separate.")
    num_encoder_layers: int = Field(6, ge=1, description="Number of encoder blocks.")
    num_decoder_layers: int = Field(6, ge=1, description="Number of decoder blocks.")
    d_model: int = Field(512, ge=1, description="Size of the hidden states.")
    d_ff: int = Field(2048, ge=1, description="Inner size of the feed-forward layers.")
    num_heads: int = Field(8, ge=1, description="Attention heads per attention layer.")
    head_dim: int = Field(64, ge=1, description="Size of queries, keys and values of a head.")
    positions: PositionKind = Field("sinusoidal", description="Position encoding.")
    position_layout: Layout = Field(
        "interleaved", description="Order of sines and cosines: alternating, or all sines first."
    )
    max_positions: int = Field(512, ge=1, description="Maximum sequence length in tokens if positions are learned.")
    norm: NormKind = Field("layer", description="LayerNorm or RMSNorm.")
    norm_placement: Placement = Field("post", description="Norm before each sublayer, or after it as in 2017.")
    final_norm: bool = Field(False, description="Add a norm after encoder and decoder (needed with pre-norm).")
    qk_norm: bool = Field(False, description="Normalize queries and keys before scoring.")
    activation: Activation = Field("relu", description="Activation of the feed-forward layers.")
    bias: bool = Field(True, description="Use biases in linear layers and norms.")
    output_bias: bool = Field(False, description="Add a bias to the logits.")
    tie_embeddings: bool = Field(True, description="Share the embedding matrix between decoder input and output.")
    scale_embeddings: bool = Field(True, description="Multiply embeddings by the square root of d_model.")
    embedding_norm: bool = Field(False, description="Add a norm after the embeddings.")
    dropout: float = Field(0.1, ge=0, lt=1, description="Dropout after each sublayer.")
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="Dropout of attention weights.")
    activation_dropout: float = Field(0.0, ge=0, lt=1, description="Dropout inside the feed-forward layers.")

    @property
    def attentions(self) -> tuple[str, ...]:
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


def _shape(num_layers: int, d_model: int, d_ff: int, num_heads: int, head_dim: int = 64, **more: Any) -> dict[str, Any]:
    layers = dict(num_encoder_layers=num_layers, num_decoder_layers=num_layers)
    return dict(layers, d_model=d_model, d_ff=d_ff, num_heads=num_heads, head_dim=head_dim, **more)


# Presets. `vocab_size` comes from the tokenizer, except in transformer-*, which use the values from the paper. Its
# English–French model has a smaller vocabulary, more data and less dropout.
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": _shape(2, 128, 256, 4, head_dim=32),
    "small": _shape(3, 256, 512, 4),
    "base": _shape(6, 512, 2048, 8),
    "large": _shape(6, 1024, 4096, 16),
    "transformer-base": _shape(6, 512, 2048, 8, vocab_size=37_000),
    "transformer-big": _shape(6, 1024, 4096, 16, vocab_size=37_000, dropout=0.3),
    "transformer-big-fr": _shape(6, 1024, 4096, 16, vocab_size=32_000, dropout=0.1),
}
