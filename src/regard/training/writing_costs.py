"""What a language model costs, counted from its settings, as `costs` does it for translators.

A pass over one token multiplies it by every matrix once; scores and averages of attention are counted for a token in
the middle of a full context, that is for half of it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from regard.config import from_dict
from regard.errors import UsageError, unknown
from regard.models.gpt_settings import PRESETS, GPTConfig
from regard.training.costs import BYTES, flops_text, lasting, size_text
from regard.training.value_counts import ValueCounts, counts_of

PUBLISHED_TOKENS = {"gpt3": 300 * 10**9, "llama-7b": 2 * 10**12, "llama3-8b": 15 * 10**12}  # of their trainings
VOCABULARY = 4000  # pieces, where the preset leaves them to the tokenizer
FAST = 100e15  # FLOP/s: a thousand accelerators with a tenth of a petaflop each


@dataclass(frozen=True, kw_only=True)
class WriterPlan:
    preset: str
    vocab_size: int
    context: int
    parameters: int
    by_part: dict[str, int]
    values: ValueCounts
    weight_bytes: int
    training_bytes: int  # weights, gradients and two moments of Adam
    activation_bytes: int  # about what a batch of `batch_tokens` keeps for the backward pass
    batch_tokens: int
    cache_bytes_per_token: int  # keys and values
    forward_flops: int  # for one token
    training_flops: int
    published_flops: int | None  # the whole training, where its tokens were published

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "values": self.values.as_dict()}

    def __str__(self) -> str:
        parts = "\n".join(f"  {name:<22}{count:>15,}" for name, count in self.by_part.items())
        full_cache = self.cache_bytes_per_token * self.context
        lines = [
            f"{self.preset} (language model, {self.vocab_size:,} tokens, context {self.context:,})",
            f"parameters              {self.parameters:>15,}",
            parts,
            f"weights in fp32         {size_text(self.weight_bytes):>15}",
            f"training, Adam          {size_text(self.training_bytes):>15}  weights, gradients, two moments",
            f"activations             {size_text(self.activation_bytes):>15}  about, for a batch of "
            f"{self.batch_tokens:,}",
            f"cache while writing     {size_text(self.cache_bytes_per_token):>15}  a token; {size_text(full_cache)} "
            f"for a full context",
            f"forward pass            {flops_text(self.forward_flops):>15}  a token",
            f"training                {flops_text(self.training_flops):>15}  a token",
        ]
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
    by_part = writer_parameters(config)
    parameters = sum(by_part.values())
    forward = _forward_flops(config)
    tokens = PUBLISHED_TOKENS.get(preset)
    return WriterPlan(
        preset=preset,
        vocab_size=vocabulary,
        context=config.context,
        parameters=parameters,
        by_part=by_part,
        values=counts_of(config, config.attentions),
        weight_bytes=BYTES * parameters,
        training_bytes=4 * BYTES * parameters,
        activation_bytes=_activation_bytes(config, batch_tokens),
        batch_tokens=batch_tokens,
        cache_bytes_per_token=2 * BYTES * config.layers * _shared(config) * config.head_width,
        forward_flops=forward,
        training_flops=3 * forward,
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
