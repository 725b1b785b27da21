"""Cross-entropy over a large vocabulary, without keeping the logits.

The logits of a batch are its largest tensor by far: tokens × vocabulary. They are computed here a slice at a time,
together with their gradient, so that they stay in the processor's cache and are never read again.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

SLICE = 512  # rows of hidden states at a time: at 8,000 words a slice of logits is 16 MB


class _LinearCrossEntropy(torch.autograd.Function):
    """mean over rows of (1 - s) · -log p(target) + s · mean over the vocabulary of -log p."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        rows, vocabulary = len(hidden), len(weight)
        needs_grad = any(ctx.needs_input_grad[:3])
        smooth = hidden.new_zeros(())
        plain = hidden.new_zeros(())
        grad_hidden = torch.empty_like(hidden) if needs_grad else None
        grad_weight = torch.zeros_like(weight) if needs_grad else None
        grad_bias = torch.zeros_like(bias) if needs_grad and bias is not None else None
        for start in range(0, rows, SLICE):
            part, target = hidden[start : start + SLICE], targets[start : start + SLICE]
            logits = F.linear(part, weight, bias)
            log_sum = logits.logsumexp(dim=-1)
            miss = (log_sum - logits.gather(-1, target[:, None]).squeeze(-1)).sum()
            plain += miss
            smooth += (1 - smoothing) * miss
            if smoothing:
                smooth += smoothing * (log_sum - logits.mean(dim=-1)).sum()
            if grad_hidden is None or grad_weight is None:
                continue
            grad = logits.sub_(log_sum[:, None]).exp_()  # softmax - the smoothed target
            if smoothing:
                grad -= smoothing / vocabulary
            grad[torch.arange(len(target)), target] -= 1 - smoothing
            torch.mm(grad, weight, out=grad_hidden[start : start + SLICE])
            grad_weight.addmm_(grad.T, part)
            if grad_bias is not None:
                grad_bias += grad.sum(dim=0)
        ctx.rows = rows
        ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        smooth, plain = smooth / rows, plain / rows
        ctx.mark_non_differentiable(plain)
        return smooth, plain

    @staticmethod
    def backward(ctx: Any, upstream: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        scale = upstream / ctx.rows
        hidden, weight, bias = ctx.saved_tensors
        return hidden * scale, weight * scale, None if bias is None else bias * scale, None, None


def linear_cross_entropy(
    hidden: Tensor, weight: Tensor, targets: Tensor, *, bias: Tensor | None = None, smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """The smoothed loss to train on and the plain cross-entropy to report, both means over the rows.

    hidden (rows, D), weight (N, D), targets (rows,).
    """
    smooth, plain = _LinearCrossEntropy.apply(hidden, weight, bias, targets, smoothing)  # type: ignore[no-untyped-call]
    return smooth, plain
