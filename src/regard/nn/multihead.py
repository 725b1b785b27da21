"""Multi-head attention: several heads in parallel, combined by W^O, with a key-value cache.

| here | paper | shape |
|---|---|---|
| query, key and value parts of qkv_proj (self) or q_proj and kv_proj (cross) | W^Q, W^K, W^V | (D, H · Dh) |
| out_proj | W^O | (H · Dh, D) |

The module `hooks` can read and change the attention weights.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.nn.attention import NO_MASK, ScaledDotProduct, Scorer, attention, repeat_kv
from regard.nn.hooks import AttentionHook, HookPoint
from regard.nn.init import Linear
from regard.nn.layers import RMSNorm
from regard.nn.masks import AttentionMask
from regard.nn.positions import RotaryPositions
from regard.utils.errors import UsageError


class KVCache:
    """The keys and values of one attention layer: (B, H, length, Dh), with spare capacity."""

    def __init__(self) -> None:
        self.length = 0
        self._pair: tuple[Tensor, ...] = ()  # keys and values; nothing before the first `append`

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Append new keys and values; return all keys and values."""
        start, end = self.length, self.length + k.shape[2]
        pair = self._pair or (k[:, :, :0], v[:, :, :0])
        self._pair = tuple(_with_capacity(x, start, end) for x in pair)
        for x, new in zip(self._pair, (k, v), strict=True):
            x[:, :, start:end] = new
        self.length = end
        return self.read()

    def read(self) -> tuple[Tensor, Tensor]:
        if not self._pair:
            raise UsageError("this cache is empty. Run a forward pass with it first.", argument="cache")
        keys, values = self._pair
        return keys[:, :, : self.length], values[:, :, : self.length]

    def truncate(self, length: int) -> None:
        """Drop all but the first `length` positions."""
        self.length = min(self.length, length)

    def drop_first(self, count: int) -> None:
        """Drop the first `count` positions."""
        self._pair = tuple(x[:, :, count:] for x in self._pair)
        self.length = max(0, self.length - count)

    def refill(self, rows: Tensor, other: KVCache) -> None:
        """Overwrite the end of these rows with the content of `other`; their earlier positions become padding."""
        for x, new in zip(self._pair, other._pair, strict=False):  # `other` may be empty
            x[rows, :, self.length - other.length : self.length] = new[:, :, : other.length]

    def reorder(self, rows: Tensor) -> None:
        """Select rows of the batch, as beam search does to continue its best hypotheses."""
        self._pair = tuple(x.index_select(0, rows) for x in self._pair)


def _with_capacity(x: Tensor, length: int, end: int) -> Tensor:
    """Return `x` with capacity for `end` positions, `length` of them in use. It doubles, so that copies are rare."""
    if x.shape[2] >= end:
        return x
    larger = x.new_empty(*x.shape[:2], max(end, 2 * length), x.shape[3])
    larger[:, :, :length] = x[:, :, :length]
    return larger


