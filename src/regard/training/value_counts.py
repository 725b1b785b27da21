"""How many parameters values take: as one full matrix for each head, and as the two factors that models have.

A head turns the vector of each token into what it passes on, a vector of the same width D. As one matrix that would
take D × D numbers. Multi-head attention makes it in two steps instead, down to the width of the head and up again: the
head's part of W^V is D × Dh, its part of W^O is Dh × D, and their product is the D × D matrix, of rank Dh at most.

| here | D = 768, Dh = 64 | 12 heads | and 12 layers |
|---|---|---|---|
| full | 589,824 | 7,077,888 | 84,934,656 |
| factored | 98,304 | 1,179,648 | 14,155,776 |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class ValueCounts:
    """Parameters for values, biases left out. `heads` are those of each attention, in the order in which they run."""

    width: int
    head_width: int
    heads: tuple[int, ...]
    key_value_heads: int | None = None  # fewer than heads: several share the way down, each has its own way up

    def __post_init__(self) -> None:
        for name, count in (
            ("width", self.width),
            ("head_width", self.head_width),
            *(("heads", n) for n in self.heads),
        ):
            if count < 1:
                raise UsageError(f"{name} must be at least 1, not {count}.")

    @property
    def full_head(self) -> int:
        """One matrix from width to width."""
        return self.width * self.width

    @property
    def factored_head(self) -> int:
        """Down to the width of a head and up again."""
        return 2 * self.width * self.head_width

    def full_layer(self, heads: int) -> int:
        return heads * self.full_head

    def factored_layer(self, heads: int) -> int:
        return (heads + (self.key_value_heads or heads)) * self.width * self.head_width

    @property
    def full(self) -> int:
        """In the whole model, if every head of every layer had its own full matrix."""
        return sum(map(self.full_layer, self.heads))

    @property
    def factored(self) -> int:
        """In the whole model, as it is."""
        return sum(map(self.factored_layer, self.heads))

    def as_dict(self) -> dict[str, Any]:
        return {
            "full": {"head": self.full_head, "layer": self.full_layer(self.heads[0]), "model": self.full},
            "factored": {
                "head": self.factored_head,
                "layer": self.factored_layer(self.heads[0]),
                "model": self.factored,
            },
        }

    def __str__(self) -> str:
        layers, heads = len(self.heads), self.heads[0]
        alike = len(set(self.heads)) == 1
        product = f"{layers} × {heads} × {self.full_head:,}" if alike else "all heads"
        rows = [
            f"values                  {'a head':>15}{'a layer':>18}{'the model':>22}",
            f"  full matrices         {self.full_head:>15,}{self.full_layer(heads):>18,}{self.full:>22,}",
            f"  two factors           {self.factored_head:>15,}{self.factored_layer(heads):>18,}{self.factored:>22,}",
            f"  A head's full matrix would be {self.width:,} × {self.width:,}: {product} = {spoken(self.full)}.",
            f"  Its two factors are {self.width:,} × {self.head_width} (in W^V) and {self.head_width} × {self.width:,} "
            f"(in W^O), as built: {self.full / self.factored:.3g} times fewer.",
        ]
        return "\n".join(rows)


def value_counts(
    *, width: int, head_width: int, heads: int, layers: int, key_value_heads: int | None = None
) -> ValueCounts:
    """The count for any shape: BERT-base is `width=768, head_width=64, heads=12, layers=12`."""
    if layers < 1:
        raise UsageError(f"layers must be at least 1, not {layers}.")
    return ValueCounts(width=width, head_width=head_width, heads=(heads,) * layers, key_value_heads=key_value_heads)


def counts_of(config: Any, attentions: Sequence[str]) -> ValueCounts:
    """The count for a model's config; `attentions` are the addresses of its attentions."""
    return ValueCounts(
        width=config.width,
        head_width=config.head_width,
        heads=tuple(config.heads_at.get(address, config.heads) for address in attentions),
        key_value_heads=getattr(config, "key_value_heads", None),
    )


def spoken(count: float) -> str:
    """84,934,656 → 84.9 million."""
    for size, name in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"), (1e3, "thousand")):
        if count >= size:
            return f"{count / size:.3g} {name}"
    return f"{count:.0f}"
