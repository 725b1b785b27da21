"""What a model costs, counted from its settings: nothing is built, and torch is not needed.

FLOPs count a multiplication and an addition as two. Training a token costs three times its forward pass: once
forward, twice backward. Attention's own products grow with the length of the text and are given for one length.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from regard.config import from_dict
from regard.errors import UsageError, unknown
from regard.models.transformer_settings import PRESETS, TransformerConfig
from regard.training.recipes import RECIPES, translation_recipe, usual_recipe
from regard.training.value_counts import ValueCounts, counts_of

PAPER_STEPS = {"transformer-base": 100_000, "transformer-big": 300_000, "transformer-big-fr": 300_000}
PAPER_TOKENS = 25_000  # source tokens of a batch of the paper, and as many target tokens
LENGTH = 32  # tokens of a sentence, for attention's own products
BYTES = 4  # of a number in fp32


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What is counted of every model, whatever it is for. A pass is over one token of each text that it reads."""

    preset: str
    vocab_size: int
    by_part: dict[str, int]  # parameters, by what they are for
    values: ValueCounts
    activation_bytes: int  # about what a batch of `batch_tokens` keeps for the backward pass
    batch_tokens: int
    cache_bytes_per_token: int  # keys and values a decoder remembers
    forward_flops: int

    @property
    def parameters(self) -> int:
        return sum(self.by_part.values())

    @property
    def weight_bytes(self) -> int:
        return BYTES * self.parameters

    @property
    def training_bytes(self) -> int:
        """Weights, gradients and two moments of Adam."""
        return 4 * self.weight_bytes

    @property
    def training_flops(self) -> int:
        return 3 * self.forward_flops

    def as_dict(self) -> dict[str, Any]:
        derived = ("parameters", "weight_bytes", "training_bytes", "training_flops")
        return {**asdict(self), **{name: getattr(self, name) for name in derived}, "values": self.values.as_dict()}

    def lines(self, title: str, *, cache: str, remembered: str, passed: str) -> list[str]:
        """All of it as text; `cache` names the memory of a decoder, `passed` what a pass reads."""
        return [
            title,
            f"parameters              {self.parameters:>15,}",
            *(f"  {name:<22}{count:>15,}" for name, count in self.by_part.items()),
            f"weights in fp32         {size_text(self.weight_bytes):>15}",
            f"training, Adam          {size_text(self.training_bytes):>15}  weights, gradients, two moments",
            f"activations             {size_text(self.activation_bytes):>15}  "
            f"about, for a batch of {self.batch_tokens:,}",
            f"{cache:<24}{size_text(self.cache_bytes_per_token):>15}  {remembered}",
            f"forward pass            {flops_text(self.forward_flops):>15}  {passed}",
            f"training                {flops_text(self.training_flops):>15}  {passed}",
        ]


@dataclass(frozen=True, kw_only=True)
class Plan(Costs):
    """What a translator costs."""

    recipe: str
    paper_flops: int | None  # the whole training of the paper, for the presets it published

    def __str__(self) -> str:
        title = f"{self.preset} ({self.recipe} recipe, {self.vocab_size:,} pieces)"
        passed = "a source and a target token"
        lines = self.lines(title, cache="cache while decoding", remembered="a token", passed=passed)
        if self.paper_flops is not None:
            time = lasting(self.paper_flops / 100e9)
            lines.append(
                f"the paper's training    {flops_text(self.paper_flops):>15}  {PAPER_STEPS[self.preset]:,} steps of "
                f"{PAPER_TOKENS:,} + {PAPER_TOKENS:,} tokens; {time} at 100 GFLOP/s, a laptop's CPU.\n"
                f"                                         It was not run here, and its BLEU is not claimed."
            )
        return "\n".join([*lines, str(self.values)])


def plan(preset: str, *, vocab_size: int | None = None, recipe: str | None = None, batch_tokens: int = 4096) -> Plan:
    """Count the parameters, memory and compute of a preset, with the recipe that a training of this size would use."""
    if preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)
    recipe = usual_recipe(preset) if recipe is None else recipe
    if recipe not in RECIPES:
        raise unknown("recipe", recipe, RECIPES)
    if batch_tokens < 1:
        raise UsageError(f"batch_tokens must be at least 1, not {batch_tokens}.")
    vocabulary = int(str(PRESETS[preset].get("vocab_size", 8000))) if vocab_size is None else vocab_size
    config = from_dict(TransformerConfig, {**translation_recipe(recipe, preset).model, "vocab_size": vocabulary})
    forward = _forward_flops(config)
    paper = PAPER_STEPS.get(preset)
    return Plan(
        preset=preset,
        recipe=recipe,
        vocab_size=vocabulary,
        by_part=parameters_by_part(config),
        values=counts_of(config, config.attentions),
        activation_bytes=_activation_bytes(config, batch_tokens),
        batch_tokens=batch_tokens,
        cache_bytes_per_token=2 * BYTES * config.decoder_layers * config.heads * config.head_width,
        forward_flops=forward,
        paper_flops=3 * forward * paper * PAPER_TOKENS if paper else None,
    )


