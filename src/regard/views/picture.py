"""A still picture: a small SVG writer, charts, color scales, and the PNG bytes of heat maps inside an SVG.

This module draws shapes and text; other modules choose what to draw. Only this module escapes text for SVG.
"""

from __future__ import annotations

import base64
import math
import struct
import unicodedata
import zlib
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif"
INK, MUTED, RULE, PAPER = "#1d2029", "#646978", "#e3e4ea", "#ffffff"
SERIES_COLORS = ("#4a5fd0", "#d9661f", "#1f8f63", "#c2417f", "#8550c9", "#9a7400")
COLOR_STOPS = ("#f6f5f2", "#d5d6ee", "#a3a6e1", "#6c66c8", "#43329a", "#241957")  # low to high, on light paper
SIGNED_STOPS = ("#7a2e06", "#d9722a", "#f2c49b", "#f6f5f2", "#bdbfea", "#6c66c8", "#2f2179")  # below zero, 0, above

_VISIBLE = {code: 0x2400 + code for code in range(0x20)} | {0x7F: 0x2421}  # control characters → their symbols
_VISIBLE |= dict.fromkeys((*range(0x80, 0xA0), *range(0xD800, 0xE000)), 0xFFFD)
_VISIBLE |= dict.fromkeys((plane << 16 | end for plane in range(17) for end in (0xFFFE, 0xFFFF)), 0xFFFD)


class Picture:
    """Shapes on a page of `width` × `height`; call the methods in painting order, then `svg()`."""

    def __init__(self, width: float, height: float, title: str) -> None:
        self.width = int(width + 0.5)
        self.height = int(height + 0.5)
        self.title = title
        self._parts: list[str] = []

    def heading(self, margin: float, subtitle: str = "") -> None:
        """Draw the title at the top, and a muted line below it."""
        self.text(margin, 40, self.title, size=18, weight=600)
        if subtitle:
            self.text(margin, 62, subtitle, fill=MUTED)

    def rectangle(
        self, x: float, y: float, width: float, height: float, *, fill: str, stroke: str = "", radius: float = 0
    ) -> None:
        outline = f' stroke="{stroke}" stroke-width="2"' if stroke else ""
        corner = f' rx="{_number(radius)}"' if radius else ""
        self._parts.append(f'<rect{_box(x, y, width, height)}{corner} fill="{fill}"{outline}/>')

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

    def polyline(self, points: Iterable[tuple[float, float]], *, stroke: str, width: float = 1.6) -> None:
        path = " ".join(f"{_number(x)},{_number(y)}" for x, y in points)
        self._parts.append(
            f'<polyline points="{path}" fill="none" stroke="{stroke}" stroke-width="{_number(width)}"'
            ' stroke-linejoin="round"/>'
        )

    def image(self, x: float, y: float, width: float, height: float, pixels: npt.NDArray[np.uint8]) -> None:
        """`pixels` (rows, columns, 3) as one image without smoothing."""
        encoded = base64.b64encode(png(pixels)).decode("ascii")
        self._parts.append(
            f'<image{_box(x, y, width, height)} preserveAspectRatio="none" style="image-rendering:pixelated"'
            f' href="data:image/png;base64,{encoded}"/>'
        )

    def legend(self, x: float, y: float, names: Iterable[str]) -> None:
        """Draw the names of a chart's series in one line, each after its color."""
        for number, name in enumerate(names):
            self.rectangle(x, y, 10, 10, fill=series_color(number), radius=3)
            self.text(x + 15, y + 9, name, size=11)
            x += 30 + text_width(name, 11)

    def svg(self) -> str:
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}"'
            f' viewBox="0 0 {self.width} {self.height}" role="img" font-family="{escape(FONT)}">'
            f"<title>{escape(readable(self.title))}</title>"
            f'<rect width="100%" height="100%" fill="{PAPER}"/>' + "".join(self._parts) + "</svg>\n"
        )


def _box(x: float, y: float, width: float, height: float) -> str:
    return f' x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" height="{_number(height)}"'


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def series_color(number: int) -> str:
    return SERIES_COLORS[number % len(SERIES_COLORS)]


def readable(text: str) -> str:
    """`text` without characters that UTF-8 or XML cannot represent: lone surrogates, non-characters, controls."""
    return text.translate(_VISIBLE)


def text_width(text: str, size: float = 13) -> float:
    """Estimate the width of `text`, rather too large, because text cannot be measured without a browser."""
    wide = sum(1 for character in text if unicodedata.east_asian_width(character) in "WF")
    return size * (0.58 * (len(text) - wide) + 1.05 * wide)


