"""A still picture: a small SVG writer, and the PNG bytes that large heat maps need inside one.

It knows shapes and text, not what they mean. Every text is escaped here and nowhere else.
"""

from __future__ import annotations

import base64
import struct
import unicodedata
import zlib
from html import escape

import numpy as np
import numpy.typing as npt

from regard.views.page import readable

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif"
INK, MUTED, RULE, PAPER = "#1d2029", "#646978", "#e3e4ea", "#ffffff"


class Picture:
    """Shapes on a page of `width` × `height`; call the methods in painting order, then `svg()`."""

    def __init__(self, width: float, height: float, title: str) -> None:
        self.width = int(width + 0.5)
        self.height = int(height + 0.5)
        self.title = title
        self._parts: list[str] = []

    def rectangle(
        self, x: float, y: float, width: float, height: float, *, fill: str, stroke: str = "", radius: float = 0
    ) -> None:
        outline = f' stroke="{stroke}" stroke-width="2"' if stroke else ""
        corner = f' rx="{_number(radius)}"' if radius else ""
        self._parts.append(
            f'<rect x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" height="{_number(height)}"'
            f'{corner} fill="{fill}"{outline}/>'
        )

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 13,
        fill: str = INK,
        anchor: str = "start",
        angle: float = 0,
        weight: int = 400,
    ) -> None:
        turned = f' transform="rotate({_number(angle)} {_number(x)} {_number(y)})"' if angle else ""
        bold = f' font-weight="{weight}"' if weight != 400 else ""
        self._parts.append(
            f'<text x="{_number(x)}" y="{_number(y)}" font-size="{_number(size)}" fill="{fill}"'
            f' text-anchor="{anchor}"{bold}{turned} xml:space="preserve">{escape(readable(text))}</text>'
        )

    def polyline(self, points: list[tuple[float, float]], *, stroke: str, width: float = 1.6) -> None:
        path = " ".join(f"{_number(x)},{_number(y)}" for x, y in points)
        self._parts.append(
            f'<polyline points="{path}" fill="none" stroke="{stroke}" stroke-width="{_number(width)}"'
            ' stroke-linejoin="round"/>'
        )

    def image(self, x: float, y: float, width: float, height: float, pixels: npt.NDArray[np.uint8]) -> None:
        """`pixels` (rows, columns, 3) as one image, its pixels kept sharp."""
        encoded = base64.b64encode(png(pixels)).decode("ascii")
        self._parts.append(
            f'<image x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" height="{_number(height)}"'
            f' preserveAspectRatio="none" style="image-rendering:pixelated" href="data:image/png;base64,{encoded}"/>'
        )

    def svg(self) -> str:
        """The document."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}"'
            f' viewBox="0 0 {self.width} {self.height}" role="img" font-family="{escape(FONT)}">'
            f"<title>{escape(readable(self.title))}</title>"
            f'<rect width="100%" height="100%" fill="{PAPER}"/>' + "".join(self._parts) + "</svg>\n"
        )


def text_width(text: str, size: float = 13) -> float:
    """About how wide `text` will be; an estimate that errs upwards, since nothing can be measured without a browser."""
    wide = sum(1 for character in text if unicodedata.east_asian_width(character) in "WF")
    return size * (0.58 * (len(text) - wide) + 1.05 * wide)


def shown(token: str, most: int = 18) -> str:
    """A token as a label: blanks are visible, long tokens are truncated."""
    if token == "":
        return "∅"
    visible = token.replace("\n", "⏎").replace("\t", "⇥").replace("\r", "␍")
    if visible.strip(" ") == "":
        visible = "␣" * len(visible)
    return visible if len(visible) <= most else visible[: most - 1] + "…"


def ordinal(number: int) -> str:
    """An ordinal number: 2nd, 13th."""
    ending = "th" if 10 < number % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def token_label(token: str) -> str:
    """A token on an axis: the marks that start a word in many vocabularies become a dot."""
    return shown(f"·{token[1:]}" if len(token) > 1 and token.startswith(("▁", "Ġ")) else token)


def png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """`pixels` (rows, columns, 3) as a PNG file."""
    height, width, _ = pixels.shape
    lines = np.zeros((height, 1 + 3 * width), dtype=np.uint8)  # each line starts with filter 0: none
    lines[:, 1:] = pixels.reshape(height, 3 * width)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
