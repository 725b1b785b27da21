"""Attention masks. `True` means *may attend*, as in torch's `scaled_dot_product_attention`.

An `AttentionMask` is a small value: causal, lengths, window or a dense array, combined with `&`. It is turned into
a dense tensor late, so that `attention` can use the kernel's own causal path. This is the only module that builds
masks.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.utils.errors import UsageError


@dataclass(frozen=True, eq=False)
class AttentionMask:
    """Which keys each query may attend to. The empty `AttentionMask()` allows all of them.

    Queries are the *last* positions of the keys where `is_causal` or `window` is set: with T queries and S keys,
    query t stands at key position S - T + t, as in a decoder with a cache.
    """

    is_causal: bool = False  # a query sees its own position and earlier ones
    lengths: Tensor | None = None  # (B,) number of real keys in each row; the rest is padding
    starts: Tensor | None = None  # (B,) the first real key of each row; earlier keys are padding
    window: int | None = None  # a query sees keys fewer than this many positions away
    allowed: Tensor | None = None  # any other mask: bool, broadcastable to (B, H, T, S)

    def __and__(self, other: AttentionMask) -> AttentionMask:
        return AttentionMask(
            is_causal=self.is_causal or other.is_causal,
            lengths=_combine(self.lengths, other.lengths, torch.minimum),
            starts=_combine(self.starts, other.starts, torch.maximum),
            window=min((w for w in (self.window, other.window) if w is not None), default=None),
            allowed=_combine(self.allowed, other.allowed, torch.logical_and),
        )

    @property
    def is_unmasked(self) -> bool:
        """Whether every query may attend to every key."""
        return not self.is_causal and self._is_unlimited

    @property
    def is_only_causal(self) -> bool:
        return self.is_causal and self._is_unlimited

    @property
    def _is_unlimited(self) -> bool:
        return all(limit is None for limit in (self.lengths, self.starts, self.window, self.allowed))

    def materialize(self, queries: int, keys: int, device: torch.device | str | None = None) -> AttentionMask:
        """The same mask as a dense tensor, computed once for all layers. A causal or empty mask stays as it is."""
        if self.is_unmasked or self.is_only_causal:
            return self
        return AttentionMask(allowed=self.dense(queries, keys, device))

    def dense(self, queries: int, keys: int, device: torch.device | str | None = None) -> Tensor:
        """The mask as booleans, broadcastable to (B, H, T, S)."""
        allowed = torch.ones(1, 1, 1, keys, dtype=torch.bool, device=device)
        if self.is_causal or self.window is not None:
            key = torch.arange(keys, device=device)
            query = torch.arange(keys - queries, keys, device=device)[:, None]
            if self.is_causal:
                allowed = allowed & (key <= query)
            if self.window is not None:
                allowed = allowed & ((key - query).abs() < self.window)
        if self.lengths is not None:
            allowed = allowed & (torch.arange(keys, device=device) < self.lengths[:, None, None, None].to(device))
        if self.starts is not None:
            allowed = allowed & (torch.arange(keys, device=device) >= self.starts[:, None, None, None].to(device))
        if self.allowed is not None:
            allowed = allowed & self.allowed.to(device)
        return allowed

    def select(self, rows: Tensor) -> AttentionMask:
        """The same mask for these rows of the batch, in this order."""
        return AttentionMask(
            is_causal=self.is_causal,
            lengths=self.lengths if self.lengths is None or len(self.lengths) == 1 else self.lengths[rows],
            starts=self.starts if self.starts is None or len(self.starts) == 1 else self.starts[rows],
            window=self.window,
            allowed=self.allowed if self.allowed is None or self.allowed.shape[0] == 1 else self.allowed[rows],
        )

    def select_heads(self, heads: Tensor) -> AttentionMask:
        """The same mask for these heads; only an explicit mask differs between heads."""
        if self.allowed is None or self.allowed.shape[1] == 1:
            return self
        return dataclasses.replace(self, allowed=self.allowed[:, heads])


def no_mask() -> AttentionMask:
    """Every query may attend to every key."""
    return AttentionMask()


def causal() -> AttentionMask:
    """A query may not attend to later positions."""
    return AttentionMask(is_causal=True)


def lengths(real: Tensor) -> AttentionMask:
    """Row b of the batch has `real[b]` real keys; the rest is padding."""
    if real.dim() != 1:
        raise UsageError(f"lengths must be one number per row, shape (B,), but has shape {tuple(real.shape)}.")
    return AttentionMask(lengths=real)


def starts(first: Tensor) -> AttentionMask:
    """Row b of the batch has its first real key at `first[b]`; earlier keys are padding."""
    if first.dim() != 1:
        raise UsageError(f"starts must be one number per row, shape (B,), but has shape {tuple(first.shape)}.")
    return AttentionMask(starts=first)


def window(size: int) -> AttentionMask:
    """A query attends to keys fewer than `size` positions away, on both sides unless combined with `causal()`."""
    if size < 1:
        raise UsageError(f"a window must span at least 1 position, not {size}.")
    return AttentionMask(window=size)


def dense(allowed: Tensor) -> AttentionMask:
    """An explicit mask, `True` = may attend, broadcastable to (B, H, T, S)."""
    if allowed.dtype != torch.bool:
        raise UsageError(f"a mask must be boolean with True = may attend, not {allowed.dtype}.")
    return AttentionMask(allowed=allowed.reshape((1,) * (4 - allowed.dim()) + allowed.shape))


def padding(attention_mask: Tensor) -> AttentionMask:
    """The mask for a Hugging Face `attention_mask`: (B, S), 1 or True for a token, 0 or False for padding."""
    if attention_mask.dim() != 2:
        raise UsageError(f"attention_mask must have shape (B, S), not {tuple(attention_mask.shape)}.")
    return AttentionMask(allowed=attention_mask.bool()[:, None, None, :])


def _combine(a: Tensor | None, b: Tensor | None, combine: object) -> Tensor | None:
    if a is None or b is None:
        return b if a is None else a
    return combine(a, b)  # type: ignore[operator, no-any-return]
