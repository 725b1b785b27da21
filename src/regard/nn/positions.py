"""Where a token stands: sinusoidal, learned and rotary positions.

| here | paper | meaning |
|---|---|---|
| position | pos | 0, 1, 2 … |
| pair | i | which sine-cosine pair of the width |
| base | 10000 | sets the longest wavelength |
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, get_args

import torch
from torch import Tensor, nn

from regard.errors import UsageError, unknown
from regard.nn.kinds import Layout, PositionKind

LAYOUTS, POSITION_KINDS = get_args(Layout), get_args(PositionKind)


def sinusoids(
    length: int,
    width: int,
    *,
    layout: str = "interleaved",
    base: float = 10_000.0,
    scaling: Mapping[str, float] | None = None,
) -> Tensor:
    """PE(pos, 2i) = sin(pos / base^(2i/D)), PE(pos, 2i+1) = cos(the same): (length, D).

    `interleaved` is the paper's order, sine and cosine side by side. `halves` puts all sines first, as Marian
    does. `scaling` slows the waves down as `slowed` does.
    """
    if layout not in LAYOUTS:
        raise unknown("layout of sinusoids", layout, LAYOUTS)
    if width % 2:
        raise UsageError(f"sinusoidal positions need an even width, not {width}.")
    # Computed in float64, so that the last digits do not depend on who computes them.
    # On the CPU whatever the default device is: a model may be built empty, but not its tables.
    pair = torch.arange(0, width, 2, dtype=torch.float64, device="cpu")
    speeds = base ** (-pair / width)
    if scaling:
        speeds = slowed(speeds, **scaling)
    angle = torch.arange(length, dtype=torch.float64, device="cpu")[:, None] * speeds
    waves = (angle.sin(), angle.cos())
    table = torch.cat(waves, dim=-1) if layout == "halves" else torch.stack(waves, dim=-1).flatten(1)
    return table.to(torch.get_default_dtype())


def slowed(speeds: Tensor, *, factor: float, low: float, high: float, context: float) -> Tensor:
    """How Llama 3.1 reads `factor` times the `context` that it was first trained on.

    A wave that turns less than `low` times within that context is slowed down by `factor`; one that turns more than
    `high` times tells neighbours apart and stays; in between the one goes over into the other.
    """
    turns = speeds * context / (2 * math.pi)
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    return speeds * (kept + (1 - kept) / factor)


class Sinusoidal(nn.Module):
    """Adds fixed sinusoids; there is nothing to learn, and the table grows as longer texts come."""

    table: Tensor

    def __init__(self, width: int, *, layout: str = "interleaved", length: int = 256) -> None:
        super().__init__()
        self.layout = layout
        self.register_buffer("table", sinusoids(length, width, layout=layout), persistent=False)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        end = start + x.shape[1]
        return x + self.first(end)[start:].to(x.dtype)

    def first(self, length: int) -> Tensor:
        """What is added at each of the first positions: (length, D)."""
        if length > len(self.table):
            longer = sinusoids(max(length, 2 * len(self.table)), self.table.shape[-1], layout=self.layout)
            self.table = longer.to(self.table)
        return self.table[:length]


class Learned(nn.Module):
    """Adds a trained vector for each position, up to `length` of them."""

    def __init__(self, width: int, *, length: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(length, width) * 0.02)

    def forward(self, x: Tensor, start: int = 0, padding: Tensor | None = None) -> Tensor:
        """x (B, T, D), the first token at position `start`; the first `padding[b]` positions of row b do not count."""
        end = start + x.shape[1]
        if end > len(self.weight):
            raise UsageError(
                f"a text of {end} tokens is longer than the {len(self.weight)} positions this model has learned; "
                f"shorten it or train with more `max_positions`."
            )
        if padding is None:
            return x + self.weight[start:end]
        return x + self.weight[_places(start, end, padding)]


class NoPositions(nn.Module):
    """Adds nothing: the model cannot tell one order of its tokens from another, unless attention rotates."""

    def forward(self, x: Tensor, start: int = 0, padding: Tensor | None = None) -> Tensor:
        return x


class Rotary(nn.Module):
    """Turns each pair of a query or key by an angle that grows with its position (Su et al. 2021).

    The dot product of a turned query and a turned key depends on their distance only.
    """

    cosine: Tensor
    sine: Tensor

    def __init__(
        self,
        head_width: int,
        *,
        base: float = 10_000.0,
        scaling: Mapping[str, float] | None = None,
        length: int = 256,
    ) -> None:
        super().__init__()
        if head_width % 2:
            raise UsageError(f"rotary positions need an even head width, not {head_width}.")
        self.base, self.scaling = base, scaling
        for name, table in self._tables(length, head_width).items():
            self.register_buffer(name, table, persistent=False)

    def _tables(self, length: int, head_width: int) -> dict[str, Tensor]:
        table = sinusoids(length, head_width, layout="halves", base=self.base, scaling=self.scaling)
        sine, cosine = table.chunk(2, dim=-1)
        return {"sine": sine, "cosine": torch.cat((cosine, cosine), dim=-1)}

    def forward(self, x: Tensor, start: int = 0, padding: Tensor | None = None) -> Tensor:
        """x (B, H, T, Dh), the first token at position `start`; of row b the first `padding[b]` do not count."""
        end = start + x.shape[2]
        cosine, sine = self.first(end)
        if padding is None:
            cosine, sine = cosine[start:], sine[start:]
        else:
            places = _places(start, end, padding)[:, None]
            cosine, sine = cosine[places], sine[places]  # (B, 1, T, …)
        cosine, sine = cosine.to(x.dtype), sine.to(x.dtype)
        return _Turn.apply(x, cosine, sine)  # type: ignore[no-any-return, no-untyped-call]

    def first(self, length: int) -> tuple[Tensor, Tensor]:
        """The cosines (length, Dh) and sines (length, Dh / 2) of the first positions."""
        if length > len(self.cosine):
            for name, table in self._tables(max(length, 2 * len(self.cosine)), self.cosine.shape[-1]).items():
                setattr(self, name, table.to(self.cosine))
        return self.cosine[:length], self.sine[:length]


def _places(start: int, end: int, padding: Tensor) -> Tensor:
    """Positions from `start` to `end` of rows that begin with padding, (B, T); padding itself stands at 0."""
    return (torch.arange(start, end, device=padding.device) - padding[:, None]).clamp(min=0)


def _turned(x: Tensor, cosine: Tensor, sine: Tensor, *, forwards: bool) -> Tensor:
    """(a, b) → (a cos - b sin, b cos + a sin) for the halves a and b of the last axis; or the other way round."""
    half, sign = x.shape[-1] // 2, 1 if forwards else -1
    out = x * cosine
    out[..., :half].addcmul_(x[..., half:], sine, value=-sign)
    out[..., half:].addcmul_(x[..., :half], sine, value=sign)
    return out


class _Turn(torch.autograd.Function):
    """A turn, whose gradient is the turn back: three passes over memory each way."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        ctx.save_for_backward(cosine, sine)
        return _turned(x, cosine, sine, forwards=True)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        cosine, sine = ctx.saved_tensors
        return _turned(grad, cosine, sine, forwards=False), None, None


def make_positions(kind: str, width: int, *, layout: str, max_positions: int) -> nn.Module:
    """What is added to the embeddings. Rotary positions are not added: attention applies them."""
    if kind == "sinusoidal":
        return Sinusoidal(width, layout=layout)
    if kind == "learned":
        return Learned(width, length=max_positions)
    if kind not in POSITION_KINDS:
        raise unknown("kind of positions", kind, POSITION_KINDS)
    return NoPositions()
