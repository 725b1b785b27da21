"""The Transformer of 2017: an encoder and a decoder, connected by cross-attention. "Attention Is All You Need" (Vaswani
et al. 2017), with later variants (pre-norm, rotary positions, other activations) as options. This file works on ids,
not on text, and contains no losses and no training.

| here | paper |
|---|---|
| d_model, d_ff, num_heads, head_dim | d_model, d_ff, h, d_k = d_v |
| num_encoder_layers, num_decoder_layers | N |
| memory | the encoder's output, from which the decoder's cross-attention takes keys and values |
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.heads import HeadConfig, check_kind
from regard.models.transformer.config import TransformerConfig
from regard.nn import masks
from regard.nn.blocks import Block, BlockCache, Residual
from regard.nn.hooks import HookPoint
from regard.nn.init import new_parameter, weights_are_empty
from regard.nn.layers import Dropout, FeedForward, make_norm
from regard.nn.masks import AttentionMask
from regard.nn.multihead import MultiHeadAttention
from regard.nn.positions import RotaryPositions, make_positions


class Transformer(nn.Module):
    """An encoder-decoder: source and target ids → logits. `encode` and `decode` run its two halves."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        rotary = RotaryPositions(config.head_dim) if config.positions == "rotary" else None
        self.source_embedding = TransformerEmbedding(config, config.source_vocab_size or config.vocab_size)
        self.encoder = nn.ModuleList(
            make_block(config, f"encoder.{i}", rotary) for i in range(config.num_encoder_layers)
        )
        self.encoder_norm = _final_norm(config)
        self.target_embedding = TransformerEmbedding(config, config.vocab_size)
        if config.source_vocab_size is None:
            self.target_embedding.weight = self.source_embedding.weight
        self.decoder = nn.ModuleList(
            make_block(config, f"decoder.{i}", rotary, cross=True) for i in range(config.num_decoder_layers)
        )
        self.decoder_norm = _final_norm(config)
        if not config.tie_embeddings:
            self.output = new_parameter(config.vocab_size, config.d_model)
        self.output_bias = nn.Parameter(torch.zeros(config.vocab_size)) if config.output_bias else None
        initialize(self)

    @property
    def output_weight(self) -> Tensor:
        """The matrix that turns hidden states into logits: (V, D)."""
        return self.target_embedding.weight if self.config.tie_embeddings else self.output

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_mask: AttentionMask | None = None,
        *,
        attention_mask: Tensor | None = None,
    ) -> Tensor:
        """source ids (B, S) and target ids (B, T) → logits of the token after each target id: (B, T, V).

        To mask padding in the source, give `source_mask` or `attention_mask` (B, S), as in Hugging Face: 1 for a token,
        0 for padding.
        """
        mask = source_mask or masks.no_mask()
        if attention_mask is not None:
            mask = mask & masks.padding(attention_mask)
        return self.logits(self.decode(target, self.encode(source, mask), mask))

    def encode(self, source: Tensor, source_mask: AttentionMask) -> Tensor:
        """source ids (B, S) → memory (B, S, D)."""
        mask = source_mask.materialize(source.shape[1], source.shape[1], source.device)
        x = self.source_embedding(source)
        for block in self.encoder:
            x = block(x, mask)
        out: Tensor = self.encoder_norm(x)
        return out

    def decode(
        self,
        target: Tensor,
        memory: Tensor | None = None,
        memory_mask: AttentionMask | None = None,
        *,
        caches: Sequence[BlockCache] | None = None,
    ) -> Tensor:
        """target ids (B, T) → hidden states (B, T, D); position t attends to targets up to t and to the memory.

        With `caches`, `target` contains only the new tokens, and only the first call needs the memory.
        """
        start = caches[0].self_attention.length if caches else 0
        x = self.target_embedding(target, start)
        memory_mask = memory_mask or masks.no_mask()
        if memory is not None:
            memory_mask = memory_mask.materialize(target.shape[1], memory.shape[1], target.device)
        for i, block in enumerate(self.decoder):
            cache = caches[i] if caches else None
            x = block(x, masks.causal(), memory=memory, memory_mask=memory_mask, cache=cache)
        out: Tensor = self.decoder_norm(x)
        return out

    def logits(self, hidden: Tensor) -> Tensor:
        """hidden states (B, T, D) → logits (B, T, V)."""
        return F.linear(hidden, self.output_weight, self.output_bias)

    def new_caches(self) -> list[BlockCache]:
        """Return empty key-value caches, one per block of the decoder."""
        return [BlockCache() for _ in self.decoder]


