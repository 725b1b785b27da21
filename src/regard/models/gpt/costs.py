"""Compute the costs of a decoder-only model from its config.

QKᵀ and AV are counted for a token in the middle of a full context.
"""

from __future__ import annotations

from regard.models.costs import (
    BYTES,
    Costs,
    Published,
    attention_parameters,
    counts_of,
    feed_forward_parameters,
    matrices,
    present,
)
from regard.models.gpt.config import GPTConfig

PUBLISHED_TOKENS = {"gpt3": 300 * 10**9, "llama-7b": 2 * 10**12, "llama3-8b": 15 * 10**12}
FAST = 100e15  # FLOP/s of a thousand accelerators with 0.1 PFLOP/s each


def costs(config: GPTConfig, *, preset: str = "", batch_tokens: int = 4096) -> Costs:
    """Return the parameters, memory and FLOPs of a model."""
    inner = config.num_heads * config.head_dim
    kv_dim = (config.num_kv_heads or config.num_heads) * config.head_dim
    projections = config.d_model * (2 * inner + 2 * kv_dim)
    attention = inner * config.context_length  # QKᵀ and AV, each over half of the context
    feed_forward = matrices(config.activation) * config.d_model * config.d_ff
    blocks = config.num_layers * (projections + attention + feed_forward)
    activations = 6 * config.d_model + 2 * inner + 2 * kv_dim + matrices(config.activation) * config.d_ff  # per block
    tokens = PUBLISHED_TOKENS.get(preset)
    return Costs(
        vocab_size=config.vocab_size,
        context_length=config.context_length,
        by_part=parameters_by_part(config),
        values=counts_of(config),
        activation_bytes=BYTES * batch_tokens * config.num_layers * activations,
        batch_tokens=batch_tokens,
        cache_bytes_per_token=2 * BYTES * config.num_layers * kv_dim,
        forward_flops=2 * (blocks + config.d_model * config.vocab_size),
        published=None if tokens is None else Published(tokens, f"{tokens:,} tokens", FAST),
    )


def parameters_by_part(config: GPTConfig) -> dict[str, int]:
    """Return the number of parameters of each part of the model."""
    d_model = config.d_model
    qk_scale = 2 * config.head_dim if config.qk_norm and config.norm_affine else 0
    norm = d_model * (int(config.norm_affine) + (int(config.bias) if config.norm == "layer" else 0))
    parts = {
        "token embedding": config.vocab_size * d_model,
        "positions": config.context_length * d_model if config.positions == "learned" else 0,
        "attention": sum(attention_parameters(config, address) + qk_scale for address in config.attentions),
        "feed-forward": config.num_layers * feed_forward_parameters(config),
        "norms": (2 * config.num_layers + 1 + int(config.embedding_norm)) * norm,
        "output": 0 if config.tie_embeddings else config.vocab_size * d_model,
    }
    return present(parts)
