"""Attention: softmax(Q Kᵀ / √Dh) V, as two functions, and the scorers that can replace the scaled dot product.

| here | paper | shape |
|---|---|---|
| q, k, v | Q, K, V | (B, H, T or S, Dh) |
| weights | A, α | (B, H, T, S), rows sum to 1 |

Models call `attention`, which uses the fused kernel. `attention_weights` computes the weights themselves.

A scorer computes how well a query matches a key: q (B, H, T, Dq), k (B, H, S, Dk) → scores (B, H, T, S).
`MultiHeadAttention` takes any scorer as `scorer`; all heads share the scorer's weights. Only `ScaledDotProduct` is
fused.

| class | paper | score |
|---|---|---|
| ScaledDotProduct() | Vaswani et al. 2017 | q · k / √Dh |
| ScaledDotProduct(scale=1.0) | Luong et al. 2015, *dot* | q · k |
| General | Luong et al. 2015, *general* | qᵀ W k |
| Additive | Bahdanau et al. 2014 | v · tanh(W_q q + W_k k) |
| Additive | Luong et al. 2015, *concat* | v · tanh(W [q; k]), the same with W = [W_q W_k] |
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from regard.nn.init import Linear
from regard.nn.layers import dropout as apply_dropout
from regard.nn.masks import AttentionMask
from regard.utils.errors import UsageError

NO_MASK: Final = AttentionMask()
SHORT = 96  # tokens up to which training on a CPU uses `ShortAttention`


class Scorer(Protocol):
    """Computes a score for every pair of query and key."""

    def __call__(self, q: Tensor, k: Tensor, /) -> Tensor: ...


@dataclass(frozen=True)
class ScaledDotProduct:
    """q · k / √Dh; `scale` replaces 1/√Dh."""

    scale: float | None = None

    def factor(self, head_dim: int) -> float:
        return 1 / math.sqrt(head_dim) if self.scale is None else self.scale

    def __call__(self, q: Tensor, k: Tensor) -> Tensor:
        return (q * self.factor(q.shape[-1])) @ k.transpose(-2, -1)


class Additive(nn.Module):
    """v · tanh(W_q q + W_k k), without biases; q and k may differ in size."""

    def __init__(self, query_dim: int, key_dim: int, *, hidden_dim: int) -> None:
        super().__init__()
        self.q_proj = Linear(query_dim, hidden_dim, bias=False)
        self.k_proj = Linear(key_dim, hidden_dim, bias=False)
        self.v = Linear(hidden_dim, 1, bias=False)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        joined = self.q_proj(q)[..., :, None, :] + self.k_proj(k)[..., None, :, :]  # (B, H, T, S, hidden_dim)
        scores: Tensor = self.v(torch.tanh(joined)).squeeze(-1)
        return scores


class General(nn.Module):
    """qᵀ W k."""

    def __init__(self, query_dim: int, key_dim: int) -> None:
        super().__init__()
        self.k_proj = Linear(key_dim, query_dim, bias=False)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        keys: Tensor = self.k_proj(k)
        return q @ keys.transpose(-2, -1)


def attention_weights(q: Tensor, k: Tensor, mask: AttentionMask = NO_MASK, *, scorer: Scorer | None = None) -> Tensor:
    """Return the attention weights of each query over the keys: (B, H, T, S); each row sums to 1.

    A masked key gets exactly 0. A query that may attend to nothing gets a row of zeros.
    """
    scores = (scorer or ScaledDotProduct())(q, repeat_kv(k, q.shape[1]))  # (B, H, T, S)
    if mask.is_unmasked:
        return scores.softmax(dim=-1)
    allowed = mask.dense(q.shape[-2], k.shape[-2], q.device)  # broadcastable to (B, H, T, S)
    weights = scores.masked_fill(~allowed, float("-inf")).softmax(dim=-1)
    return weights.masked_fill(~allowed, 0.0)  # a fully masked row is NaN after the softmax; make it zeros


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: AttentionMask = NO_MASK,
    *,
    scorer: Scorer | None = None,
    dropout: float = 0.0,
    training: bool = False,
) -> Tensor:
    """Return the mean of the values, weighted by the attention weights: (B, H, T, Dv).

    `dropout` is the fraction of weights set to zero. Without dropout, the scaled dot product runs in torch's fused
    kernel, which never stores the weights. With `training`, short sequences on a CPU use `ShortAttention` instead.
    """
    if k.shape[-2] != v.shape[-2]:
        shapes = tuple(k.shape), tuple(v.shape)
        message = f"K has shape {shapes[0]} and V has shape {shapes[1]}. Give one value for each key."
        raise UsageError(message, argument="v", value=shapes)
    scorer = scorer or ScaledDotProduct()
    if dropout or not isinstance(scorer, ScaledDotProduct):
        weights = attention_weights(q, k, mask, scorer=scorer)
        return apply_dropout(weights, dropout) @ repeat_kv(v, q.shape[1])
    queries, keys, grouped = q.shape[-2], k.shape[-2], q.shape[1] != k.shape[1]
    scale = scorer.factor(q.shape[-1])
    is_unmasked = mask.is_unmasked or (mask.is_only_causal and queries == 1)
    is_causal = mask.is_only_causal and queries == keys and not is_unmasked
    # The kernel returns zeros for a fully masked query.
    allowed = None if is_unmasked or is_causal else mask.dense(queries, keys, q.device)
    is_short = q.device.type == "cpu" and max(queries, keys) <= SHORT
    if training and is_short and not grouped and not mask.is_only_causal:
        return ShortAttention.apply(q, k, v, allowed, scale)  # type: ignore[no-any-return, no-untyped-call]
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=allowed, is_causal=is_causal, scale=scale, enable_gqa=grouped
    )


def repeat_kv(x: Tensor, num_heads: int) -> Tensor:
    """Repeat shared key-value heads so that each query head has its own: (B, Hkv, S, Dh) → (B, H, S, Dh)."""
    return x if x.shape[1] in (1, num_heads) else x.repeat_interleave(num_heads // x.shape[1], dim=1)


class ShortAttention(torch.autograd.Function):
    """Attention in plain matrix products that stores its weights for the backward pass.

    torch's fused kernel recomputes the weights in the backward pass, which is faster only for long sequences. `allowed`
    is the dense mask; None means no mask.
    """

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None, scale: float) -> Tensor:
        batch, heads, queries, _ = q.shape
        q3, k3, v3 = (q * scale).flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1)  # (B · H, T or S, Dh)
        weights = torch.bmm(q3, k3.mT)  # (B · H, T, S)
        if allowed is not None:
            weights.view(batch, heads, *weights.shape[1:]).masked_fill_(~allowed, float("-inf"))
        weights = weights.softmax(dim=-1)
        if allowed is not None:  # a fully masked row is NaN after the softmax; make it zeros
            weights.view(batch, heads, *weights.shape[1:]).masked_fill_(~allowed, 0.0)
        ctx.save_for_backward(q3, k3, v3, weights)
        ctx.scale, ctx.shape = scale, (batch, heads)
        return torch.bmm(weights, v3).view(batch, heads, queries, -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        q3, k3, v3, weights = ctx.saved_tensors
        g3 = gradient.flatten(0, 1)
        grad_weights = torch.bmm(g3, v3.mT)
        # Through the softmax: the gradient of a weight minus the mean gradient of its row.
        grad_scores = (grad_weights - (grad_weights * weights).sum(dim=-1, keepdim=True)).mul_(weights)
        gradients = torch.bmm(grad_scores, k3).mul_(ctx.scale), torch.bmm(grad_scores.mT, q3), torch.bmm(weights.mT, g3)
        return *(x.view(*ctx.shape, *x.shape[1:]) for x in gradients), None, None
