"""Attention masks. `True` means *may attend*, as in torch's `scaled_dot_product_attention`.

An `AttentionMask` is a small object: causal, lengths, window or a dense array; `&` combines masks. It is converted to a
dense tensor as late as possible, so that `attention` can use the kernel's causal path. This is the only module that
builds masks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.utils.errors import UsageError


@dataclass(frozen=True, eq=False)
class AttentionMask:
    """Which keys each query may attend to. The empty `AttentionMask()` allows all keys.

    If `is_causal` or `window` is set, queries are the *last* positions of the keys: with T queries and S keys,
    query t has key position S - T + t, as in a decoder with a cache.
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
        """Return whether every query may attend to every key."""
        return not self.is_causal and self._is_unlimited

    @property
    def is_only_causal(self) -> bool:
        return self.is_causal and self._is_unlimited

    @property
    def _is_unlimited(self) -> bool:
        return all(limit is None for limit in (self.lengths, self.starts, self.window, self.allowed))

    def materialize(self, queries: int, keys: int, device: torch.device | str | None = None) -> AttentionMask:
        """Return the mask with a dense tensor, computed once for all layers. A causal or empty mask is unchanged."""
        return self if self._is_unlimited else AttentionMask(allowed=self.dense(queries, keys, device))

    def dense(self, queries: int, keys: int, device: torch.device | str | None = None) -> Tensor:
        """Return the mask as a boolean tensor, broadcastable to (B, H, T, S)."""
        allowed = torch.ones(1, 1, 1, keys, dtype=torch.bool, device=device)
        key = torch.arange(keys, device=device)
        query = torch.arange(keys - queries, keys, device=device)[:, None]
        if self.is_causal:
            allowed = allowed & (key <= query)
        if self.window is not None:
            allowed = allowed & ((key - query).abs() < self.window)
        if self.lengths is not None:
            allowed = allowed & (key < self.lengths[:, None, None, None].to(device))
        if self.starts is not None:
            allowed = allowed & (key >= self.starts[:, None, None, None].to(device))
        return allowed if self.allowed is None else allowed & self.allowed.to(device)

    def select(self, rows: Tensor) -> AttentionMask:
        """Return the mask for these rows of the batch, in this order."""
        lengths, starts, allowed = (
            x if x is None or len(x) == 1 else x[rows] for x in (self.lengths, self.starts, self.allowed)
        )
        return replace(self, lengths=lengths, starts=starts, allowed=allowed)

    def select_heads(self, heads: Tensor) -> AttentionMask:
        """Return the mask for these heads; only an explicit mask can differ between heads."""
        if self.allowed is None or self.allowed.shape[1] == 1:
            return self
        return replace(self, allowed=self.allowed[:, heads])


def no_mask() -> AttentionMask:
    """Every query may attend to every key."""
    return AttentionMask()


def causal() -> AttentionMask:
    """A query may not attend to later positions."""
    return AttentionMask(is_causal=True)


def lengths(real: Tensor) -> AttentionMask:
    """Row b of the batch has `real[b]` real keys; the rest is padding."""
    return AttentionMask(lengths=_one_per_row("lengths", real))


def starts(first: Tensor) -> AttentionMask:
    """Row b of the batch has its first real key at `first[b]`; earlier keys are padding."""
    return AttentionMask(starts=_one_per_row("starts", first))


def window(size: int) -> AttentionMask:
    """A query attends to keys fewer than `size` positions away, on both sides unless combined with `causal()`."""
    if size < 1:
        raise UsageError(f"a window must span at least 1 position, not {size}.", argument="size", value=size)
    return AttentionMask(window=size)


def dense(allowed: Tensor) -> AttentionMask:
    """An explicit mask, `True` = may attend, broadcastable to (B, H, T, S)."""
    if allowed.dtype != torch.bool:
        message = f"a mask must be boolean with True = may attend, not {allowed.dtype}."
        raise UsageError(message, argument="allowed", value=allowed.dtype)
    return AttentionMask(allowed=allowed.reshape((1,) * (4 - allowed.dim()) + allowed.shape))


def padding(attention_mask: Tensor) -> AttentionMask:
    """Return the mask for a Hugging Face `attention_mask`: (B, S), 1 or True for a token, 0 or False for padding."""
    if attention_mask.dim() != 2:
        shape = tuple(attention_mask.shape)
        raise UsageError(f"attention_mask must have shape (B, S), not {shape}.", argument="attention_mask", value=shape)
    return AttentionMask(allowed=attention_mask.bool()[:, None, None, :])


def pad(rows: Sequence[Sequence[int]], pad_id: int, *, device: torch.device | None = None) -> tuple[Tensor, Tensor]:
    """Return rows of ids as a tensor (rows, longest), padded at the end, and the length of each row."""
    row_lengths = [len(row) for row in rows]
    longest = max(row_lengths)
    ids = torch.tensor([[*row, *[pad_id] * (longest - len(row))] for row in rows], device=device)
    return ids, torch.tensor(row_lengths, device=device)


def _one_per_row(name: str, numbers: Tensor) -> Tensor:
    if numbers.dim() != 1:
        shape = tuple(numbers.shape)
        raise UsageError(f"{name} must have one number per row, shape (B,), not {shape}.", argument=name, value=shape)
    return numbers


def _combine(a: Tensor | None, b: Tensor | None, both: Callable[[Tensor, Tensor], Tensor]) -> Tensor | None:
    if a is None or b is None:
        return b if a is None else a
    return both(a, b)
