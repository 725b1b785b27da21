"""The block of every Transformer: attention and feed-forward, each with a residual path and a norm around it.

One block serves encoders (self-attention), decoders of an encoder-decoder (self- and cross-attention) and
decoder-only models (self-attention with a causal keep): they differ in what they are given, not in what they are.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from regard.nn.attention import EVERYTHING
from regard.nn.cache import KVCache
from regard.nn.dropout import Dropout
from regard.nn.feed_forward import FeedForward
from regard.nn.masks import Keep
from regard.nn.multihead import MultiHeadAttention
from regard.nn.taps import Tap


class Residual(nn.Module):
    """x + sublayer(norm(x)) for `pre`; norm(x + sublayer(x)) for `post`, as in 2017."""

    def __init__(self, norm: nn.Module, *, placement: str, dropout: float) -> None:
        super().__init__()
        self.norm = norm
        self.placement = placement
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.placement == "pre":
            added: Tensor = self.dropout(sublayer(self.norm(x)))
            return x + added
        out: Tensor = self.norm(x + self.dropout(sublayer(x)))
        return out


class BlockCache:
    """What one block remembers while decoding."""

    def __init__(self) -> None:
        self.self_attention = KVCache()
        self.cross_attention = KVCache()


class Block(nn.Module):
    """Self-attention, cross-attention if there is one, feed-forward."""

    def __init__(
        self,
        *,
        self_attention: MultiHeadAttention,
        feed_forward: FeedForward,
        make_residual: Callable[[], Residual],
        cross_attention: MultiHeadAttention | None = None,
    ) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.self_residual = make_residual()
        self.cross_attention = cross_attention
        self.cross_residual = make_residual() if cross_attention is not None else None
        self.feed_forward = feed_forward
        self.feed_forward_residual = make_residual()
        self.feed_forward_tap = Tap()
        self.tap = Tap()

    def forward(
        self,
        x: Tensor,
        keep: Keep = EVERYTHING,
        *,
        memory: Tensor | None = None,
        memory_keep: Keep = EVERYTHING,
        cache: BlockCache | None = None,
        padding: Tensor | None = None,
    ) -> Tensor:
        """x (B, T, D) → (B, T, D). The first `padding[b]` positions of row b do not count."""
        self_cache = cache.self_attention if cache is not None else None
        x = self.self_residual(x, lambda h: self.self_attention(h, keep, cache=self_cache, padding=padding))
        if self.cross_attention is not None and self.cross_residual is not None:
            attention, cross_cache = (
                self.cross_attention,
                cache.cross_attention if cache is not None else None,
            )
            x = self.cross_residual(x, lambda h: attention(h, memory_keep, memory=memory, cache=cross_cache))
        x = self.feed_forward_residual(x, lambda h: self.feed_forward_tap(self.feed_forward(h)))
        out: Tensor = self.tap(x)
        return out

    def at(self, places: Tensor, x: Tensor, keep: Keep = EVERYTHING) -> Tensor:
        """x (B, T, D) → what leaves the block at some of the B·T places, (P, D); in encoders that nobody looks into."""
        here = self.self_residual(x, lambda x: self.self_attention(x, keep)).flatten(0, 1)[places]
        out: Tensor = self.feed_forward_residual(here, self.feed_forward)
        return out

    def at_first(self, x: Tensor, keep: Keep = EVERYTHING) -> Tensor:
        """x (B, T, D) → what leaves the block at the first position alone, (B, 1, D); for post-norm encoders.

        The other positions are looked at, but nobody asks what becomes of them.
        """
        here = self.self_residual(x[:, :1], lambda _: self.self_attention(x, keep, first=1))
        out: Tensor = self.feed_forward_residual(here, self.feed_forward)
        return out
