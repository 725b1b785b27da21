"""The vectors whose sum enters an encoder → a View: token + segment + position, and the normalized sum.

Texts are cut after MAX_TOKENS tokens. Of wide vectors every n-th number is drawn, not averaged, and the page states n.
The three vectors and their sum share one color scale, so that their sizes can be compared. This module knows no model
and adds nothing up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.utils.errors import UsageError
from regard.views.picture import MUTED, Picture, pixels_of, token_label, visible_text
from regard.views.view import View

MAX_TOKENS = 96
MAX_NUMBERS = 48  # of each vector
SCALE_QUANTILE = 0.98  # this share of the numbers is within the color scale
SEGMENTS = "ABCDEFGH"
SEGMENT_COLORS = ("#dcdcfa", "#fde2c8", "#cdeede", "#fad7e6")
ROWS = {  # rows of the figure: name of the array → its sign and label
    "token_vectors": ("", "token"),
    "segment_vectors": ("+", "segment"),
    "position_vectors": ("+", "position"),
    "sums": ("=", "sum"),
    "normalized": ("→", "after LayerNorm"),
}

Array = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class InputSums:
    """The tokens of one or two texts, and their vectors: (tokens, d_model) each."""

    tokens: Sequence[str]
    ids: Sequence[int]
    segments: Sequence[int]
    token_vectors: Array
    segment_vectors: Array
    position_vectors: Array
    sums: Array
    normalized: Array

    def __post_init__(self) -> None:
        count = len(self.tokens)
        for name in ("ids", "segments"):
            if not count or len(getattr(self, name)) != count:
                raise UsageError(f"{count} tokens and {len(getattr(self, name))} {name} do not fit.", argument=name)
        shape = (count, self.sums.shape[-1])
        for name, array in self.arrays.items():
            if array.shape != shape:
                raise UsageError(f"{name} has shape {array.shape}; it must be {shape}.", argument=name)
            if not np.isfinite(array).all():
                raise UsageError(f"{name} has NaN or infinity; only finite numbers can be drawn.", argument=name)

    @property
    def arrays(self) -> dict[str, Array]:
        return {name: getattr(self, name) for name in ROWS}

    def lines(self) -> list[str]:
        """A line for each token with its id, segment and position."""
        width = max(5, *(len(visible_text(token)) for token in self.tokens))
        lines = [f"{'token':<{width}}  {'id':>7}  segment  position"]
        for position, (token, token_id, segment) in enumerate(zip(self.tokens, self.ids, self.segments, strict=True)):
            lines.append(f"{visible_text(token):<{width}}  {token_id:>7}  {SEGMENTS[segment]:<7}  {position:>8}")
        return lines

    def numbers(self) -> dict[str, Any]:
        return {
            "tokens": list(self.tokens),
            "ids": [int(token_id) for token_id in self.ids],
            "segments": list(self.segments),
            **{label.replace(" ", "_"): self.arrays[name].tolist() for name, (_, label) in ROWS.items()},
        }


def inputs_view(inputs: InputSums, *, title: str, note: str = "") -> View:
    """A view of the input of the first block. `note` is a sentence shown under the title."""
    d_model = inputs.sums.shape[1]
    every = math.ceil(d_model / MAX_NUMBERS)
    *summed, normalized = inputs.arrays.values()
    limit = _limit(summed)
    rows = [
        {
            "name": label,
            "sign": sign,
            "limit": _limit([array]) if array is normalized else limit,
            "length": _round(np.linalg.norm(array, axis=1).mean()),
            "vectors": [[_round(number) for number in vector] for vector in array[:MAX_TOKENS, ::every]],
        }
        for (sign, label), array in zip(ROWS.values(), inputs.arrays.values(), strict=True)
    ]
    data = {
        "tokens": [token_label(token) for token in inputs.tokens[:MAX_TOKENS]],
        "count": len(inputs.tokens),
        "ids": [int(token_id) for token_id in inputs.ids[:MAX_TOKENS]],
        "segments": [SEGMENTS[segment] for segment in inputs.segments[:MAX_TOKENS]],
        "width": d_model,
        "every": every,
        "rows": rows,
    }
    return View("inputs", data, title, _draw, inputs.lines(), inputs.numbers, note)


def _limit(arrays: Sequence[Array]) -> float:
    """The largest value of the color scale that `arrays` share."""
    numbers = np.abs(np.concatenate([array[:MAX_TOKENS].ravel() for array in arrays]))
    return _round(np.quantile(numbers, SCALE_QUANTILE)) or _round(numbers.max()) or 1.0


def _round(number: Any) -> float:
    return float(f"{number:.4g}")


def _draw(data: dict[str, Any]) -> Picture:
    """The figure as a still picture: bands of tokens, below each token its five vectors."""
    margin, left, column, line, strip, width = 24, 150, 74, 34, 12, 1000
    tokens, rows, every = data["tokens"], data["rows"], data["every"]
    per_band = (width - left - margin) // column
    band_height = 68 + len(rows) * line
    picture = Picture(width, 84 + math.ceil(len(tokens) / per_band) * band_height, visible_text(data["title"], 100))
    thinned = f" (1 in {every} is drawn)" if every > 1 else ""
    cut = f"; the first {len(tokens)} of {data['count']} tokens" if data["count"] > len(tokens) else ""
    picture.heading(margin, f"vectors of {data['width']} numbers{thinned}{cut}")
    for position, (token, segment) in enumerate(zip(tokens, data["segments"], strict=True)):
        band, place = divmod(position, per_band)
        x, top = left + place * column, 84.0 + band * band_height
        if place == 0:
            for index, row in enumerate(rows):
                picture.text(left - 12, top + 64 + index * line, f"{row['sign']} {row['name']}".strip(), anchor="end")
        color = SEGMENT_COLORS[SEGMENTS.index(segment) % len(SEGMENT_COLORS)]
        picture.rectangle(x, top, column - 6, 28, fill=color, radius=6)
        picture.text(x + (column - 6) / 2, top + 19, visible_text(token, 9), anchor="middle")
        symbols = (visible_text(token, 8), segment, str(position), "", "")  # indices of the E of each vector
        for index, (row, symbol) in enumerate(zip(rows, symbols, strict=True)):
            y = top + 50 + index * line
            if symbol:
                picture.text(x, y - 3, f"E {symbol}", size=10, fill=MUTED)
            pixels = pixels_of(np.array([row["vectors"][position]]), row["limit"], signed=True)
            picture.image(x, y, column - 6, strip, pixels)
    return picture
