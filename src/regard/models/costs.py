"""Compute the costs of a model from its config: parameters, memory and FLOPs. Does not import torch.

A multiply-add counts as two FLOPs. Training costs three times as much as a forward pass, because the backward pass
costs twice as much as the forward pass.

`ValueCounts` compares two ways to parameterize the OV matrix of a head: as one full matrix, and as the product of its
factors W^V and W^O. A head maps the vector of each token to a vector of the same size D. A full matrix would need D × D
parameters. Multi-head attention uses two factors instead: the head's part of W^V is D × Dh and its part of W^O is Dh ×
D. Their product is a D × D matrix with rank at most Dh.

| | one head, D = 768, Dh = 64 | 12 heads | 12 layers with 12 heads |
|---|---|---|---|
| full | 589,824 | 7,077,888 | 84,934,656 |
| factored | 98,304 | 1,179,648 | 14,155,776 |
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from regard.utils.errors import UsageError

BYTES = 4  # per fp32 element


@dataclass(frozen=True, kw_only=True)
class ValueCounts:
    """Parameter counts of all OV matrices, without biases. `num_heads` has one entry per attention layer."""

    d_model: int
    head_dim: int
    num_heads: tuple[int, ...]
    num_kv_heads: int | None = None  # with grouped-query attention: heads share parts of W^V, but not of W^O

    @property
    def full_head(self) -> int:
        """Parameters of a head with one full D × D matrix."""
        return self.d_model * self.d_model

    @property
    def factored_head(self) -> int:
        """Parameters of a head's parts of W^V and W^O."""
        return 2 * self.d_model * self.head_dim

    def full_layer(self, num_heads: int) -> int:
        return num_heads * self.full_head

    def factored_layer(self, num_heads: int) -> int:
        return (num_heads + (self.num_kv_heads or num_heads)) * self.d_model * self.head_dim

    @property
    def full(self) -> int:
        """Parameters of all heads in the model if each had a full matrix."""
        return sum(map(self.full_layer, self.num_heads))

    @property
    def factored(self) -> int:
        """Parameters of all heads in the model with the factors W^V and W^O, which regard uses."""
        return sum(map(self.factored_layer, self.num_heads))

    def as_dict(self) -> dict[str, Any]:
        full, factored = self.full_layer(self.num_heads[0]), self.factored_layer(self.num_heads[0])
        return {
            "full": {"head": self.full_head, "layer": full, "model": self.full},
            "factored": {"head": self.factored_head, "layer": factored, "model": self.factored},
        }

    def __str__(self) -> str:
        d_model, num_heads = f"{self.d_model:,}", self.num_heads[0]
        alike = len(set(self.num_heads)) == 1
        product = f"{len(self.num_heads)} × {num_heads} × {self.full_head:,}" if alike else "all heads"

        def row(name: str, *counts: Any) -> str:
            return f"{name:<24}{counts[0]:>15,}{counts[1]:>18,}{counts[2]:>22,}"

        return "\n".join(
            [
                f"{'values':<24}{'per head':>15}{'per layer':>18}{'whole model':>22}",
                row("  full matrices", self.full_head, self.full_layer(num_heads), self.full),
                row("  two factors", self.factored_head, self.factored_layer(num_heads), self.factored),
                f"  A full OV matrix of a head would be {d_model} × {d_model}: {product} = {spoken(self.full)}.",
                f"  Its two factors are {d_model} × {self.head_dim} (in W^V) and {self.head_dim} × {d_model} "
                f"(in W^O): {self.full / self.factored:.3g} times fewer parameters.",
            ]
        )


def counts_of(config: Any) -> ValueCounts:
    """Return the counts for the config of a model."""
    return ValueCounts(
        d_model=config.d_model,
        head_dim=config.head_dim,
        num_heads=tuple(config.num_heads_by_layer.get(address, config.num_heads) for address in config.attentions),
        num_kv_heads=getattr(config, "num_kv_heads", None),
    )


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

    def __post_init__(self) -> None:
        if (value := self.batch_tokens) < 1:
            raise UsageError(f"batch_tokens must be at least 1, got {value}.", argument="batch_tokens", value=value)

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
        """Total FLOPs of the published training run; None if no run was published."""
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


def linear_parameters(config: Any, inputs: int, outputs: int) -> int:
    """Count the parameters of a linear layer. A model has biases unless its config says otherwise."""
    return inputs * outputs + (outputs if getattr(config, "bias", True) else 0)


def attention_parameters(config: Any, address: str) -> int:
    """Count the parameters of W^Q, W^K, W^V and W^O of one attention layer."""
    num_heads = config.num_heads_by_layer.get(address, config.num_heads)
    qkv_heads = num_heads + 2 * (getattr(config, "num_kv_heads", None) or num_heads)
    return linear_parameters(config, config.d_model, qkv_heads * config.head_dim) + linear_parameters(
        config, num_heads * config.head_dim, config.d_model
    )


def feed_forward_parameters(config: Any) -> int:
    up = config.d_ff * (matrices(config.activation) - 1)
    return linear_parameters(config, config.d_model, up) + linear_parameters(config, config.d_ff, config.d_model)


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
    """Format a number of bytes: 1.2 GB."""
    return _scaled(count, "B", "KB", "MB", "GB", "TB")


def flops_text(count: float) -> str:
    """Format a number of FLOPs: 1.2 GFLOP."""
    return _scaled(count, *(f"{prefix}FLOP" for prefix in ("", "K", "M", "G", "T", "P", "E", "Z")))


def spoken(count: float) -> str:
    """Format a number in words: 84,934,656 → 84.9 million."""
    return _scaled(count, "", "thousand", "million", "billion", "trillion").rstrip()


def _scaled(count: float, *units: str) -> str:
    """Format a number in the first unit in which it is less than 1000; each unit is 1000 times the previous one."""
    for unit in units[:-1]:
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.0f} {units[-1]}" if count >= 1000 else f"{count:.3g} {units[-1]}"
