"""The vectors of which BERT's input is the sum → a View: token + segment + position, and that normalized.

What is drawn. Long texts are drawn up to MOST_TOKENS tokens. Of wide vectors every n-th number is taken as it is, and
the page says which n. The three vectors and their sum share one scale of colours, so that it can be seen how much each
of them adds. This module knows no model and adds nothing up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.utils.errors import UsageError
from regard.views.attention import colour_table
from regard.views.picture import INK, MUTED, Picture, ordinal, shown, token_label
from regard.views.steps import SIGNED_STOPS
from regard.views.view import View

MOST_TOKENS = 96
MOST_NUMBERS = 48  # of each vector
STRONG = 0.98  # this share of the numbers lies within the scale of colours
SEGMENTS = "ABCDEFGH"
# What stands in the rows of the figure, by the name of its array.
ROWS = {
    "token_vectors": "token",
    "segment_vectors": "segment",
    "position_vectors": "position",
    "sums": "sum",
    "normalized": "after LayerNorm",
}
SIGNS = ("", "+", "+", "=", "→")
COLOURS = ("#dcdcfa", "#fde2c8", "#cdeede", "#fad7e6")  # of segments

Array = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class InputSums:
    """The tokens of a text, or of two, and the vectors that belong to them: (tokens, width) each."""

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
        if not count or {len(self.ids), len(self.segments)} != {count}:
            raise UsageError(f"{count} tokens, {len(self.ids)} ids and {len(self.segments)} segments do not fit.")
        shapes = {self.arrays[name].shape for name in ROWS}
        if len(shapes) != 1 or len(self.sums.shape) != 2 or len(self.sums) != count:
            raise UsageError(f"the vectors of {count} tokens must have one shape, (tokens, width), not {shapes}.")
        if not all(np.isfinite(array).all() for array in self.arrays.values()):
            raise UsageError("the vectors hold NaN or infinity; only numbers can be drawn.")

    @property
    def arrays(self) -> dict[str, Array]:
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name in ROWS}

    def lines(self) -> list[str]:
        """A line for each token: what it is, its id, its segment and its position."""
        wide = max(5, *(len(shown(token)) for token in self.tokens))
        rows = [f"{'token':<{wide}}  {'id':>7}  segment  position"]
        for place, (token, number, segment) in enumerate(zip(self.tokens, self.ids, self.segments, strict=True)):
            rows.append(f"{shown(token):<{wide}}  {number:>7}  {SEGMENTS[segment]:<7}  {place:>8}")
        return rows

    def numbers(self) -> dict[str, Any]:
        return {
            "tokens": list(self.tokens),
            "ids": [int(number) for number in self.ids],
            "segments": list(self.segments),
            **{ROWS[name].replace(" ", "_"): array.tolist() for name, array in self.arrays.items()},
        }


def inputs_view(found: InputSums, *, title: str, note: str = "") -> View:
    """A view of the input of the first block. `note` is a sentence shown under the title."""
    every = math.ceil(found.sums.shape[1] / MOST_NUMBERS)
    limits = _limits(found)
    data = {
        "title": title,
        "note": note,
        "tokens": [token_label(token) for token in found.tokens[:MOST_TOKENS]],
        "count": len(found.tokens),
        "ids": [int(number) for number in found.ids[:MOST_TOKENS]],
        "segments": [SEGMENTS[segment] for segment in found.segments[:MOST_TOKENS]],
        "width": found.sums.shape[1],
        "every": every,
        "rows": [
            {
                "name": name,
                "sign": sign,
                "limit": limits[field],
                "length": _short(float(np.linalg.norm(found.arrays[field], axis=1).mean())),
                "vectors": [[_short(float(number)) for number in row[::every]] for row in _drawn(found, field)],
            }
            for (field, name), sign in zip(ROWS.items(), SIGNS, strict=True)
        ],
    }
    return View("inputs", data, title, partial(_draw, found, title=title))


def _drawn(found: InputSums, field: str) -> Array:
    return found.arrays[field][:MOST_TOKENS]


def _short(number: float) -> float:
    return float(f"{number:.4g}")


def _limits(found: InputSums) -> dict[str, float]:
    """The largest value of the colour scale: one for the vectors and their sum, one for the normalized sum."""

    def end(*names: str) -> float:
        numbers = np.abs(np.concatenate([_drawn(found, name).ravel() for name in names]))
        return _short(float(np.quantile(numbers, STRONG))) or _short(float(numbers.max())) or 1.0

    added = end(*list(ROWS)[:-1])
    return {field: end(field) if field == "normalized" else added for field in ROWS}


def _draw(found: InputSums, *, title: str) -> Picture:
    """The figure as a still picture: bands of tokens, below each its five vectors."""
    margin, left, column, line, strip = 24, 150, 74, 34, 12
    width = 1000
    fit = (width - left - margin) // column
    count = min(len(found.tokens), MOST_TOKENS)
    bands = [range(start, min(start + fit, count)) for start in range(0, count, fit)]
    tall = 46 + len(ROWS) * line
    picture = Picture(width, 84 + len(bands) * (tall + 22), title)
    picture.text(margin, 40, shown(title, 100), size=18, weight=600)
    picture.text(margin, 60, _explanation(found), fill=MUTED)
    limits, table = _limits(found), colour_table(SIGNED_STOPS)
    every = math.ceil(found.sums.shape[1] / MOST_NUMBERS)
    for number, band in enumerate(bands):
        top = 84.0 + number * (tall + 22)
        for at, (name, sign) in enumerate(zip(ROWS.values(), SIGNS, strict=True)):
            picture.text(left - 12, top + 64 + at * line, f"{sign} {name}".strip(), anchor="end")
        for place, token in enumerate(band):
            x = left + place * column
            colour = COLOURS[found.segments[token] % len(COLOURS)]
            picture.rectangle(x, top, column - 6, 28, fill=colour, radius=6)
            label = shown(token_label(found.tokens[token]), 9)
            picture.text(x + (column - 6) / 2, top + 19, label, fill=INK, anchor="middle")
            for at, field in enumerate(ROWS):
                y = top + 50 + at * line
                picture.text(x, y - 3, _symbol(found, field, token), size=10, fill=MUTED)
                levels = found.arrays[field][token, ::every][None] / limits[field] * 0.5 + 0.5
                pixels = table[np.rint(np.clip(levels, 0, 1) * 255).astype(int)]
                picture.image(x, y, column - 6, strip, pixels)
    return picture


def _symbol(found: InputSums, field: str, token: int) -> str:
    """The symbol of a vector: E of a token, a segment or a position."""
    names = {
        "token_vectors": shown(token_label(found.tokens[token]), 8),
        "segment_vectors": SEGMENTS[found.segments[token]],
        "position_vectors": str(token),
    }
    return f"E {names[field]}" if field in names else ""


def _explanation(found: InputSums) -> str:
    width = found.sums.shape[1]
    every = math.ceil(width / MOST_NUMBERS)
    thinned = f", of which every {ordinal(every)} is drawn" if every > 1 else ""
    cut = f"; the first {MOST_TOKENS} of {len(found.tokens)} tokens" if len(found.tokens) > MOST_TOKENS else ""
    return f"vectors of {width} numbers{thinned}{cut}"
