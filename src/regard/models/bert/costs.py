"""Compute the costs of a BERT without a head from its config. QKᵀ and AV are counted for a full context."""

from __future__ import annotations

from regard.models.bert.config import BertConfig
from regard.models.costs import (
    BYTES,
    Costs,
    attention_parameters,
    counts_of,
    feed_forward_parameters,
    linear_parameters,
    matrices,
    present,
)


def costs(config: BertConfig, *, preset: str = "", batch_tokens: int = 4096) -> Costs:
    """Return the parameters, memory and FLOPs of a model."""
    inner = config.num_heads * config.head_dim
    attention = 4 * config.d_model * inner + 2 * inner * config.context_length  # projections + QKᵀ and AV
    feed_forward = matrices(config.activation) * config.d_model * config.d_ff
    block = 6 * config.d_model + 4 * inner + matrices(config.activation) * config.d_ff
    return Costs(
        vocab_size=config.vocab_size,
        context_length=config.context_length,
        by_part=parameters_by_part(config),
        values=counts_of(config),
        activation_bytes=BYTES * batch_tokens * config.num_layers * block,
        batch_tokens=batch_tokens,
        cache_bytes_per_token=None,
        forward_flops=2 * config.num_layers * (attention + feed_forward),
    )


def parameters_by_part(config: BertConfig) -> dict[str, int]:
    """Return the number of parameters of each part of the model."""
    d_model = config.d_model
    parts = {
        "token embedding": config.vocab_size * d_model,
        "token types": config.type_vocab_size * d_model,
        "positions": config.context_length * d_model,
        "attention": sum(attention_parameters(config, address) for address in config.attentions),
        "feed-forward": config.num_layers * feed_forward_parameters(config),
        "norms": (2 * config.num_layers + 1) * 2 * d_model,
        "pooler": linear_parameters(config, d_model, d_model) if config.pooler else 0,
    }
    return present(parts)
