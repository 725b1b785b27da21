"""The key-value cache: keys and values of earlier tokens, so that the next token need not compute them again."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.utils.errors import UsageError


class KVCache:
    """The keys and values of one attention: (B, H, length, Dh), with spare capacity.

    `reorder` picks rows of the batch, as beam search does to continue its best hypotheses.
    """

    def __init__(self) -> None:
        self.length = 0
        self._keys: Tensor | None = None
        self._values: Tensor | None = None

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add the newest keys and values; returns all of them."""
        end = self.length + k.shape[2]
        self._keys, self._values = self._grown(self._keys, k, end), self._grown(self._values, v, end)
        self._keys[:, :, self.length : end] = k
        self._values[:, :, self.length : end] = v
        self.length = end
        return self.read()

    def read(self) -> tuple[Tensor, Tensor]:
        if self._keys is None or self._values is None:
            raise UsageError("this cache is empty; run a forward pass with it first.")
        return self._keys[:, :, : self.length], self._values[:, :, : self.length]

    def truncate(self, length: int) -> None:
        """Keep only the first `length` positions."""
        self.length = min(self.length, length)

    def forget(self, count: int) -> None:
        """Drop the first `count` positions."""
        if self._keys is not None and self._values is not None:
            self._keys, self._values = self._keys[:, :, count:], self._values[:, :, count:]
            self.length -= count

    def refill(self, rows: Tensor, other: KVCache) -> None:
        """Overwrite the end of these rows with the content of `other`; their earlier positions become padding."""
        if other.length and self._keys is not None and self._values is not None:
            keys, values = other.read()
            self._keys[rows, :, self.length - other.length : self.length] = keys
            self._values[rows, :, self.length - other.length : self.length] = values

    def reorder(self, rows: Tensor) -> None:
        if self._keys is not None and self._values is not None:
            self._keys, self._values = self._keys.index_select(0, rows), self._values.index_select(0, rows)

    def _grown(self, old: Tensor | None, new: Tensor, end: int) -> Tensor:
        """`old` with capacity for `end` positions. The capacity doubles, so that copying stays cheap."""
        if old is not None and old.shape[2] >= end:
            return old
        batch, heads, _, dim = new.shape
        bigger = torch.empty(batch, heads, max(end, 2 * self.length), dim, dtype=new.dtype, device=new.device)
        if old is not None:
            bigger[:, :, : self.length] = old[:, :, : self.length]
        return bigger
