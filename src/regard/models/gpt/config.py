"""Config and presets of GPT. Does not import torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from regard.models.config import AttentionModelConfig
from regard.nn.config import Activation, NormKind
from regard.utils.errors import UsageError

Positions = Literal["rotary", "learned", "none"]
Init = Literal["zero-residual", "gpt2"]
SCALING_KEYS = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")


class GPTConfig(AttentionModelConfig):
    """Config of a GPT."""

    vocab_size: int = Field(ge=1, description="Tokens in the vocabulary.")
    context_length: int = Field(256, ge=1, description="Maximum sequence length in tokens.")
    num_layers: int = Field(6, ge=1, description="Number of blocks.")
    d_model: int = Field(256, ge=1, description="Size of the hidden states.")
    d_ff: int = Field(1024, ge=1, description="Inner size of the feed-forward layers.")
    num_heads: int = Field(4, ge=1, description="Attention heads per layer.")
    head_dim: int = Field(64, ge=1, description="Size of queries, keys and values of a head.")
    num_kv_heads: int | None = Field(
        None, ge=1, description="Number of key/value heads, if fewer than num_heads (grouped-query attention)."
    )
    positions: Positions = Field("rotary", description="Position encoding.")
    rope_theta: float = Field(10_000.0, gt=0, description="Base of the wavelengths of rotary positions.")
    rope_scaling: Mapping[str, float] = Field(
        default_factory=dict, description="Llama 3.1's scaling of rotary positions: " + ", ".join(SCALING_KEYS) + "."
    )
    norm: NormKind = Field("rms", description="LayerNorm or RMSNorm.")
    norm_affine: bool = Field(False, description="Give norms a learned scale.")
    norm_eps: float = Field(1e-6, gt=0, description="Epsilon in normalization layers.")
    qk_norm: bool = Field(True, description="Normalize queries and keys before scoring.")
    activation: Activation = Field("relu2", description="Activation of the feed-forward layers.")
    bias: bool = Field(False, description="Use biases in linear layers and norms.")
    tie_embeddings: bool = Field(False, description="Share the embedding matrix between input and output.")
    embedding_norm: bool = Field(True, description="Add a norm after the embeddings.")
    logit_softcap: float | None = Field(None, gt=0, description="Limit the logits: cap · tanh(logits / cap).")
    dropout: float = Field(0.0, ge=0, lt=1, description="Dropout after each sublayer.")
    init: Init = Field("zero-residual", description="Initial weights: blocks are the identity, or as in GPT-2.")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for num_heads in {self.num_heads, *self.num_heads_by_layer.values()}:
            if num_heads % (self.num_kv_heads or num_heads):
                message = f"num_heads ({num_heads}) must be a multiple of num_kv_heads ({self.num_kv_heads})."
                raise UsageError(message, argument="num_kv_heads", value=self.num_kv_heads)
        scaling = dict(self.rope_scaling)
        if scaling and sorted(scaling) != sorted(SCALING_KEYS):
            message = f"rope_scaling must have the keys {', '.join(SCALING_KEYS)}, got {', '.join(scaling)}."
            raise UsageError(message, argument="rope_scaling", value=scaling, allowed=SCALING_KEYS)
        positive = all(value > 0 for value in scaling.values())
        if scaling and not (positive and scaling["low_freq_factor"] < scaling["high_freq_factor"]):
            message = "the values of rope_scaling must be positive, and low_freq_factor less than high_freq_factor."
            raise UsageError(message, argument="rope_scaling", value=scaling)
        return self

    @property
    def attentions(self) -> tuple[str, ...]:
        return tuple(f"decoder.{i}.self" for i in range(self.num_layers))


GPT2: dict[str, Any] = dict(
    vocab_size=50_257,
    context_length=1024,
    head_dim=64,
    positions="learned",
    norm="layer",
    norm_affine=True,
    norm_eps=1e-5,
    qk_norm=False,
    activation="gelu-tanh",
    bias=True,
    tie_embeddings=True,
    embedding_norm=False,
    dropout=0.1,
    init="gpt2",
)
LLAMA: dict[str, Any] = dict(
    positions="rotary",
    norm="rms",
    norm_affine=True,
    norm_eps=1e-5,
    qk_norm=False,
    activation="swiglu",
    embedding_norm=False,
)


def _shape(num_layers: int, d_model: int, d_ff: int, num_heads: int, **more: Any) -> dict[str, Any]:
    return dict(num_layers=num_layers, d_model=d_model, d_ff=d_ff, num_heads=num_heads, **more)


# Presets. If `vocab_size` is missing, it comes from the tokenizer.
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": _shape(4, 128, 512, 4, head_dim=32, context_length=128),
    "small": _shape(6, 256, 1024, 4, head_dim=64, context_length=256),
    "base": _shape(8, 384, 1536, 6, head_dim=64, context_length=512),
    "large": _shape(12, 768, 3072, 12, head_dim=64, context_length=1024),
    "gpt2": GPT2 | _shape(12, 768, 3072, 12),
    "gpt2-medium": GPT2 | _shape(24, 1024, 4096, 16),
    "gpt2-large": GPT2 | _shape(36, 1280, 5120, 20),
    "gpt2-xl": GPT2 | _shape(48, 1600, 6400, 25),
    "gpt3": GPT2 | _shape(96, 12_288, 49_152, 96, head_dim=128, context_length=2048),
    "llama-tiny": LLAMA | _shape(4, 128, 344, 4, head_dim=32, context_length=256),
    "llama-7b": LLAMA | _shape(32, 4096, 11_008, 32, head_dim=128, context_length=4096, vocab_size=32_000),
    "llama3-8b": LLAMA
    | _shape(32, 4096, 14_336, 32, head_dim=128, context_length=8192, vocab_size=128_256)
    | dict(num_kv_heads=8, rope_theta=500_000.0),
}
