"""Compute the costs of a model from its config: parameters, memory and FLOPs. Does not import torch.

A multiply-add counts as two FLOPs. Training costs three times as much as a forward pass, because the backward pass
costs twice as much as the forward pass.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from regard.models.value_counts import ValueCounts
from regard.utils.errors import UsageError

BYTES = 4  # per fp32 element


@dataclass(frozen=True)
class Published:
    """A training run that was reported in a paper."""

    passes: int  # number of tokens, or of source–target token pairs
    described: str
    flops_per_second: float  # assumed speed of the machine, to estimate the training time
    machine: str = ""


@dataclass(frozen=True, kw_only=True)
class Costs:
    """The costs of one model. FLOPs are per `unit`."""

    vocab_size: int
    context_length: int | None  # None if unlimited
    by_part: dict[str, int]  # parameters of each part of the model
    values: ValueCounts
    activation_bytes: int  # estimate for a batch of `batch_tokens`, without logits
    batch_tokens: int
    cache_bytes_per_token: int | None  # KV cache; None for a model without one
    forward_flops: int
    unit: str = "a token"
    published: Published | None = None

    @property
    def parameters(self) -> int:
        return sum(self.by_part.values())

    @property
    def weight_bytes(self) -> int:
        return BYTES * self.parameters

    @property
    def training_bytes(self) -> int:
        """Memory for the weights, their gradients and the two moments of Adam."""
        return 4 * self.weight_bytes

    @property
    def training_flops(self) -> int:
        return 3 * self.forward_flops

    @property
    def published_flops(self) -> int | None:
        """Total FLOPs of the published training run; None if there is none."""
        return None if self.published is None else self.training_flops * self.published.passes

    def as_dict(self) -> dict[str, Any]:
        derived = ("parameters", "weight_bytes", "training_bytes", "training_flops", "published_flops")
        return {**asdict(self), **{name: getattr(self, name) for name in derived}, "values": self.values.as_dict()}

    def __str__(self) -> str:
        lines = [
            f"parameters              {self.parameters:>15,}",
            *(f"  {name:<22}{count:>15,}" for name, count in self.by_part.items()),
            f"weights in fp32         {size_text(self.weight_bytes):>15}",
            f"training, Adam          {size_text(self.training_bytes):>15}  weights, gradients, two moments",
            f"activations             {size_text(self.activation_bytes):>15}  "
            f"estimate for a batch of {self.batch_tokens:,} tokens",
        ]
        if self.cache_bytes_per_token is not None:
            full = self.cache_bytes_per_token * (self.context_length or 0)
            whole = f"; {size_text(full)} for a full context" if full else ""
            lines.append(f"key-value cache         {size_text(self.cache_bytes_per_token):>15}  per token{whole}")
        lines += [
            f"forward pass            {flops_text(self.forward_flops):>15}  for {self.unit}",
            f"training                {flops_text(self.training_flops):>15}  for {self.unit}",
        ]
        if self.published is not None and self.published_flops is not None:
            speed = self.published.flops_per_second
            lines.append(
                f"published training      {flops_text(self.published_flops):>15}  {self.published.described}; "
                f"{duration_text(self.published_flops / speed)} at {flops_text(speed)}/s{self.published.machine}. "
                "This training was not run here."
            )
        return "\n".join([*lines, str(self.values)])


def check_batch(batch_tokens: int) -> None:
    if batch_tokens < 1:
        raise UsageError(
            f"batch_tokens must be at least 1, got {batch_tokens}.", argument="batch_tokens", value=batch_tokens
        )


def linear_parameters(inputs: int, outputs: int, *, bias: bool) -> int:
    return inputs * outputs + (outputs if bias else 0)


def matrices(activation: str) -> int:
    """Return the number of matrices in a feed-forward layer: three if it is gated, otherwise two."""
    return 3 if activation == "swiglu" else 2


def present(parts: dict[str, int]) -> dict[str, int]:
    """Return the parts that have parameters."""
    return {part: count for part, count in parts.items() if count}


def duration_text(seconds: float) -> str:
    """Format a duration in the largest unit in which it is at least 2, or in minutes."""
    day = 86_400
    for unit, length in (("years", 365 * day), ("months", 365 * day / 12), ("days", day), ("hours", 3600)):
        if seconds >= 2 * length:
            return f"{seconds / length:.{0 if seconds >= 10 * length else 1}f} {unit}"
    return f"{seconds / 60:.0f} minutes"


def size_text(count: float) -> str:
    """Format a number of bytes with a unit, such as 1.2 GB."""
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def flops_text(count: float) -> str:
    """Format a number of FLOPs with a unit, such as 1.2 GFLOP."""
    for unit in ("", "K", "M", "G", "T", "P", "E"):
        if count < 1000:
            return f"{count:.3g} {unit}FLOP"
        count /= 1000
    return f"{count:,.0f} ZFLOP"