class TransformerEmbedding(nn.Module):
    """The embedding layer: ids → vectors, plus position encodings."""

    def __init__(self, config: TransformerConfig, vocab_size: int) -> None:
        super().__init__()
        self.weight = new_parameter(vocab_size, config.d_model)
        self.factor = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
        self.positions = make_positions(
            config.positions, config.d_model, layout=config.position_layout, max_positions=config.max_positions
        )
        self.norm = make_norm(config.norm, config.d_model, bias=config.bias) if config.embedding_norm else nn.Identity()
        self.dropout = Dropout(config.dropout)
        self.hook = HookPoint()

    def forward(self, ids: Tensor, start: int = 0) -> Tensor:
        x = F.embedding(ids, self.weight) * self.factor  # (B, T, D)
        out: Tensor = self.hook(self.dropout(self.norm(self.positions(x, start))))
        return out


def make_block(
    config: TransformerConfig, address: str, rotary: RotaryPositions | None, *, cross: bool = False
) -> Block:
    def attention(kind: str) -> MultiHeadAttention:
        return MultiHeadAttention(
            config.d_model,
            num_heads=config.num_heads_by_layer.get(f"{address}.{kind}", config.num_heads),
            head_dim=config.head_dim,
            cross=kind == "cross",
            bias=config.bias,
            rotary=rotary if kind == "self" else None,
            qk_norm=config.qk_norm,
            dropout=config.attention_dropout,
        )

    return Block(
        self_attention=attention("self"),
        cross_attention=attention("cross") if cross else None,
        feed_forward=FeedForward(
            config.d_model,
            d_ff=config.d_ff,
            activation=config.activation,
            bias=config.bias,
            dropout=config.activation_dropout,
        ),
        make_residual=lambda: Residual(
            make_norm(config.norm, config.d_model, bias=config.bias),
            placement=config.norm_placement,
            dropout=config.dropout,
        ),
    )


def _final_norm(config: TransformerConfig) -> nn.Module:
    return make_norm(config.norm, config.d_model, bias=config.bias) if config.final_norm else nn.Identity()


def build(config: TransformerConfig, head: HeadConfig | None = None) -> Transformer:
    """Build a Transformer with new weights. Its only head is the output matrix."""
    check_kind(head, ("none",), "transformer")
    return Transformer(config)


def initialize(model: Transformer) -> None:
    """Initialize matrices Glorot-uniform, as in 2017. With pre-norm, output projections of sublayers start at zero.

    Zero projections make every block initially the identity, which speeds up training. A post-norm model would not
    learn from zero projections. If a norm follows the embeddings, their scale does not matter, and small values keep
    the initial logits small.
    """
    if weights_are_empty():
        return
    config = model.config
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        if isinstance(module, TransformerEmbedding):
            nn.init.normal_(module.weight, std=0.02 if config.embedding_norm else config.d_model**-0.5)
    if not config.tie_embeddings:
        nn.init.normal_(model.output, std=config.d_model**-0.5)
    if config.norm_placement == "pre":
        for module in model.modules():
            if isinstance(module, MultiHeadAttention):
                nn.init.zeros_(module.out_proj.weight)
            elif isinstance(module, FeedForward):
                nn.init.zeros_(module.down_proj.weight)
