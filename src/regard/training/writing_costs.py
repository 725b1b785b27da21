"""What a language model costs, counted from its settings, as `costs` does it for translators.

A pass over one token multiplies it by every matrix once; scores and averages of attention are counted for a token in
the middle of a full context, that is for half of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from regard.config import from_dict
from regard.errors import UsageError, unknown
from regard.models.gpt_settings import PRESETS, GPTConfig
from regard.training.costs import BYTES, Costs, flops_text, lasting, size_text
from regard.training.value_counts import counts_of

PUBLISHED_TOKENS = {"gpt3": 300 * 10**9, "llama-7b": 2 * 10**12, "llama3-8b": 15 * 10**12}  # of their trainings
VOCABULARY = 4000  # pieces, where the preset leaves them to the tokenizer
FAST = 100e15  # FLOP/s: a thousand accelerators with a tenth of a petaflop each


@dataclass(frozen=True, kw_only=True)
class WriterPlan(Costs):
    """What a language model costs."""

    context: int
    published_flops: int | None  # the whole training, where its tokens were published

    def __str__(self) -> str:
        title = f"{self.preset} (language model, {self.vocab_size:,} tokens, context {self.context:,})"
        remembered = f"a token; {size_text(self.cache_bytes_per_token * self.context)} for a full context"
        lines = self.lines(title, cache="cache while writing", remembered=remembered, passed="a token")
        if self.published_flops is not None:
            time = lasting(self.published_flops / FAST)
            lines.append(
                f"the published training  {flops_text(self.published_flops):>15}  {PUBLISHED_TOKENS[self.preset]:,} "
                f"tokens; {time} at {flops_text(FAST)}/s. It was not run here."
            )
        return "\n".join([*lines, str(self.values)])


def plan_writer(preset: str, *, vocab_size: int | None = None, batch_tokens: int = 4096) -> WriterPlan:
    """Count the parameters, memory and compute of a language model's preset."""
    if preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)
    if batch_tokens < 1:
        raise UsageError(f"batch_tokens must be at least 1, not {batch_tokens}.")
    vocabulary = int(str(PRESETS[preset].get("vocab_size", VOCABULARY))) if vocab_size is None else vocab_size
    config = from_dict(GPTConfig, {**PRESETS[preset], "vocab_size": vocabulary})
    forward = _forward_flops(config)
    tokens = PUBLISHED_TOKENS.get(preset)
    return WriterPlan(
        preset=preset,
        vocab_size=vocabulary,
        context=config.context,
        by_part=writer_parameters(config),
        values=counts_of(config, config.attentions),
        activation_bytes=_activation_bytes(config, batch_tokens),
        batch_tokens=batch_tokens,
        cache_bytes_per_token=2 * BYTES * config.layers * _shared(config) * config.head_width,
        forward_flops=forward,
        published_flops=3 * forward * tokens if tokens else None,
    )


def writer_parameters(config: GPTConfig) -> dict[str, int]:
    """How many parameters a model of this config has, by what they are for; those it has none of are left out."""
    width, head_width, bias = config.width, config.head_width, int(config.bias)

    def linear(inputs: int, outputs: int) -> int:
        return inputs * outputs + bias * outputs

    def attention(heads: int) -> int:
        joint = (heads + 2 * (config.key_value_heads or heads)) * head_width
        gains = 2 * head_width if config.normalise_queries_and_keys and config.norm_gains else 0
        return linear(width, joint) + linear(heads * head_width, width) + gains

    feed_forward = linear(width, config.hidden * (_matrices(config) - 1)) + linear(config.hidden, width)
    norm = width * (int(config.norm_gains) + (bias if config.norm == "layer" else 0))
    parts = {
        "token embedding": config.vocab_size * width,
        "positions": config.context * width if config.positions == "learned" else 0,
        "attention": sum(attention(config.heads_at.get(address, config.heads)) for address in config.attentions),
        "feed-forward": config.layers * feed_forward,
        "norms": (2 * config.layers + 1 + int(config.embedding_norm)) * norm,
        "output": 0 if config.tie_embeddings else config.vocab_size * width,
    }
    return {part: count for part, count in parts.items() if count}


def _shared(config: GPTConfig) -> int:
    """Sets of keys and values in each layer."""
    return config.key_value_heads or config.heads


def _forward_flops(config: GPTConfig) -> int:
    inner, shared = config.heads * config.head_width, _shared(config) * config.head_width
    projections = config.width * (2 * inner + 2 * shared)
    attention = inner * config.context  # half of the context, once for the scores and once for the averages
    feed_forward = _matrices(config) * config.width * config.hidden
    return 2 * (config.layers * (projections + attention + feed_forward) + config.width * config.vocab_size)


def _activation_bytes(config: GPTConfig, tokens: int) -> int:
    """About: what the layers keep for the backward pass, without the logits, which are never kept."""
    inner, shared = config.heads * config.head_width, _shared(config) * config.head_width
    block = 6 * config.width + 2 * inner + 2 * shared + _matrices(config) * config.hidden
    return BYTES * tokens * config.layers * block


def _matrices(config: GPTConfig) -> int:
    """Of a feed-forward network: a gated one has three."""
    return 3 if config.activation == "swiglu" else 2
