"""Compute the costs of an encoder-decoder from its config. QKᵀ and AV are counted for sentences of length LENGTH."""

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
from regard.models.transformer.config import TransformerConfig

LENGTH = 32  # tokens per sentence
PAPER_TOKENS = 25_000  # source tokens per batch in the paper, and the same number of target tokens
PAPER_STEPS = {"transformer-base": 100_000, "transformer-big": 300_000, "transformer-big-fr": 300_000}


def costs(config: TransformerConfig, *, preset: str = "", batch_tokens: int = 4096) -> Costs:
    """Return the parameters, memory and FLOPs of a model."""
    inner = config.num_heads * config.head_dim
    attention = 2 * 4 * config.d_model * inner + 2 * 2 * LENGTH * inner  # projections + QKᵀ and AV
    feed_forward = 2 * matrices(config.activation) * config.d_model * config.d_ff
    encoder = config.num_encoder_layers * (attention + feed_forward)
    decoder = config.num_decoder_layers * (2 * attention + feed_forward)
    activations = 6 * config.d_model + 4 * inner + 2 * config.d_ff  # per block
    num_blocks = config.num_encoder_layers + 1.5 * config.num_decoder_layers
    published = None
    if steps := PAPER_STEPS.get(preset):
        described = f"{steps:,} steps of {PAPER_TOKENS:,} + {PAPER_TOKENS:,} tokens"
        published = Published(steps * PAPER_TOKENS, described, 100e9, ", a laptop's CPU")
    return Costs(
        vocab_size=config.vocab_size,
        context_length=config.max_positions if config.positions == "learned" else None,
        by_part=parameters_by_part(config),
        values=counts_of(config),
        activation_bytes=int(BYTES * batch_tokens / 2 * num_blocks * activations),
        batch_tokens=batch_tokens,
        cache_bytes_per_token=2 * BYTES * config.num_decoder_layers * inner,
        forward_flops=encoder + decoder + 2 * config.d_model * config.vocab_size,
        unit="a source and a target token",
        published=published,
    )


def parameters_by_part(config: TransformerConfig) -> dict[str, int]:
    """Return the number of parameters of each part of the model."""

    def attentions(stack: str, kind: str) -> int:
        chosen = (at for at in config.attentions if at.startswith(f"{stack}.") and at.endswith(f".{kind}"))
        return sum(attention_parameters(config, address) for address in chosen)

    feed_forward = feed_forward_parameters(config)
    norm = config.d_model * (2 if config.norm == "layer" and config.bias else 1)
    sublayers = len(config.attentions) + config.num_encoder_layers + config.num_decoder_layers
    parts = {
        "embeddings": _embeddings(config, norm),
        "encoder self-attention": attentions("encoder", "self"),
        "encoder feed-forward": config.num_encoder_layers * feed_forward,
        "decoder self-attention": attentions("decoder", "self"),
        "cross-attention": attentions("decoder", "cross"),
        "decoder feed-forward": config.num_decoder_layers * feed_forward,
        "norms": (sublayers + (2 if config.final_norm else 0)) * norm,
    }
    return present(parts)


def _embeddings(config: TransformerConfig, norm: int) -> int:
    """Count the parameters of token and position embeddings and of the output matrix."""
    rows = config.vocab_size + (config.source_vocab_size or 0)
    rows += 0 if config.tie_embeddings else config.vocab_size
    rows += 2 * config.max_positions if config.positions == "learned" else 0
    bias = config.vocab_size if config.output_bias else 0
    return rows * config.d_model + bias + (2 * norm if config.embedding_norm else 0)
