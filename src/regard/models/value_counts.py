"""Count the parameters of the value path: with one full matrix per head, and with the two factors W^V and W^O.

A head maps the vector of each token to a vector of the same size D. A full matrix would need D × D parameters.
Multi-head attention uses two factors instead: the head's part of W^V is D × Dh and its part of W^O is Dh × D. Their
product is a D × D matrix with rank at most Dh.

| | one head, D = 768, Dh = 64 | 12 heads | 12 layers with 12 heads |
|---|---|---|---|
| full | 589,824 | 7,077,888 | 84,934,656 |
| factored | 98,304 | 1,179,648 | 14,155,776 |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.utils.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class ValueCounts:
    """Parameter counts of the value path, without biases. `num_heads` has one entry per attention layer."""

    d_model: int
    head_dim: int
    num_heads: tuple[int, ...]
    num_kv_heads: int | None = (
        None  # if fewer than num_heads: heads share a part of W^V, and each has its own part of W^O
    )

    def __post_init__(self) -> None:
        for name, count in (
            ("d_model", self.d_model),
            ("head_dim", self.head_dim),
            *(("num_heads", n) for n in self.num_heads),
        ):
            if count < 1:
                raise UsageError(f"{name} must be at least 1, got {count}.", argument=name, value=count)

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
        """Parameters in the whole model if every head of every layer had its own full matrix."""
        return sum(map(self.full_layer, self.num_heads))

    @property
    def factored(self) -> int:
        """Parameters in the whole model with the factors W^V and W^O, which regard uses."""
        return sum(map(self.factored_layer, self.num_heads))

    def as_dict(self) -> dict[str, Any]:
        return {
            "full": {"head": self.full_head, "layer": self.full_layer(self.num_heads[0]), "model": self.full},
            "factored": {
                "head": self.factored_head,
                "layer": self.factored_layer(self.num_heads[0]),
                "model": self.factored,
            },
        }

    def __str__(self) -> str:
        num_layers, num_heads = len(self.num_heads), self.num_heads[0]
        alike = len(set(self.num_heads)) == 1
        product = f"{num_layers} × {num_heads} × {self.full_head:,}" if alike else "all heads"
        rows = [
            f"values                  {'per head':>15}{'per layer':>18}{'whole model':>22}",
            f"  full matrices         {self.full_head:>15,}{self.full_layer(num_heads):>18,}{self.full:>22,}",
            f"  two factors           {self.factored_head:>15,}{self.factored_layer(num_heads):>18,}"
            f"{self.factored:>22,}",
            f"  A head's full matrix would be {self.d_model:,} × {self.d_model:,}: {product} = {spoken(self.full)}.",
            f"  Its two factors are {self.d_model:,} × {self.head_dim} (in W^V) and {self.head_dim} × {self.d_model:,} "
            f"(in W^O): {self.full / self.factored:.3g} times fewer parameters.",
        ]
        return "\n".join(rows)


def value_counts(
    *, d_model: int, head_dim: int, num_heads: int, num_layers: int, num_kv_heads: int | None = None
) -> ValueCounts:
    """Count for any shape; BERT-base has `d_model=768, head_dim=64, num_heads=12, num_layers=12`."""
    if num_layers < 1:
        raise UsageError(f"num_layers must be at least 1, got {num_layers}.", argument="num_layers", value=num_layers)
    return ValueCounts(
        d_model=d_model, head_dim=head_dim, num_heads=(num_heads,) * num_layers, num_kv_heads=num_kv_heads
    )


def counts_of(config: Any, attentions: Sequence[str]) -> ValueCounts:
    """Count for the config of a model; `attentions` are the addresses of its attention layers."""
    return ValueCounts(
        d_model=config.d_model,
        head_dim=config.head_dim,
        num_heads=tuple(config.num_heads_by_layer.get(address, config.num_heads) for address in attentions),
        num_kv_heads=getattr(config, "num_kv_heads", None),
    )


def spoken(count: float) -> str:
    """Format a number in words: 84,934,656 → 84.9 million."""
    for size, name in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"), (1e3, "thousand")):
        if count >= size:
            return f"{count / size:.3g} {name}"
    return f"{count:.0f}"
