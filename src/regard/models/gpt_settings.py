"""The settings of GPT, and its shapes by name; without torch, as those of the Transformer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from regard.errors import UsageError, unknown
from regard.nn.kinds import Activation, NormKind

Positions = Literal["rotary", "learned", "none"]
_CHOICES = {"positions": Positions, "norm": NormKind, "activation": Activation}
_COUNTS = ("vocab_size", "layers", "width", "hidden", "heads", "head_width", "key_value_heads", "context")


@dataclass(frozen=True, kw_only=True)
class GPTConfig:
    vocab_size: int  # how many pieces the vocabulary has
    context: int = 256  # how many tokens are seen at once
    layers: int = 6  # blocks
    width: int = 256  # length of the vector of each token
    hidden: int = 1024  # inner width of the feed-forward networks
    heads: int = 4  # attention heads in each block
    head_width: int = 64  # length of a head's queries, keys and values
    key_value_heads: int | None = None  # fewer than heads: several heads share their keys and values
    heads_at: Mapping[str, int] = field(default_factory=dict)  # other head counts, by address: {"decoder.2.self": 3}
    positions: Positions = "rotary"  # how order is told
    rotary_base: float = 10_000.0  # rotary positions: sets the longest wavelength
    # rotary positions: slower waves beyond the context of a first training, by `factor`, `low`, `high` and `context`
    rotary_scaling: Mapping[str, float] = field(default_factory=dict)
    norm: NormKind = "rms"  # LayerNorm or RMSNorm
    norm_gains: bool = False  # norms scale each dimension by a learned factor
    norm_epsilon: float = 1e-6  # keeps the division finite
    normalise_queries_and_keys: bool = True  # RMS-normalise them before scoring
    activation: Activation = "relu2"  # of the feed-forward networks
    bias: bool = False  # biases in linear layers and norms
    tie_embeddings: bool = False  # one matrix for input and output embedding
    embedding_norm: bool = True  # a norm right after the embeddings
    logit_cap: float | None = None  # logits are bent by cap · tanh(logit / cap)
    dropout: float = 0.0  # share of each sublayer's output set to zero in training

    def __post_init__(self) -> None:
        for name in _COUNTS:
            count = getattr(self, name)
            if count is not None and count < 1:
                raise UsageError(f"{name} must be at least 1, not {count}.")
        for name, kind in _CHOICES.items():
            if getattr(self, name) not in get_args(kind):
                raise unknown(name, str(getattr(self, name)), get_args(kind))
        if not 0 <= self.dropout < 1:
            raise UsageError(f"dropout must be at least 0 and below 1, not {self.dropout}.")
        for name in ("rotary_base", "norm_epsilon", "logit_cap"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise UsageError(f"{name} must be a finite number above 0, not {value}.")
        if self.rotary_scaling:
            self._check_scaling(**self.rotary_scaling)
        for address, heads in self.heads_at.items():
            if address not in self.attentions:
                raise unknown("address in heads_at", address, self.attentions)
            if heads < 1:
                raise UsageError(f"heads_at must leave at least 1 head at {address}, not {heads}.")
        for heads in {self.heads, *self.heads_at.values()}:
            if heads % (self.key_value_heads or heads):
                raise UsageError(f"{heads} heads cannot share {self.key_value_heads} key-value heads evenly.")

    @staticmethod
    def _check_scaling(*, factor: float, low: float, high: float, context: float) -> None:
        if not (0 < factor < math.inf and 0 < context < math.inf and 0 < low < high < math.inf):
            raise UsageError(
                f"rotary_scaling needs numbers above 0, low less than high: not factor {factor}, low {low}, "
                f"high {high}, context {context}."
            )

    @property
    def attentions(self) -> tuple[str, ...]:
        """The address of every attention, in the order in which they run."""
        return tuple(f"decoder.{i}.self" for i in range(self.layers))


GPT2: dict[str, Any] = dict(
    vocab_size=50_257,
    context=1024,
    head_width=64,
    positions="learned",
    norm="layer",
    norm_gains=True,
    norm_epsilon=1e-5,
    normalise_queries_and_keys=False,
    activation="gelu-tanh",
    bias=True,
    tie_embeddings=True,
    embedding_norm=False,
    dropout=0.1,
)
LLAMA: dict[str, Any] = dict(
    positions="rotary",
    norm="rms",
    norm_gains=True,
    norm_epsilon=1e-5,
    normalise_queries_and_keys=False,
    activation="swiglu",
    embedding_norm=False,
)

# Shapes by name. Where `vocab_size` is missing it comes from the tokenizer.
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": dict(layers=4, width=128, hidden=512, heads=4, head_width=32, context=128),
    "small": dict(layers=6, width=256, hidden=1024, heads=4, head_width=64, context=256),
    "base": dict(layers=8, width=384, hidden=1536, heads=6, head_width=64, context=512),
    "large": dict(layers=12, width=768, hidden=3072, heads=12, head_width=64, context=1024),
    "gpt2": {**GPT2, **dict(layers=12, width=768, hidden=3072, heads=12)},
    "gpt2-medium": {**GPT2, **dict(layers=24, width=1024, hidden=4096, heads=16)},
    "gpt2-large": {**GPT2, **dict(layers=36, width=1280, hidden=5120, heads=20)},
    "gpt2-xl": {**GPT2, **dict(layers=48, width=1600, hidden=6400, heads=25)},
    "gpt3": {**GPT2, **dict(layers=96, width=12_288, hidden=49_152, heads=96, head_width=128, context=2048)},
    "llama-tiny": {**LLAMA, **dict(layers=4, width=128, hidden=344, heads=4, head_width=32, context=256)},
    "llama-7b": {
        **LLAMA,
        **dict(vocab_size=32_000, layers=32, width=4096, hidden=11_008, heads=32, head_width=128, context=4096),
    },
    "llama3-8b": {
        **LLAMA,
        **dict(vocab_size=128_256, layers=32, width=4096, hidden=14_336, heads=32, head_width=128, context=8192),
        **dict(key_value_heads=8, rotary_base=500_000.0),
    },
}
