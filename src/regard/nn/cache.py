"""The key-value cache: keys and values of earlier tokens, so that the next token need not compute them again."""

from __future__ import annotations

from torch import Tensor

from regard.utils.errors import UsageError


class KVCache:
    """The keys and values of one attention: (B, H, length, Dh), with spare capacity."""

    def __init__(self) -> None:
        self.length = 0
        self._pair: tuple[Tensor, ...] = ()  # keys and values; nothing before the first `append`

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add the newest keys and values; returns all of them."""
        start, end = self.length, self.length + k.shape[2]
        pair = self._pair or (k[:, :, :0], v[:, :, :0])
        self._pair = tuple(_with_capacity(x, start, end) for x in pair)
        for x, new in zip(self._pair, (k, v), strict=True):
            x[:, :, start:end] = new
        self.length = end
        return self.read()

    def read(self) -> tuple[Tensor, Tensor]:
        if not self._pair:
            raise UsageError("this cache is empty; run a forward pass with it first.", argument="cache")
        keys, values = self._pair
        return keys[:, :, : self.length], values[:, :, : self.length]

    def truncate(self, length: int) -> None:
        """Drop all but the first `length` positions."""
        self.length = min(self.length, length)

    def drop_first(self, count: int) -> None:
        """Drop the first `count` positions."""
        self._pair = tuple(x[:, :, count:] for x in self._pair)
        self.length = max(0, self.length - count)

    def refill(self, rows: Tensor, other: KVCache) -> None:
        """Overwrite the end of these rows with the content of `other`; their earlier positions become padding."""
        for x, new in zip(self._pair, other._pair, strict=False):  # `other` may be empty
            x[rows, :, self.length - other.length : self.length] = new[:, :, : other.length]

    def reorder(self, rows: Tensor) -> None:
        """Select rows of the batch, as beam search does to continue its best hypotheses."""
        self._pair = tuple(x.index_select(0, rows) for x in self._pair)


def _with_capacity(x: Tensor, length: int, end: int) -> Tensor:
    """`x` with capacity for `end` positions, `length` of them in use. It doubles, so that copying stays cheap."""
    if x.shape[2] >= end:
        return x
    larger = x.new_empty(*x.shape[:2], max(end, 2 * length), x.shape[3])
    larger[:, :, :length] = x[:, :, :length]
    return larger
