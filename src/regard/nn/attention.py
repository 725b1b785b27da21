"""Attention: softmax(Q Kᵀ / √Dh) V, as two functions.

| here | paper | shape |
|---|---|---|
| q, k, v | Q, K, V | (B, H, T or S, Dh) |
| weights | A, α | (B, H, T, S), rows sum to 1 |

`attention_weights` is for those who want to see. Modules call `attend`, which takes the fastest way.
"""

from __future__ import annotations

from typing import Final

import torch.nn.functional as F
from torch import Tensor

from regard.errors import UsageError
from regard.nn import masks
from regard.nn.dropout import dropout as drop
from regard.nn.masks import Keep
from regard.nn.scoring import ScaledDot, Scorer
from regard.nn.short import attend_shortly, is_short

EVERYTHING: Final = masks.everything()


def attention_weights(q: Tensor, k: Tensor, keep: Keep = EVERYTHING, *, scorer: Scorer | None = None) -> Tensor:
    """How each query divides its attention over the keys: (B, H, T, S), each row summing to 1.

    A key that may not be attended to gets exactly 0. A query with nothing to attend to gets a row of zeros.
    """
    scores = (scorer or ScaledDot())(q, for_every_head(k, q.shape[1]))  # (B, H, T, S)
    if keep.is_everything:
        return scores.softmax(dim=-1)
    kept = keep.dense(q.shape[-2], k.shape[-2], q.device)
    weights = scores.masked_fill(~kept, float("-inf")).softmax(dim=-1)
    return weights.masked_fill(~kept, 0.0)  # softmax over nothing is NaN: those rows become zeros


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    keep: Keep = EVERYTHING,
    *,
    scorer: Scorer | None = None,
    dropout: float = 0.0,
    learns: bool = False,
) -> Tensor:
    """The values, averaged by the attention weights: (B, H, T, Dv).

    `dropout` is the share of weights set to zero, for training. Without it the scaled dot product runs in torch's
    fused kernel, and the weights never exist in memory. A training step `learns`, and keeps those of short rows: then
    the way back is faster (see `short`).
    """
    check_shapes(q, k, v)
    scorer = scorer or ScaledDot()
    if dropout or not isinstance(scorer, ScaledDot):
        weights = attention_weights(q, k, keep, scorer=scorer)
        return drop(weights, dropout) @ for_every_head(v, q.shape[1])
    queries, keys = q.shape[-2], k.shape[-2]
    scale = scorer.factor(q.shape[-1])
    grouped = q.shape[1] != k.shape[1]
    if learns and is_short(q, k) and not keep.is_only_causal:
        kept = None if keep.is_everything else keep.dense(queries, keys, q.device)
        return attend_shortly(q, k, v, kept, scale)
    if keep.is_everything or (keep.is_only_causal and queries == 1):
        return F.scaled_dot_product_attention(q, k, v, scale=scale, enable_gqa=grouped)
    if keep.is_only_causal and queries == keys:
        return F.scaled_dot_product_attention(q, k, v, scale=scale, is_causal=True, enable_gqa=grouped)
    kept = keep.dense(queries, keys, q.device)  # the kernel gives zeros to a query that may see nothing
    return F.scaled_dot_product_attention(q, k, v, attn_mask=kept, scale=scale, enable_gqa=grouped)


def for_every_head(x: Tensor, heads: int) -> Tensor:
    """Repeat shared key-value heads so that each of the query's heads has its own."""
    return x if x.shape[1] in (1, heads) else x.repeat_interleave(heads // x.shape[1], dim=1)


def check_shapes(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Say which of q, k and v do not fit together."""
    if k.shape[-2] != v.shape[-2]:
        raise UsageError(
            f"K and V must have the same number of rows, one value for each key: "
            f"K has shape {tuple(k.shape)}, V has shape {tuple(v.shape)}."
        )
