"""Who may attend to whom. `True` means *may attend*, everywhere in regard.

A `Keep` is a small value: causal, lengths, window or a dense array, combined with `&`. It stays small so
that `attend` can use the kernel's own causal and length paths; `.dense()` exists for those who look.
This is the only module that builds masks.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import UsageError


@dataclass(frozen=True, eq=False)
class Keep:
    """Which keys each query may attend to. The empty `Keep()` keeps everything.

    Queries are the *last* positions of the keys where `causal` or `window` is set: with T queries and S keys,
    query t stands at key position S - T + t. That is what a decoder with a cache needs.
    """

    is_causal: bool = False  # a query sees its own position and earlier ones
    lengths: Tensor | None = None  # (B,) how many keys of each row are real; the rest is padding
    starts: Tensor | None = None  # (B,) the first real key of each row; what comes before is padding
    window: int | None = None  # a query sees keys fewer than this many positions away
    mask: Tensor | None = None  # anything else: bool, broadcastable to (B, H, T, S)

    def __and__(self, other: Keep) -> Keep:
        return Keep(
            is_causal=self.is_causal or other.is_causal,
            lengths=_combine(self.lengths, other.lengths, torch.minimum),
            starts=_combine(self.starts, other.starts, torch.maximum),
            window=min((w for w in (self.window, other.window) if w is not None), default=None),
            mask=_combine(self.mask, other.mask, torch.logical_and),
        )

    @property
    def is_everything(self) -> bool:
        return not self.is_causal and self._is_unlimited

    @property
    def is_only_causal(self) -> bool:
        return self.is_causal and self._is_unlimited

    @property
    def _is_unlimited(self) -> bool:
        return all(limit is None for limit in (self.lengths, self.starts, self.window, self.mask))

    def ready(self, queries: int, keys: int, device: torch.device | str | None = None) -> Keep:
        """The same keep with its mask already dense, to be used by many layers; causal alone stays as it is."""
        if self.is_everything or self.is_only_causal:
            return self
        return Keep(mask=self.dense(queries, keys, device))

    def dense(self, queries: int, keys: int, device: torch.device | str | None = None) -> Tensor:
        """The mask as booleans, broadcastable to (B, H, T, S)."""
        keep = torch.ones(1, 1, 1, keys, dtype=torch.bool, device=device)
        if self.is_causal or self.window is not None:
            key = torch.arange(keys, device=device)
            query = torch.arange(keys - queries, keys, device=device)[:, None]
            if self.is_causal:
                keep = keep & (key <= query)
            if self.window is not None:
                keep = keep & ((key - query).abs() < self.window)
        if self.lengths is not None:
            keep = keep & (torch.arange(keys, device=device) < self.lengths[:, None, None, None].to(device))
        if self.starts is not None:
            keep = keep & (torch.arange(keys, device=device) >= self.starts[:, None, None, None].to(device))
        if self.mask is not None:
            keep = keep & self.mask.to(device)
        return keep

    def select(self, rows: Tensor) -> Keep:
        """The same keep for some rows of the batch, in the order given."""
        return Keep(
            is_causal=self.is_causal,
            lengths=self.lengths if self.lengths is None or len(self.lengths) == 1 else self.lengths[rows],
            starts=self.starts if self.starts is None or len(self.starts) == 1 else self.starts[rows],
            window=self.window,
            mask=self.mask if self.mask is None or self.mask.shape[0] == 1 else self.mask[rows],
        )

    def select_heads(self, heads: Tensor) -> Keep:
        """The same keep for some of the heads; only an explicit mask can tell heads apart."""
        if self.mask is None or self.mask.shape[1] == 1:
            return self
        return dataclasses.replace(self, mask=self.mask[:, heads])


def everything() -> Keep:
    """Every query may attend to every key."""
    return Keep()


def causal() -> Keep:
    """A query may not see later positions."""
    return Keep(is_causal=True)


def lengths(real: Tensor) -> Keep:
    """Row b of the batch has `real[b]` real keys; what follows is padding."""
    if real.dim() != 1:
        raise UsageError(f"lengths must be one number per row, shape (B,), but has shape {tuple(real.shape)}.")
    return Keep(lengths=real)


def starts(first: Tensor) -> Keep:
    """Row b of the batch has its first real key at `first[b]`; what comes before is padding."""
    if first.dim() != 1:
        raise UsageError(f"starts must be one number per row, shape (B,), but has shape {tuple(first.shape)}.")
    return Keep(starts=first)


def window(size: int) -> Keep:
    """A query sees keys fewer than `size` positions away, on both sides unless combined with `causal()`."""
    if size < 1:
        raise UsageError(f"a window must span at least 1 position, not {size}.")
    return Keep(window=size)


def dense(mask: Tensor) -> Keep:
    """An explicit mask, `True` = may attend, broadcastable to (B, H, T, S)."""
    if mask.dtype != torch.bool:
        raise UsageError(f"a mask must be boolean with True = may attend, not {mask.dtype}.")
    return Keep(mask=mask.reshape((1,) * (4 - mask.dim()) + mask.shape))


def _combine(a: Tensor | None, b: Tensor | None, how: object) -> Tensor | None:
    if a is None or b is None:
        return b if a is None else a
    return how(a, b)  # type: ignore[operator, no-any-return]
