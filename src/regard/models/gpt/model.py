"""GPT: a decoder-only Transformer that predicts the next token at every position.

The options cover GPT-2 (Radford et al. 2019) and later models: learned or rotary positions, LayerNorm or RMSNorm,
normalized queries and keys, GELU, squared ReLU or SwiGLU, grouped-query attention, tied or separate output matrix.
This file works on ids, not on text, and contains no losses and no training.

| here | GPT-2 | Llama | shape |
|---|---|---|---|
| embedding.weight | wte | embed_tokens | (V, D) |
| embedding.positions.weight | wpe | – | (context_length, D) |
| decoder.i.self_attention.qkv_proj | c_attn | q_proj, k_proj, v_proj | (H · Dh + 2 · Hkv · Dh, D) |
| decoder.i.self_attention.out_proj | attn.c_proj | o_proj | (D, H · Dh) |
| decoder.i.feed_forward.up_proj | mlp.c_fc | gate_proj, up_proj | (d_ff, D) |
| decoder.i.feed_forward.down_proj | mlp.c_proj | down_proj | (D, d_ff) |
| output | – (wte) | lm_head | (V, D) |
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.gpt.config import GPTConfig
from regard.models.heads import HeadConfig, check_kind
from regard.nn import masks
from regard.nn.blocks import Block, BlockCache, Residual
from regard.nn.hooks import HookPoint
from regard.nn.init import new_parameter, weights_are_empty
from regard.nn.layers import Dropout, FeedForward, make_norm
from regard.nn.masks import AttentionMask
from regard.nn.multihead import MultiHeadAttention
from regard.nn.positions import LearnedPositions, RotaryPositions, make_positions

GPT2_STD = 0.02


class GPT(nn.Module):
    """A decoder-only Transformer: ids → logits of the next token."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        self.mask: AttentionMask = masks.causal()  # experiments may replace it
        rotary = None
        if config.positions == "rotary":
            rotary = RotaryPositions(config.head_dim, theta=config.rope_theta, scaling=config.rope_scaling)
        self.embedding = GPTEmbedding(config)
        self.decoder = nn.ModuleList(make_block(config, f"decoder.{i}", rotary) for i in range(config.num_layers))
        self.norm = _norm(config)
        if not config.tie_embeddings:
            self.output = new_parameter(config.vocab_size, config.d_model)
        initialize(self)

    @property
    def output_weight(self) -> Tensor:
        """The matrix that turns hidden states into logits: (V, D)."""
        return self.embedding.weight if self.config.tie_embeddings else self.output

    def forward(self, ids: Tensor, *, attention_mask: Tensor | None = None) -> Tensor:
        """ids (B, T) → logits of the token after each id: (B, T, V).

        `attention_mask` (B, T) is as in Hugging Face: 1 for a token, 0 for padding. In a row that begins with padding,
        positions are counted from the first token.
        """
        if attention_mask is None:
            return self.logits(self.decode(ids))
        padding = attention_mask.bool().int().argmax(dim=1)
        return self.logits(self.decode(ids, padding=padding, mask=masks.padding(attention_mask)))

    def decode(
        self,
        ids: Tensor,
        *,
        caches: Sequence[BlockCache] | None = None,
        padding: Tensor | None = None,
        mask: AttentionMask | None = None,
    ) -> Tensor:
        """ids (B, T) → hidden states (B, T, D); position t attends to ids up to t that `mask` allows.

        With `caches`, `ids` contains only the new ids. Row b begins with `padding[b]` padding ids.
        """
        past = caches[0].self_attention.length if caches else 0
        x = self.embedding(ids, past, padding)
        mask = self.mask if mask is None else self.mask & mask
        if padding is not None:
            mask = mask & masks.starts(padding)
        mask = mask.materialize(ids.shape[1], past + ids.shape[1], ids.device)
        for i, block in enumerate(self.decoder):
            x = block(x, mask, cache=caches[i] if caches else None, padding=padding)
        out: Tensor = self.norm(x)
        return out

    def logits(self, hidden: Tensor) -> Tensor:
        """hidden states (…, D) → logits (…, V)."""
        logits = F.linear(hidden, self.output_weight)
        cap = self.config.logit_softcap
        return logits if cap is None else cap * torch.tanh(logits / cap)

    def new_caches(self) -> list[BlockCache]:
        """Return empty key-value caches, one per block."""
        return [BlockCache() for _ in self.decoder]


