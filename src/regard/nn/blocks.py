"""The block of every Transformer: attention and feed-forward, each with a residual connection and a norm.

Encoders and decoder-only models use self-attention; the decoder of an encoder-decoder also has cross-attention.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from regard.nn.attention import NO_MASK
from regard.nn.hooks import HookPoint
from regard.nn.layers import Dropout, FeedForward
from regard.nn.masks import AttentionMask
from regard.nn.multihead import KVCache, MultiHeadAttention


class Residual(nn.Module):
    """x + sublayer(norm(x)) for `pre`; norm(x + sublayer(x)) for `post`, as in 2017."""

    def __init__(self, norm: nn.Module, *, placement: str, dropout: float) -> None:
        super().__init__()
        self.norm, self.placement, self.dropout = norm, placement, Dropout(dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.placement == "pre":
            added: Tensor = self.dropout(sublayer(self.norm(x)))
            return x + added
        out: Tensor = self.norm(x + self.dropout(sublayer(x)))
        return out


class BlockCache:
    """The key-value caches of one block."""

    def __init__(self) -> None:
        self.self_attention = KVCache()
        self.cross_attention = KVCache()


class Block(nn.Module):
    """Self-attention, optional cross-attention and feed-forward, each with a residual connection."""

    def __init__(
        self,
        *,
        self_attention: MultiHeadAttention,
        feed_forward: FeedForward,
        make_residual: Callable[[], Residual],
        cross_attention: MultiHeadAttention | None = None,
    ) -> None:
        super().__init__()
        self.self_attention, self.self_residual = self_attention, make_residual()
        self.cross_attention = cross_attention
        self.cross_residual = make_residual() if cross_attention is not None else None
        self.feed_forward, self.feed_forward_residual = feed_forward, make_residual()
        self.feed_forward_hook, self.hook = HookPoint(), HookPoint()

    def forward(
        self,
        x: Tensor,
        mask: AttentionMask = NO_MASK,
        *,
        memory: Tensor | None = None,
        memory_mask: AttentionMask = NO_MASK,
        cache: BlockCache | None = None,
        padding: Tensor | None = None,
    ) -> Tensor:
        """x (B, T, D) → (B, T, D). The first `padding[b]` positions of row b are padding."""
        self_cache = cache.self_attention if cache is not None else None
        x = self.self_residual(x, lambda h: self.self_attention(h, mask, cache=self_cache, padding=padding))
        if self.cross_attention is not None and self.cross_residual is not None:
            attention, cross_cache = self.cross_attention, cache.cross_attention if cache is not None else None
            x = self.cross_residual(x, lambda h: attention(h, memory_mask, memory=memory, cache=cross_cache))
        x = self.feed_forward_residual(x, lambda h: self.feed_forward_hook(self.feed_forward(h)))
        out: Tensor = self.hook(x)
        return out

    def forward_at(self, places: Tensor, x: Tensor, mask: AttentionMask = NO_MASK) -> Tensor:
        """x (B, T, D) → the output at `places`, indices into the B·T positions: (P, D). For encoders; skips hooks."""
        here = self.self_residual(x, lambda x: self.self_attention(x, mask)).flatten(0, 1)[places]  # (P, D)
        out: Tensor = self.feed_forward_residual(here, self.feed_forward)
        return out

    def forward_first(self, x: Tensor, mask: AttentionMask = NO_MASK) -> Tensor:
        """x (B, T, D) → the output at the first position, (B, 1, D). For post-norm encoders; skips hooks."""
        here = self.self_residual(x[:, :1], lambda _: self.self_attention(x, mask, first=1))  # (B, 1, D)
        out: Tensor = self.feed_forward_residual(here, self.feed_forward)
        return out
