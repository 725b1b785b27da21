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

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.gpt_settings import GPTConfig
from regard.nn import masks
from regard.nn.blocks import Block, BlockCache, Residual
from regard.nn.dropout import Dropout
from regard.nn.feed_forward import FeedForward
from regard.nn.masks import Keep
from regard.nn.multihead import MultiHeadAttention
from regard.nn.norms import make_norm
from regard.nn.positions import Rotary, make_positions
from regard.nn.taps import Tap


class GPT(nn.Module):
    """ids in, logits of the next token out."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        self.keep: Keep = masks.causal()  # who may look at whom; an experiment takes it away
        rotary = None
        if config.positions == "rotary":
            rotary = Rotary(config.head_width, base=config.rotary_base, scaling=config.rotary_scaling)
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
        keep = self.keep
        if padding is not None:
            keep = (keep & masks.starts(padding)).ready(ids.shape[1], past + ids.shape[1], ids.device)
        for i, block in enumerate(self.decoder):
            x = block(x, keep, cache=caches[i] if caches else None, padding=padding)
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
