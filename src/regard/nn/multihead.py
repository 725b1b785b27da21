"""Multi-head attention: h attentions side by side, joined by W^O.

| here | paper | shape |
|---|---|---|
| query, key, value parts of the projections | W^Q, W^K, W^V | (D, H · Dh) |
| output | W^O | (H · Dh, D) |

It knows no model; who watches its weights is the business of `taps`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.errors import UsageError
from regard.nn.attention import EVERYTHING, attend, for_every_head
from regard.nn.cache import KVCache
from regard.nn.masks import Keep
from regard.nn.norms import RMSNorm
from regard.nn.positions import Rotary
from regard.nn.scoring import ScaledDot
from regard.nn.taps import AttentionTap, Tap


class MultiHeadAttention(nn.Module):
    """Self-attention, or cross-attention over a `memory`.

    The number of heads is free: heads × head_width need not equal the width. Fewer key-value heads than
    heads give grouped-query attention.
    """

    def __init__(
        self,
        width: int,
        *,
        heads: int,
        head_width: int,
        key_value_heads: int | None = None,
        cross: bool = False,
        bias: bool = True,
        rotary: Rotary | None = None,
        normalise: bool = False,  # RMS-normalise queries and keys, so that scores cannot run away
        gains: bool = False,  # and scale each of their dimensions by a learned factor
        epsilon: float = 1e-6,  # of that norm
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.heads, self.head_width, self.dropout = heads, head_width, dropout
        self.strength = 1.0  # of the dropout of weights; `regard.nn.dropout.set_strength` moves it
        self.key_value_heads = key_value_heads or heads
        if self.heads % self.key_value_heads:
            raise UsageError(f"{heads} heads cannot share {key_value_heads} key-value heads evenly.")
        self.rotary = rotary
        q_width, kv_width = heads * head_width, self.key_value_heads * head_width
        # One matrix product for what shares its input: q, k and v of self-attention, k and v of cross-attention.
        if cross:
            self.query = nn.Linear(width, q_width, bias=bias)
            self.key_value = nn.Linear(width, 2 * kv_width, bias=bias)
        else:
            self.query_key_value = nn.Linear(width, q_width + 2 * kv_width, bias=bias)
        self.cross = cross
        self.norm = RMSNorm(head_width, scale=False, epsilon=epsilon) if normalise else None
        self.gains = nn.Parameter(torch.ones(2, head_width)) if normalise and gains else None  # of queries, of keys
        self.output = nn.Linear(q_width, width, bias=bias)
        self.input_tap = Tap()
        self.memory_tap = Tap() if cross else None
        self.values_tap = Tap()
        self.attention_tap = AttentionTap()
        self.heads_tap = Tap()

    def forward(
        self,
        x: Tensor,
        keep: Keep = EVERYTHING,
        *,
        memory: Tensor | None = None,
        cache: KVCache | None = None,
        padding: Tensor | None = None,
        first: int | None = None,
    ) -> Tensor:
        """x (B, T, D) → (B, T, D). `memory` (B, S, D) is what cross-attention looks at.

        Where row b begins with `padding[b]` tokens that count for nothing, its positions begin after them. With
        `first` only so many positions ask, and (B, first, D) comes out; they see all the others.
        """
        x = self.input_tap(x)
        q, k, v = self._cross(x, memory, cache) if self.cross else self._self(x, cache, padding)
        v = self.values_tap(v)
        if first is not None:
            q = q[:, :, :first]
        scorer = ScaledDot()
        dropout = self.dropout * self.strength if self.training else 0.0
        weights = self.attention_tap(scorer, q, k, keep)
        # None means that nobody changes the weights, and whoever computes them may keep them to itself.
        if weights is None:
            heads = attend(q, k, v, keep, scorer=scorer, dropout=dropout, learns=self.training)
        else:
            heads = weights @ for_every_head(v, self.heads)
        heads = self.heads_tap(heads)  # (B, H, T, Dh)
        out: Tensor = self.output(heads.transpose(1, 2).flatten(2))
        return out

    def _self(self, x: Tensor, cache: KVCache | None, padding: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        batch, tokens, _ = x.shape
        joint = self.query_key_value(x).view(batch, tokens, -1, self.head_width).transpose(1, 2)
        q_and_k, v = joint.split([self.heads + self.key_value_heads, self.key_value_heads], dim=1)
        q_and_k = self._normalised(q_and_k, (self.heads, self.key_value_heads))
        if self.rotary is not None:
            q_and_k = self.rotary(q_and_k, cache.length if cache is not None else 0, padding)
        q, k = q_and_k.split([self.heads, self.key_value_heads], dim=1)
        if cache is not None:
            k, v = cache.append(k, v)
        return q, k, v

    def _cross(self, x: Tensor, memory: Tensor | None, cache: KVCache | None) -> tuple[Tensor, Tensor, Tensor]:
        q = self._split(self.query(x))
        if cache is not None and cache.length:
            return self._normalised(q, (self.heads, 0)), *cache.read()
        if memory is None:
            raise UsageError("cross-attention needs a memory to look at, or a cache that holds one.")
        k, v = self.read_memory(memory)
        if cache is not None:
            k, v = cache.append(k, v)
        return self._normalised(q, (self.heads, 0)), k, v

    def read_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """The keys and values of what cross-attention looks at, (B, H, S, Dh) each."""
        if self.memory_tap is not None:
            memory = self.memory_tap(memory)
        k, v = self._split(self.key_value(memory)).chunk(2, dim=1)
        return self._normalised(k, (0, self.key_value_heads)), v

    def _split(self, x: Tensor) -> Tensor:
        """(B, T, H · Dh) → (B, H, T, Dh)."""
        return x.view(*x.shape[:2], -1, self.head_width).transpose(1, 2)

    def _normalised(self, x: Tensor, counts: tuple[int, int]) -> Tensor:
        """Heads of queries and then of keys, so many of each, at root mean square 1 and scaled by their gains."""
        if self.norm is None:
            return x
        x = self.norm(x)
        if self.gains is None:
            return x
        return x * torch.cat([gain.expand(n, -1) for gain, n in zip(self.gains, counts, strict=True)])[:, None]
