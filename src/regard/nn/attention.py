"""Attention: softmax(Q Kᵀ / √Dh) V, as two functions.

| here | paper | shape |
|---|---|---|
| q, k, v | Q, K, V | (B, H, T or S, Dh) |
| weights | A, α | (B, H, T, S), rows sum to 1 |

Models call `attention`, which uses the fused kernel. `attention_weights` computes the weights themselves.
"""

from __future__ import annotations

from typing import Final

import torch.nn.functional as F
from torch import Tensor

from regard.nn import masks
from regard.nn.dropout import dropout as apply_dropout
from regard.nn.masks import AttentionMask
from regard.nn.scoring import ScaledDotProduct, Scorer
from regard.nn.short_attention import is_short, short_attention
from regard.utils.errors import UsageError

NO_MASK: Final = masks.no_mask()


def attention_weights(q: Tensor, k: Tensor, mask: AttentionMask = NO_MASK, *, scorer: Scorer | None = None) -> Tensor:
    """The attention weights of each query over the keys: (B, H, T, S); each row sums to 1.

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
    """The values, averaged by the attention weights: (B, H, T, Dv).

    `dropout` is the fraction of weights set to zero. Without it, the scaled dot product runs in torch's fused kernel
    and the weights never exist in memory. With `training`, short sequences store their weights instead, which makes
    the backward pass faster (see `short_attention`).
    """
    check_shapes(q, k, v)
    scorer = scorer or ScaledDotProduct()
    if dropout or not isinstance(scorer, ScaledDotProduct):
        weights = attention_weights(q, k, mask, scorer=scorer)
        return apply_dropout(weights, dropout) @ repeat_kv(v, q.shape[1])
    queries, keys = q.shape[-2], k.shape[-2]
    scale = scorer.factor(q.shape[-1])
    grouped = q.shape[1] != k.shape[1]
    if training and is_short(q, k) and not mask.is_only_causal:
        allowed = None if mask.is_unmasked else mask.dense(queries, keys, q.device)
        return short_attention(q, k, v, allowed, scale)
    if mask.is_unmasked or (mask.is_only_causal and queries == 1):
        return F.scaled_dot_product_attention(q, k, v, scale=scale, enable_gqa=grouped)
    if mask.is_only_causal and queries == keys:
        return F.scaled_dot_product_attention(q, k, v, scale=scale, is_causal=True, enable_gqa=grouped)
    allowed = mask.dense(queries, keys, q.device)  # the kernel returns zeros for a fully masked query
    return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, scale=scale, enable_gqa=grouped)


def repeat_kv(x: Tensor, num_heads: int) -> Tensor:
    """Repeat shared key-value heads so that each query head has its own: (B, Hkv, S, Dh) → (B, H, S, Dh)."""
    return x if x.shape[1] in (1, num_heads) else x.repeat_interleave(num_heads // x.shape[1], dim=1)


def check_shapes(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Raise if K and V do not have one value for each key."""
    if k.shape[-2] != v.shape[-2]:
        raise UsageError(
            f"K and V must have the same number of rows, one value for each key: "
            f"K has shape {tuple(k.shape)}, V has shape {tuple(v.shape)}."
        )