class MultiHeadAttention(nn.Module):
    """Self-attention, or cross-attention over a `memory`.

    num_heads × head_dim may differ from d_model. If num_kv_heads < num_heads, this is grouped-query attention.
    """

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        head_dim: int,
        num_kv_heads: int | None = None,
        cross: bool = False,
        bias: bool = True,
        scorer: Scorer | None = None,  # scaled dot product if None; see `attention`
        rotary: RotaryPositions | None = None,
        qk_norm: bool = False,  # RMS-normalize queries and keys before scoring
        qk_scale: bool = False,  # multiply each dimension of normalized queries and keys by a learned factor
        eps: float = 1e-6,  # epsilon of qk_norm
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.num_heads, self.head_dim, self.dropout = num_heads, head_dim, dropout
        self.dropout_scale = 1.0  # factor on the dropout of weights, set by `set_dropout_scale`
        self.num_kv_heads = num_kv_heads or num_heads
        if self.num_heads % self.num_kv_heads:
            message = f"num_heads {num_heads} must be a multiple of num_kv_heads {num_kv_heads}."
            raise UsageError(message, argument="num_kv_heads", value=num_kv_heads)
        self.scorer: Scorer = scorer or ScaledDotProduct()
        self.rotary, self.cross = rotary, cross
        q_dim, kv_dim = num_heads * head_dim, self.num_kv_heads * head_dim
        # Projections of the same input share a matrix product: q, k, v of self-attention; k, v of cross-attention.
        if cross:
            self.q_proj = Linear(d_model, q_dim, bias=bias)
            self.kv_proj = Linear(d_model, 2 * kv_dim, bias=bias)
        else:
            self.qkv_proj = Linear(d_model, q_dim + 2 * kv_dim, bias=bias)
        self.norm = RMSNorm(head_dim, elementwise_affine=False, eps=eps) if qk_norm else None
        self.qk_scale = nn.Parameter(torch.ones(2, head_dim)) if qk_norm and qk_scale else None  # queries, keys
        self.out_proj = Linear(q_dim, d_model, bias=bias)
        self.input_hook, self.memory_hook = HookPoint(), HookPoint() if cross else None
        self.values_hook, self.attention_hook, self.heads_hook = HookPoint(), AttentionHook(), HookPoint()

    def forward(
        self,
        x: Tensor,
        mask: AttentionMask = NO_MASK,
        *,
        memory: Tensor | None = None,
        cache: KVCache | None = None,
        padding: Tensor | None = None,
        first: int | None = None,
    ) -> Tensor:
        """x (B, T, D) → (B, T, D). `memory` (B, S, D) is the input of the keys and values in cross-attention.

        Row b begins with `padding[b]` padding tokens; positions count from the token after them. With `first`, only
        the first `first` positions are queries, and the result is (B, first, D).
        """
        x = self.input_hook(x)
        q, k, v = self._cross(x, memory, cache) if self.cross else self._self(x, cache, padding)
        v = self.values_hook(v)
        if first is not None:
            q = q[:, :, :first]
        dropout = self.dropout * self.dropout_scale if self.training else 0.0
        weights = self.attention_hook(self.scorer, q, k, mask)
        if weights is None:  # no `edit` block replaced the weights
            heads = attention(q, k, v, mask, scorer=self.scorer, dropout=dropout, training=self.training)
        else:
            heads = weights @ repeat_kv(v, self.num_heads)
        heads = self.heads_hook(heads)  # (B, H, T, Dh)
        out: Tensor = self.out_proj(heads.transpose(1, 2).flatten(2))
        return out

    def _self(self, x: Tensor, cache: KVCache | None, padding: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        joint = self._split(self.qkv_proj(x))  # (B, H + 2 · Hkv, T, Dh)
        q_and_k, v = joint.tensor_split([self.num_heads + self.num_kv_heads], dim=1)
        q_and_k = self._normalize(q_and_k, (self.num_heads, self.num_kv_heads))
        if self.rotary is not None:
            q_and_k = self.rotary(q_and_k, cache.length if cache is not None else 0, padding)
        q, k = q_and_k.tensor_split([self.num_heads], dim=1)
        return q, *(cache.append(k, v) if cache is not None else (k, v))

    def _cross(self, x: Tensor, memory: Tensor | None, cache: KVCache | None) -> tuple[Tensor, Tensor, Tensor]:
        q = self._normalize(self._split(self.q_proj(x)), (self.num_heads, 0))
        if cache is not None and cache.length:
            return q, *cache.read()
        if memory is None:
            raise UsageError("cross-attention needs `memory`, or a cache that was filled from one.", argument="memory")
        k, v = self.read_memory(memory)
        return q, *(cache.append(k, v) if cache is not None else (k, v))

    def read_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return the keys and values of cross-attention, (B, H, S, Dh) each."""
        if self.memory_hook is not None:
            memory = self.memory_hook(memory)
        k, v = self._split(self.kv_proj(memory)).chunk(2, dim=1)
        return self._normalize(k, (0, self.num_kv_heads)), v

    def _split(self, x: Tensor) -> Tensor:
        """(B, T, H · Dh) → (B, H, T, Dh)."""
        return x.view(*x.shape[:2], -1, self.head_dim).transpose(1, 2)

    def _normalize(self, x: Tensor, counts: tuple[int, int]) -> Tensor:
        """RMS-normalize `counts[0]` query heads followed by `counts[1]` key heads, and scale them."""
        if self.norm is None:
            return x
        x = self.norm(x)
        if self.qk_scale is None:
            return x
        return x * torch.cat([scale.expand(n, -1) for scale, n in zip(self.qk_scale, counts, strict=True)])[:, None]
