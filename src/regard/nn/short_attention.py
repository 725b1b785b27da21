"""Attention over short sequences in training on a CPU: plain matrix products, forward and backward.

torch's fused kernel never stores the weights and computes them a second time in the backward pass. That pays for long
sequences. Below about a hundred tokens, storing the weights is faster.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

LONGEST = 96  # tokens


def is_short(q: Tensor, k: Tensor) -> bool:
    """Whether sequences on a CPU are short enough; each head must have its own keys."""
    return q.device.type == "cpu" and q.shape[1] == k.shape[1] and max(q.shape[-2], k.shape[-2]) <= LONGEST


def short_attention(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None, scale: float) -> Tensor:
    """The values (B, H, S, Dv), averaged by the weights of the queries (B, H, T, Dh) for the keys: (B, H, T, Dv).

    `allowed` is true where a query may attend to a key, broadcastable to (B, H, T, S); None allows all.
    """
    out: Tensor = _ShortAttention.apply(q, k, v, allowed, scale)  # type: ignore[no-untyped-call]
    return out


class _ShortAttention(torch.autograd.Function):
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
