"""Many integers inside a page: base64 text of their zlib-compressed bytes. `packing.js` undoes it.

What the integers stand for is the business of whoever packs them.
"""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy.typing as npt


def packed(integers: npt.NDArray[Any]) -> str:
    """The bytes of `integers`, which must be little-endian, as text."""
    effort = 6 if integers.nbytes < 1_000_000 else 3  # past that, seconds matter more than a few percent
    return base64.b64encode(zlib.compress(integers.tobytes(), effort)).decode("ascii")
