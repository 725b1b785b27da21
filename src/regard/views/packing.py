"""Packs many integers into a page: base64 text of their zlib-compressed bytes. `packing.js` unpacks them."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy.typing as npt


def packed(integers: npt.NDArray[Any]) -> str:
    """The bytes of `integers`, which must be little-endian, as text."""
    effort = 6 if integers.nbytes < 1_000_000 else 3  # for large arrays, speed matters more than a few percent of size
    return base64.b64encode(zlib.compress(integers.tobytes(), effort)).decode("ascii")
