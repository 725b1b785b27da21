"""Fused linear cross-entropy over a large vocabulary: the full logits are never stored.

The logits are by far the largest tensor of a batch: tokens × vocabulary. This module computes them one slice at a time,
together with their gradients, so that a slice stays in the CPU cache.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

SLICE = 512  # rows of hidden states per slice: with 8,000 tokens in the vocabulary, 16 MB of logits


class _LinearCrossEntropy(torch.autograd.Function):
    """mean over rows of (1 - s) · -log p(target) + s · mean over the vocabulary of -log p.

    With e = exp(logits - maximum) and z its row sums, the softmax is e / z. Division, targets and smoothing are applied
    to vectors and to the gradients, so that e is written once and read only by the two matrix products. The mean logit
    of a row is the dot product of its hidden state and the mean of the weight rows.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        rows, vocabulary = len(hidden), len(weight)
        needs_grad = any(ctx.needs_input_grad[:3])
        nll = hidden.new_zeros(())  # sum of -log p(target)
        uniform_nll = hidden.new_zeros(())  # sum of the mean of -log p over the vocabulary
        mean_weight = weight.mean(dim=0)
        mean_bias = bias.mean() if bias is not None else None
        grad_hidden = torch.empty_like(hidden) if needs_grad else None
        # If the matrix is frozen, as with LoRA, the larger of the two products is skipped.
        grad_weight = torch.zeros_like(weight) if ctx.needs_input_grad[1] else None
        grad_bias = torch.zeros_like(bias) if needs_grad and bias is not None else None
        for start in range(0, rows, SLICE):
            part, target = hidden[start : start + SLICE], targets[start : start + SLICE]
            logits = F.linear(part, weight, bias)  # (slice, V)
            target_logit = logits.gather(-1, target[:, None]).squeeze(-1)  # (slice,)
            top = logits.amax(dim=-1, keepdim=True)
            e = logits.sub_(top).exp_()
            z = e.sum(dim=-1, keepdim=True)
            log_sum = (top + z.log()).squeeze(-1)
            nll += (log_sum - target_logit).sum()
            mean_logit = part @ mean_weight
            uniform_nll += (log_sum - (mean_logit if mean_bias is None else mean_logit + mean_bias)).sum()
            if grad_hidden is None:
                continue
            grad = torch.mm(e, weight, out=grad_hidden[start : start + SLICE])
            grad /= z
            grad.sub_(weight[target], alpha=1 - smoothing)
            grad.sub_(mean_weight, alpha=smoothing)
            if grad_weight is not None:
                grad_weight.addmm_(e.T, part / z)
            if grad_bias is not None:
                grad_bias.addmv_(e.T, z.squeeze(-1).reciprocal())
        if grad_weight is not None:
            grad_weight.index_add_(0, targets, hidden, alpha=smoothing - 1)
            grad_weight.sub_(hidden.sum(dim=0), alpha=smoothing / vocabulary)
        if grad_bias is not None:
            grad_bias.sub_(targets.bincount(minlength=vocabulary).to(grad_bias.dtype), alpha=1 - smoothing)
            grad_bias -= smoothing * rows / vocabulary
        ctx.rows = rows
        ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        loss, plain = ((1 - smoothing) * nll + smoothing * uniform_nll) / rows, nll / rows
        ctx.mark_non_differentiable(plain)
        return loss, plain

    @staticmethod
    def backward(ctx: Any, upstream: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        scale = upstream / ctx.rows
        hidden, weight, bias = ctx.saved_tensors
        return hidden * scale, *(None if part is None else part * scale for part in (weight, bias)), None, None


def linear_cross_entropy(
    hidden: Tensor, weight: Tensor, targets: Tensor, *, bias: Tensor | None = None, smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Return the label-smoothed loss for training and the plain cross-entropy for reports, both averaged over rows.

    hidden (rows, D), weight (V, D), targets (rows,), bias (V,).
    """
    smooth, plain = _LinearCrossEntropy.apply(hidden, weight, bias, targets, smoothing)  # type: ignore[no-untyped-call]
    return smooth, plain