def visible_text(token: str, max_length: int = 18) -> str:
    """A token as a label: blanks are visible, long tokens are truncated."""
    if token == "":
        return "∅"
    visible = token.replace("\n", "⏎").replace("\t", "⇥").replace("\r", "␍")
    if visible.strip(" ") == "":
        visible = "␣" * len(visible)
    return visible if len(visible) <= max_length else visible[: max_length - 1] + "…"


def token_label(token: str) -> str:
    """A token on an axis: the marks that start a word in many vocabularies become a dot."""
    return visible_text(f"·{token[1:]}" if len(token) > 1 and token.startswith(("▁", "Ġ")) else token)


def color_table(stops: Sequence[str] = COLOR_STOPS) -> npt.NDArray[np.uint8]:
    """256 colors (256, 3), interpolated evenly between `stops`."""
    corners = np.array([list(bytes.fromhex(stop[1:])) for stop in stops], dtype=np.float64)
    positions = np.linspace(0, len(stops) - 1, 256)
    channels = [np.interp(positions, np.arange(len(stops)), corner) for corner in corners.T]
    table: npt.NDArray[np.uint8] = np.rint(np.stack(channels, axis=1)).astype(np.uint8)
    return table


def pixels_of(values: npt.NDArray[Any], limit: float, *, signed: bool = False) -> npt.NDArray[np.uint8]:
    """The color of each value on a scale from 0 to `limit`, or from -`limit` to `limit`: (…, 3)."""
    levels = values / limit * 0.5 + 0.5 if signed else values / limit
    table = color_table(SIGNED_STOPS if signed else COLOR_STOPS)
    pixels: npt.NDArray[np.uint8] = table[np.rint(np.clip(levels, 0, 1) * 255).astype(int)]
    return pixels


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


# --- Charts -------------------------------------------------------------------------------------------------


def draw_chart(picture: Picture, chart: Mapping[str, Any], x: float, y: float, width: float, height: float) -> None:
    """Draw one chart of a still picture: its title, its axes and its curves."""
    points = [point for series in chart["series"] for point in series["points"] if point[1] is not None]
    picture.text(x, y + 14, chart["title"], weight=600)
    if not points:
        picture.text(x, y + 40, "no finite values", fill=MUTED, size=12)
        return
    left, top, right, bottom = x + 46, y + 44, x + width, y + height - 24
    steps = sorted({point[0] for point in points})
    spreads = [end for series in chart["series"] for _, *ends in series.get("spread", ()) for end in ends]
    transform = math.log10 if chart.get("logAcross") else float
    low_y, high_y = _span([*(point[1] for point in points), *spreads])
    low_x, high_x = map(transform, _span(steps))

    def at(step: float, value: float) -> tuple[float, float]:
        across = (transform(step) - low_x) / (high_x - low_x)
        return left + across * (right - left), bottom - (value - low_y) / (high_y - low_y) * (bottom - top)

    for tick in _ticks(low_y, high_y):
        level = at(steps[0], tick)[1]
        picture.polyline([(left, level), (right, level)], stroke=RULE, width=1)
        picture.text(left - 7, level + 4, f"{tick:g}", size=11, fill=MUTED, anchor="end")
    for tick in steps if chart.get("logAcross") else _ticks(low_x, high_x):
        picture.text(at(tick, low_y)[0], bottom + 16, f"{tick:g}", size=11, fill=MUTED, anchor="middle")
    for index, series in enumerate(chart["series"]):
        color = series_color(index)
        for step, low, high in series.get("spread", ()):
            picture.polyline([at(step, low), at(step, high)], stroke=color, width=1.5)
        run: list[tuple[float, float]] = []
        for step, value in [*series["points"], [0.0, None]]:  # the gap at the end closes the last run
            if value is not None:
                run.append(at(step, value))
            elif run:
                picture.polyline(run, stroke=color)
                run = []
    picture.legend(left, y + 23, (series["name"] for series in chart["series"]))


def _span(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - (abs(low) or 1) / 2, high + (abs(high) or 1) / 2)


def _ticks(low: float, high: float, about: int = 4) -> list[float]:
    """Round numbers from `low` to `high`."""
    rough = (high - low) / about
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough * 0.999)
    return [round(index * step, 12) for index in range(math.ceil(low / step), math.floor(high / step) + 1)]