def parameters_by_part(config: TransformerConfig) -> dict[str, int]:
    """How many parameters a model of this config has, by what they are for; those it has none of are left out."""
    width, bias = config.width, int(config.bias)

    def linear(inputs: int, outputs: int) -> int:
        return inputs * outputs + bias * outputs

    def attention(address: str) -> int:
        inner = config.heads_at.get(address, config.heads) * config.head_width
        return linear(width, 3 * inner) + linear(inner, width)

    feed_forward = linear(width, config.hidden * (2 if config.activation == "swiglu" else 1)) + linear(
        config.hidden, width
    )
    norm = width * (2 if config.norm == "layer" and config.bias else 1)
    sides = int(config.has_encoder) + int(config.has_decoder)
    encoder_layers = config.encoder_layers if config.has_encoder else 0
    decoder_layers = config.decoder_layers if config.has_decoder else 0
    attentions = {address: attention(address) for address in config.attentions}
    norms = len(attentions) + encoder_layers + decoder_layers  # one for each sublayer
    parts = {
        "embeddings": _embeddings(config, sides, norm),
        "encoder self-attention": sum(n for at, n in attentions.items() if at.startswith("encoder.")),
        "encoder feed-forward": encoder_layers * feed_forward,
        "decoder self-attention": sum(
            n for at, n in attentions.items() if at.startswith("decoder.") and at.endswith(".self")
        ),
        "cross-attention": sum(n for at, n in attentions.items() if at.endswith(".cross")),
        "decoder feed-forward": decoder_layers * feed_forward,
        "norms": (norms + (sides if config.final_norm else 0)) * norm,
    }
    return {part: count for part, count in parts.items() if count}


def _embeddings(config: TransformerConfig, sides: int, norm: int) -> int:
    """All that turns ids into vectors and vectors into logits."""
    source = (config.source_vocab_size or config.vocab_size) if config.has_encoder else 0
    target = config.vocab_size if config.has_decoder else 0
    shared = sides == 2 and config.source_vocab_size is None
    rows = target if shared else source + target
    rows += 0 if config.tie_embeddings else config.vocab_size
    rows += sides * config.max_positions if config.positions == "learned" else 0
    bias = config.vocab_size if config.output_bias else 0
    return rows * config.width + bias + (sides * norm if config.embedding_norm else 0)


def _forward_flops(config: TransformerConfig) -> int:
    inner = config.heads * config.head_width
    attention = 2 * 4 * config.width * inner + 2 * 2 * LENGTH * inner  # projections; scores and averages
    gated = 3 if config.activation == "swiglu" else 2
    feed_forward = 2 * gated * config.width * config.hidden
    encoder = config.encoder_layers * (attention + feed_forward) if config.has_encoder else 0
    decoder = config.decoder_layers * (2 * attention + feed_forward) if config.has_decoder else 0
    return encoder + decoder + 2 * config.width * config.vocab_size


def _activation_bytes(config: TransformerConfig, tokens: int) -> int:
    """About: what the layers keep for the backward pass, without the logits, which are never kept."""
    inner = config.heads * config.head_width
    block = 6 * config.width + 4 * inner + 2 * config.hidden
    layers = config.encoder_layers + 1.5 * config.decoder_layers
    return int(BYTES * tokens / 2 * layers * block)


def lasting(seconds: float) -> str:
    """A length of time in the largest unit of which it holds at least two."""
    day = 86_400
    for unit, length in (("years", 365 * day), ("months", 365 * day / 12), ("days", day), ("hours", 3600)):
        if seconds >= 2 * length:
            return f"{seconds / length:.{0 if seconds >= 10 * length else 1}f} {unit}"
    return f"{seconds / 60:.0f} minutes"


def size_text(count: float) -> str:
    """Bytes as a person says them."""
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def flops_text(count: float) -> str:
    """Operations as a person says them."""
    for unit in ("", "K", "M", "G", "T", "P", "E"):
        if count < 1000:
            return f"{count:.3g} {unit}FLOP"
        count /= 1000
    return f"{count:,.0f} ZFLOP"
