"""Attention over short rows, as it is learned on a CPU: with plain products, forwards and backwards.

torch's fused kernel never holds the weights in memory and computes them a second time on the way back. That pays where
rows are long. Sentences are not: below about a hundred tokens the weights are few, and keeping them is faster.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

LONGEST = 96  # tokens


def is_short(q: Tensor, k: Tensor) -> bool:
    """Whether rows on a CPU are short enough; each head must have keys of its own."""
    return q.device.type == "cpu" and q.shape[1] == k.shape[1] and max(q.shape[-2], k.shape[-2]) <= LONGEST


def attend_shortly(q: Tensor, k: Tensor, v: Tensor, kept: Tensor | None, scale: float) -> Tensor:
    """The values (B, H, S, Dv), averaged by the weights of the queries (B, H, T, Dh) for the keys: (B, H, T, Dv).

    `kept` is true where a query may see a key, in a shape that goes with (B, H, T, S); None lets all see all.
    """
    out: Tensor = _Short.apply(q, k, v, kept, scale)  # type: ignore[no-untyped-call]
    return out


class _Short(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, kept: Tensor | None, scale: float) -> Tensor:
        batch, heads, queries, _ = q.shape
        q3, k3, v3 = (q * scale).flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1)  # all heads of all rows side by side
        weights = torch.bmm(q3, k3.mT)
        if kept is not None:
            weights.view(batch, heads, *weights.shape[1:]).masked_fill_(~kept, float("-inf"))
        weights = weights.softmax(dim=-1)
        if kept is not None:  # softmax over nothing is NaN: a query that may see nothing gets zeros
            weights.view(batch, heads, *weights.shape[1:]).masked_fill_(~kept, 0.0)
        ctx.save_for_backward(q3, k3, v3, weights)
        ctx.scale, ctx.shape = scale, (batch, heads)
        return torch.bmm(weights, v3).view(batch, heads, queries, -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        q3, k3, v3, weights = ctx.saved_tensors
        g3 = gradient.flatten(0, 1)
        of_weights = torch.bmm(g3, v3.mT)
        # Through the softmax: what a weight gains, less what its row gains on average.
        of_scores = (of_weights - (of_weights * weights).sum(dim=-1, keepdim=True)).mul_(weights)
        found = torch.bmm(of_scores, k3).mul_(ctx.scale), torch.bmm(of_scores.mT, q3), torch.bmm(weights.mT, g3)
        return *(x.view(*ctx.shape, *x.shape[1:]) for x in found), None, None
