"""Position encodings: sinusoidal, learned and rotary.

| here | paper | meaning |
|---|---|---|
| position | pos | 0, 1, 2 … |
| pair | i | index of a sine-cosine pair in the vector |
| theta | 10000 | sets the longest wavelength |
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, get_args

import torch
from torch import Tensor, nn

from regard.nn.config import Layout, PositionKind
from regard.nn.init import new_parameter, weights_are_empty
from regard.utils.errors import UsageError, unknown

LAYOUTS, POSITION_KINDS = get_args(Layout), get_args(PositionKind)
Scaling = Mapping[str, float]  # the arguments of `scale_frequencies`


def sinusoids(
    length: int, dim: int, *, layout: str = "interleaved", theta: float = 10_000.0, scaling: Scaling | None = None
) -> Tensor:
    """PE(pos, 2i) = sin(pos / theta^(2i/D)), PE(pos, 2i+1) = cos(the same): (length, D).

    `interleaved` is the paper's order, sine and cosine side by side. `halves` puts all sines first, as Marian does.
    """
    if layout not in LAYOUTS:
        raise unknown("layout of sinusoids", layout, LAYOUTS)
    if dim % 2:
        message = f"sinusoidal positions need an even number of dimensions, not {dim}."
        raise UsageError(message, argument="dim", value=dim)
    # In float64, so that the last digits do not depend on the platform.
    pair = torch.arange(0, dim, 2, dtype=torch.float64)
    frequencies = theta ** (-pair / dim)
    if scaling:
        frequencies = scale_frequencies(frequencies, **scaling)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * frequencies  # (length, D / 2)
    waves = (angle.sin(), angle.cos())
    table = torch.cat(waves, dim=-1) if layout == "halves" else torch.stack(waves, dim=-1).flatten(1)
    return table.to(torch.get_default_dtype())


def scale_frequencies(
    frequencies: Tensor,
    *,
    factor: float,
    low_freq_factor: float,
    high_freq_factor: float,
    original_max_position_embeddings: float,
) -> Tensor:
    """Scale rotary frequencies as in Llama 3.1, to extend the context by `factor`; arguments as in Llama's config.json.

    A frequency with fewer than `low_freq_factor` rotations in the original context is divided by `factor`. A frequency
    with more than `high_freq_factor` rotations is not changed. Frequencies in between are interpolated.
    """
    turns = frequencies * original_max_position_embeddings / (2 * math.pi)
    unscaled = ((turns - low_freq_factor) / (high_freq_factor - low_freq_factor)).clamp(0, 1)
    return frequencies * (unscaled + (1 - unscaled) / factor)


class SinusoidalPositions(nn.Module):
    """Adds fixed sinusoids. The table grows for longer texts."""

    table: Tensor

    def __init__(self, dim: int, *, layout: str = "interleaved", length: int = 256) -> None:
        super().__init__()
        self.layout = layout
        self.register_buffer("table", sinusoids(length, dim, layout=layout), persistent=False)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        return x + self.first(start + x.shape[1])[start:].to(x.dtype)

    def first(self, length: int) -> Tensor:
        """Return the vectors of the first positions: (length, D)."""
        if length > len(self.table):
            longer = sinusoids(max(length, 2 * len(self.table)), self.table.shape[-1], layout=self.layout)
            self.table = longer.to(self.table)
        return self.table[:length]


class LearnedPositions(nn.Module):
    """Adds a learned vector for each of `length` positions."""

    def __init__(self, dim: int, *, length: int) -> None:
        super().__init__()
        self.weight = new_parameter(length, dim)
        if not weights_are_empty():
            nn.init.normal_(self.weight, std=0.02)

    def forward(self, x: Tensor, start: int = 0, padding: Tensor | None = None) -> Tensor:
        """x (B, T, D), the first token at position `start`; the first `padding[b]` positions of row b are padding."""
        end = start + x.shape[1]
        if end > len(self.weight):
            message = f"the text has {end} tokens, but the model has {len(self.weight)} positions. Shorten the text."
            raise UsageError(message, argument="x", value=end)
        return x + self.weight[slice(start, end) if padding is None else _places(start, end, padding)]


class NoPositions(nn.Module):
    """Adds nothing; for models with rotary positions or without positions."""

    def forward(self, x: Tensor, start: int = 0, padding: Tensor | None = None) -> Tensor:
        return x


class RotaryPositions(nn.Module):
    """Rotates each pair of a query or key by an angle that grows with its position (Su et al. 2021).

    The dot product of a rotated query and a rotated key depends only on their distance.
    """

    cosine: Tensor
    sine: Tensor

    def __init__(
        self, head_dim: int, *, theta: float = 10_000.0, scaling: Scaling | None = None, length: int = 256
    ) -> None:
        super().__init__()
        if head_dim % 2:
            message = f"rotary positions need an even head_dim, not {head_dim}."
            raise UsageError(message, argument="head_dim", value=head_dim)
        self.theta, self.scaling = theta, scaling
        for name, table in self._tables(length, head_dim).items():
            self.register_buffer(name, table, persistent=False)

    def _tables(self, length: int, head_dim: int) -> dict[str, Tensor]:
        table = sinusoids(length, head_dim, layout="halves", theta=self.theta, scaling=self.scaling)
        sine, cosine = table.chunk(2, dim=-1)
        return {"sine": sine, "cosine": torch.cat((cosine, cosine), dim=-1)}

    def forward(self, x: Tensor, start: int = 0, padding: Tensor | None = None) -> Tensor:
        """x (B, H, T, Dh), first token at position `start`; the first `padding[b]` positions of row b are padding."""
        end = start + x.shape[2]
        places = slice(start, end) if padding is None else _places(start, end, padding)[:, None]  # (B, 1, T)
        cosine, sine = (table[places].to(x.dtype) for table in self.first(end))
        return _Rotate.apply(x, cosine, sine)  # type: ignore[no-any-return, no-untyped-call]

    def first(self, length: int) -> tuple[Tensor, Tensor]:
        """Return the cosines (length, Dh) and sines (length, Dh / 2) of the first positions."""
        if length > len(self.cosine):
            for name, table in self._tables(max(length, 2 * len(self.cosine)), self.cosine.shape[-1]).items():
                setattr(self, name, table.to(self.cosine))
        return self.cosine[:length], self.sine[:length]


def _places(start: int, end: int, padding: Tensor) -> Tensor:
    """Return the positions from `start` to `end` of rows that begin with padding: (B, T); padding has position 0."""
    return (torch.arange(start, end, device=padding.device) - padding[:, None]).clamp(min=0)


def _rotated(x: Tensor, cosine: Tensor, sine: Tensor, *, sign: int = 1) -> Tensor:
    """(a, b) → (a cos - b sin, b cos + a sin) for the halves a and b of the last axis; `sign` -1 is the inverse."""
    half = x.shape[-1] // 2
    out = x * cosine
    out[..., :half].addcmul_(x[..., half:], sine, value=-sign)
    out[..., half:].addcmul_(x[..., :half], sine, value=sign)
    return out


class _Rotate(torch.autograd.Function):
    """A rotation; the backward pass is the inverse rotation. Both take three passes over memory."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        ctx.save_for_backward(cosine, sine)
        return _rotated(x, cosine, sine)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _rotated(grad, *ctx.saved_tensors, sign=-1), None, None


def make_positions(kind: str, dim: int, *, layout: str, max_positions: int) -> nn.Module:
    """Return the module that adds positions to embeddings; for `rotary`, it adds nothing (attention rotates)."""
    if kind == "sinusoidal":
        return SinusoidalPositions(dim, layout=layout)
    if kind == "learned":
        return LearnedPositions(dim, length=max_positions)
    if kind not in POSITION_KINDS:
        raise unknown("kind of positions", kind, POSITION_KINDS)
    return NoPositions()