class GPTEmbedding(nn.Module):
    """The embedding layer: ids → vectors, plus learned position embeddings if the model has them."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.weight = new_parameter(config.vocab_size, config.d_model)
        self.positions = make_positions(
            config.positions, config.d_model, layout="interleaved", max_positions=config.context_length
        )
        self.norm = _norm(config) if config.embedding_norm else nn.Identity()
        self.dropout = Dropout(config.dropout)
        self.hook = HookPoint()

    def forward(self, ids: Tensor, start: int = 0, padding: Tensor | None = None) -> Tensor:
        x = F.embedding(ids, self.weight)  # (B, T, D)
        out: Tensor = self.hook(self.dropout(self.norm(self.positions(x, start, padding))))
        return out


def make_block(config: GPTConfig, address: str, rotary: RotaryPositions | None) -> Block:
    return Block(
        self_attention=MultiHeadAttention(
            config.d_model,
            num_heads=config.num_heads_by_layer.get(f"{address}.self", config.num_heads),
            head_dim=config.head_dim,
            num_kv_heads=config.num_kv_heads,
            bias=config.bias,
            rotary=rotary,
            qk_norm=config.qk_norm,
            qk_scale=config.norm_affine,
            eps=config.norm_eps,
        ),
        feed_forward=FeedForward(config.d_model, d_ff=config.d_ff, activation=config.activation, bias=config.bias),
        make_residual=lambda: Residual(_norm(config), placement="pre", dropout=config.dropout),
    )


def _norm(config: GPTConfig) -> nn.Module:
    return make_norm(
        config.norm, config.d_model, elementwise_affine=config.norm_affine, bias=config.bias, eps=config.norm_eps
    )


def build(config: GPTConfig, head: HeadConfig | None = None) -> GPT:
    """Build a GPT with new weights. Its only head is the output matrix."""
    check_kind(head, ("none",), "gpt")
    return GPT(config)


def initialize(model: GPT) -> None:
    """Initialize all weights according to `config.init`.

    `zero-residual`: normal with standard deviation 1/√inputs. The output projection of each sublayer starts at zero, so
    every block is initially the identity. A separate output matrix also starts at zero, so all tokens are initially
    equally likely.

    `gpt2`: normal with standard deviation 0.02; the output projection of each sublayer is scaled by 1/√(2 · num_layers)
    (Radford et al. 2019).
    """
    if weights_are_empty():
        return
    for module in model.modules():
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
    if model.config.init == "gpt2":
        _initialize_like_gpt2(model)
    else:
        _initialize_residuals_at_zero(model)


def _initialize_residuals_at_zero(model: GPT) -> None:
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=module.in_features**-0.5)
    for projection in _residual_projections(model):
        nn.init.zeros_(projection.weight)
    tied = model.config.tie_embeddings
    nn.init.normal_(model.embedding.weight, std=0.02 if tied else 1.0)
    if not tied:
        nn.init.zeros_(model.output)


def _initialize_like_gpt2(model: GPT) -> None:
    for module in model.modules():
        if isinstance(module, nn.Linear | GPTEmbedding | LearnedPositions):
            nn.init.normal_(module.weight, std=GPT2_STD)
    for projection in _residual_projections(model):
        nn.init.normal_(projection.weight, std=GPT2_STD / (2 * model.config.num_layers) ** 0.5)
    if not model.config.tie_embeddings:
        nn.init.normal_(model.output, std=GPT2_STD)


def _residual_projections(model: GPT) -> list[nn.Linear]:
    """Return the output projection of each sublayer, which writes to the residual stream."""
    parts = [module for module in model.modules() if isinstance(module, MultiHeadAttention | FeedForward)]
    return [part.out_proj if isinstance(part, MultiHeadAttention) else part.down_proj for part in parts]
