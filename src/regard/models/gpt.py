"""The decoder alone: GPT. It reads a text and says, at every position, what comes next.

From Radford et al. (2018, 2019) to what is usual now: positions learned or rotary, LayerNorm or RMSNorm, queries and
keys normalised or not, GELU, squared ReLU or SwiGLU, fewer key-value heads than heads, the output tied to the
embedding or not. This file knows ids, not text, and nothing of losses or training.

| here | GPT-2 | Llama | shape |
|---|---|---|---|
| embedding.weight | wte | embed_tokens | (N, D) |
| embedding.positions.weight | wpe | – | (context, D) |
| decoder.i.self_attention.query_key_value | c_attn | q_proj, k_proj, v_proj | (H · Dh + 2 · H′ · Dh, D) |
| decoder.i.feed_forward.widen | mlp.c_fc | gate_proj, up_proj | (hidden, D) |
| decoder.i.feed_forward.narrow | mlp.c_proj | down_proj | (D, hidden) |
| output | – (wte) | lm_head | (N, D) |
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import UsageError, unknown
from regard.nn import masks
from regard.nn.blocks import Block, BlockCache, Residual
from regard.nn.dropout import Dropout
from regard.nn.feed_forward import Activation, FeedForward
from regard.nn.multihead import MultiHeadAttention
from regard.nn.norms import NormKind, make_norm
from regard.nn.positions import Rotary, make_positions
from regard.nn.taps import Tap

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
        for address, heads in self.heads_at.items():
            if address not in self.attentions:
                raise unknown("address in heads_at", address, self.attentions)
            if heads < 1:
                raise UsageError(f"heads_at must leave at least 1 head at {address}, not {heads}.")
        for heads in {self.heads, *self.heads_at.values()}:
            if heads % (self.key_value_heads or heads):
                raise UsageError(f"{heads} heads cannot share {self.key_value_heads} key-value heads evenly.")

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


class GPT(nn.Module):
    """ids in, logits of the next token out."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        rotary = Rotary(config.head_width, base=config.rotary_base) if config.positions == "rotary" else None
        self.embedding = Embedding(config)
        self.decoder = nn.ModuleList(make_block(config, f"decoder.{i}", rotary) for i in range(config.layers))
        self.norm = _norm(config)
        if not config.tie_embeddings:
            self.output = nn.Parameter(torch.empty(config.vocab_size, config.width))
        initialise(self)

    @property
    def output_weight(self) -> Tensor:
        """The matrix that turns hidden states into logits: (N, D)."""
        return self.embedding.weight if self.config.tie_embeddings else self.output

    def decode(
        self, ids: Tensor, *, caches: Sequence[BlockCache] | None = None, padding: Tensor | None = None
    ) -> Tensor:
        """ids (B, T) → hidden states (B, T, D); position t sees ids up to t.

        With `caches`, `ids` are only the new ones. Row b begins with `padding[b]` ids that count for nothing.
        """
        past = caches[0].self_attention.length if caches else 0
        x = self.embedding(ids, past, padding)
        keep = masks.causal()
        if padding is not None:
            keep = (keep & masks.starts(padding)).ready(ids.shape[1], past + ids.shape[1], ids.device)
        for i, block in enumerate(self.decoder):
            x = block(x, keep, cache=caches[i] if caches else None)
        out: Tensor = self.norm(x)
        return out

    def logits(self, hidden: Tensor) -> Tensor:
        """hidden states (…, D) → logits (…, N)."""
        logits = F.linear(hidden, self.output_weight)
        cap = self.config.logit_cap
        return logits if cap is None else cap * torch.tanh(logits / cap)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of the token after each of `ids`: (B, T, N)."""
        return self.logits(self.decode(ids))

    def new_caches(self) -> list[BlockCache]:
        """Empty memories, one for each block."""
        return [BlockCache() for _ in self.decoder]


class Embedding(nn.Module):
    """ids → vectors, with their positions added if those are learned."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(config.vocab_size, config.width))
        self.positions = make_positions(
            config.positions, config.width, layout="interleaved", max_positions=config.context
        )
        self.norm = _norm(config) if config.embedding_norm else nn.Identity()
        self.dropout = Dropout(config.dropout)
        self.tap = Tap()

    def forward(self, ids: Tensor, start: int = 0, padding: Tensor | None = None) -> Tensor:
        x = F.embedding(ids, self.weight)
        out: Tensor = self.tap(self.dropout(self.norm(self.positions(x, start, padding))))
        return out


def make_block(config: GPTConfig, address: str, rotary: Rotary | None) -> Block:
    return Block(
        self_attention=MultiHeadAttention(
            config.width,
            heads=config.heads_at.get(f"{address}.self", config.heads),
            head_width=config.head_width,
            key_value_heads=config.key_value_heads,
            bias=config.bias,
            rotary=rotary,
            normalise=config.normalise_queries_and_keys,
            gains=config.norm_gains,
            epsilon=config.norm_epsilon,
        ),
        feed_forward=FeedForward(config.width, hidden=config.hidden, activation=config.activation, bias=config.bias),
        make_residual=lambda: Residual(_norm(config), placement="pre", dropout=config.dropout),
    )


def _norm(config: GPTConfig) -> nn.Module:
    return make_norm(config.norm, config.width, scale=config.norm_gains, bias=config.bias, epsilon=config.norm_epsilon)


def initialise(model: GPT) -> None:
    """Normal matrices with the deviation of √(1 / inputs), capped at GPT-2's; what a sublayer adds starts at zero.

    Every block is the identity at first, so that depth costs nothing before it helps. The output starts at zero, too:
    the first guess is that all tokens are equally likely.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=module.in_features**-0.5)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            nn.init.zeros_(module.output.weight)
        elif isinstance(module, FeedForward):
            nn.init.zeros_(module.narrow.weight)
    tied = model.config.tie_embeddings
    nn.init.normal_(model.embedding.weight, std=0.02 if tied else 1.0)
    if not tied:
        nn.init.zeros_(model.output)
