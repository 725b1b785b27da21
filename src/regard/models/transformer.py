"""The Transformer of 2017: an encoder that reads, a decoder that writes, attention between them.

"Attention Is All You Need" (Vaswani et al. 2017), with the later choices (pre-norm, rotary positions, other
activations) as settings. `architecture` builds an encoder alone or a decoder alone from the same blocks. This
file knows ids, not text, and nothing of losses or training.

| here | paper |
|---|---|
| width, hidden, heads, head_width | d_model, d_ff, h, d_k = d_v |
| encoder_layers, decoder_layers | N |
| memory | the encoder's output, which becomes the decoder's keys and values |
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import UsageError
from regard.models.transformer_settings import TransformerConfig
from regard.nn import masks
from regard.nn.blocks import Block, BlockCache, Residual
from regard.nn.dropout import Dropout
from regard.nn.feed_forward import FeedForward
from regard.nn.masks import Keep
from regard.nn.multihead import MultiHeadAttention
from regard.nn.norms import make_norm
from regard.nn.positions import Rotary, make_positions
from regard.nn.taps import Tap


class Transformer(nn.Module):
    """ids in, logits out. `encode` and `decode` are the two halves."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        rotary = Rotary(config.head_width) if config.positions == "rotary" else None
        if config.has_encoder:
            self.source_embedding = Embedding(config, config.source_vocab_size or config.vocab_size)
            self.encoder = nn.ModuleList(
                make_block(config, f"encoder.{i}", rotary) for i in range(config.encoder_layers)
            )
            self.encoder_norm = _final_norm(config)
        if config.has_decoder:
            self.target_embedding = Embedding(config, config.vocab_size)
            if config.has_encoder and config.source_vocab_size is None:
                self.target_embedding.weight = self.source_embedding.weight
            self.decoder = nn.ModuleList(
                make_block(config, f"decoder.{i}", rotary, cross=config.has_encoder)
                for i in range(config.decoder_layers)
            )
            self.decoder_norm = _final_norm(config)
        if not config.tie_embeddings:
            self.output = nn.Parameter(torch.empty(config.vocab_size, config.width))
        self.output_bias = nn.Parameter(torch.zeros(config.vocab_size)) if config.output_bias else None
        initialise(self)

    @property
    def output_weight(self) -> Tensor:
        """The matrix that turns hidden states into logits: (N, D)."""
        if not self.config.tie_embeddings:
            return self.output
        tied = self.target_embedding if self.config.has_decoder else self.source_embedding
        return tied.weight

    def encode(self, source: Tensor, source_keep: Keep) -> Tensor:
        """source ids (B, S) → memory (B, S, D): every position at once, each from all the others."""
        keep = source_keep.ready(source.shape[1], source.shape[1], source.device)
        x = self.source_embedding(source)
        for block in self.encoder:
            x = block(x, keep)
        out: Tensor = self.encoder_norm(x)
        return out

    def decode(
        self,
        target: Tensor,
        memory: Tensor | None = None,
        memory_keep: Keep | None = None,
        *,
        caches: Sequence[BlockCache] | None = None,
    ) -> Tensor:
        """target ids (B, T) → hidden states (B, T, D); position t sees targets up to t and all of the memory.

        With `caches`, `target` holds only the new tokens, and the memory is needed the first time only.
        """
        start = caches[0].self_attention.length if caches else 0
        x = self.target_embedding(target, start)
        memory_keep = memory_keep or masks.everything()
        if memory is not None:
            memory_keep = memory_keep.ready(target.shape[1], memory.shape[1], target.device)
        for i, block in enumerate(self.decoder):
            cache = caches[i] if caches else None
            x = block(x, masks.causal(), memory=memory, memory_keep=memory_keep, cache=cache)
        out: Tensor = self.decoder_norm(x)
        return out

    def logits(self, hidden: Tensor) -> Tensor:
        """hidden states (B, T, D) → logits (B, T, N)."""
        return F.linear(hidden, self.output_weight, self.output_bias)

    def forward(self, source: Tensor | None, target: Tensor | None, source_keep: Keep | None = None) -> Tensor:
        """Logits for every position: (B, T, N). An encoder alone takes no target, a decoder alone no source."""
        memory = None
        keep = source_keep or masks.everything()
        if self.config.has_encoder:
            if source is None:
                raise UsageError("this model has an encoder and needs source ids.")
            memory = self.encode(source, keep)
            if not self.config.has_decoder:
                return self.logits(memory)
        if target is None:
            raise UsageError("this model has a decoder and needs target ids.")
        return self.logits(self.decode(target, memory, keep))

    def new_caches(self) -> list[BlockCache]:
        """Empty memories, one for each block of the decoder."""
        return [BlockCache() for _ in self.decoder]


class Embedding(nn.Module):
    """ids → vectors, with their positions added."""

    def __init__(self, config: TransformerConfig, vocab_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, config.width))
        self.factor = math.sqrt(config.width) if config.scale_embeddings else 1.0
        self.positions = make_positions(
            config.positions, config.width, layout=config.position_layout, max_positions=config.max_positions
        )
        self.norm = make_norm(config.norm, config.width, bias=config.bias) if config.embedding_norm else nn.Identity()
        self.dropout = Dropout(config.dropout)
        self.tap = Tap()

    def forward(self, ids: Tensor, start: int = 0) -> Tensor:
        x = F.embedding(ids, self.weight) * self.factor
        out: Tensor = self.tap(self.dropout(self.norm(self.positions(x, start))))
        return out


def make_block(config: TransformerConfig, address: str, rotary: Rotary | None, *, cross: bool = False) -> Block:
    def attention(kind: str) -> MultiHeadAttention:
        return MultiHeadAttention(
            config.width,
            heads=config.heads_at.get(f"{address}.{kind}", config.heads),
            head_width=config.head_width,
            cross=kind == "cross",
            bias=config.bias,
            rotary=rotary if kind == "self" else None,
            normalise=config.normalise_queries_and_keys,
            dropout=config.attention_dropout,
        )

    return Block(
        self_attention=attention("self"),
        cross_attention=attention("cross") if cross else None,
        feed_forward=FeedForward(
            config.width,
            hidden=config.hidden,
            activation=config.activation,
            bias=config.bias,
            dropout=config.hidden_dropout,
        ),
        make_residual=lambda: Residual(
            make_norm(config.norm, config.width, bias=config.bias),
            placement=config.norm_placement,
            dropout=config.dropout,
        ),
    )


def _final_norm(config: TransformerConfig) -> nn.Module:
    return make_norm(config.norm, config.width, bias=config.bias) if config.final_norm else nn.Identity()


def initialise(model: Transformer) -> None:
    """Glorot for matrices, as in 2017. With pre-norm, what a sublayer adds starts at zero.

    Where a norm follows the embeddings their length is free, and short ones keep the first logits small.

    A zero start makes every block the identity at first, so that depth costs nothing before it helps; a post-norm
    model cannot learn from it.
    """
    config = model.config
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        if isinstance(module, Embedding):
            nn.init.normal_(module.weight, std=0.02 if config.embedding_norm else config.width**-0.5)
    if not config.tie_embeddings:
        nn.init.normal_(model.output, std=config.width**-0.5)
    if config.norm_placement == "pre":
        for module in model.modules():
            if isinstance(module, MultiHeadAttention):
                nn.init.zeros_(module.output.weight)
            elif isinstance(module, FeedForward):
                nn.init.zeros_(module.narrow.weight)
