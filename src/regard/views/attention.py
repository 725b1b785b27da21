"""Attention weights with their tokens → a View, or a file of numbers.

One viewer serves every kind of attention: heat map, lines between tokens, and an overview of all heads. This
module checks the weights, packs them small enough that 512 tokens × 144 heads open smoothly, and draws the
first state as a still picture. It does not know any model, and computes no weights itself.

Packing. A weight w is stored as the integer nearest to √w · L, with L = 65535, or 255 when all maps together
hold more than SIXTEEN_BIT_LIMIT weights, and read back as (q / L)². The root spends the levels where
attention lives, near zero: with linear steps of 1/255 an even look at 512 tokens would vanish. The error is at
most √w/L + 1/(4L²): below 1.6e-5 for 16 bits, below 0.004 for 8 bits, and 20 times smaller for weights
near 0.002. Each layer is compressed on its own, and the browser unpacks only the layer that is shown.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.utils.errors import UsageError, unknown
from regard.views.packing import packed
from regard.views.picture import INK, MUTED, Picture, text_width, token_label
from regard.views.view import View, write_whole

SIXTEEN_BIT_LIMIT = 6_000_000  # weights in one view; above it 8 bits keep the page small
ROW_SUM_TOLERANCE = 0.02  # half-precision softmax rows miss 1 by up to about this much
COLOUR_STOPS = ("#f6f5f2", "#d5d6ee", "#a3a6e1", "#6c66c8", "#43329a", "#241957")  # low to high, on light paper
GOLD_COLOUR = "#e07b00"

_ADDRESS = re.compile(r"^(?P<stack>[\w.]+?)\.(?P<layer>\d+)\.(?P<role>\w+)$")
_KINDS = {  # what the two ends of each kind of attention are called
    "encoder.self": ("Encoder self", "in–in"),
    "decoder.self": ("Decoder self", "out–out"),
    "decoder.cross": ("Cross", "in–out"),
}
_RECTANGLE_LIMIT = 10_000  # cells drawn one by one in a still picture; more become one image


@dataclass(frozen=True, kw_only=True, eq=False)
class AttentionMap:
    """The weights of one attention layer, all heads, with the tokens on both axes."""

    address: str  # where in the model: "encoder.0.self", "decoder.2.cross"
    rows: Sequence[str]  # query tokens
    columns: Sequence[str]  # key tokens
    weights: npt.NDArray[Any]  # (heads, queries, keys); each row sums to 1, or to 0 where nothing may be seen

    def __post_init__(self) -> None:
        weights = np.asarray(self.weights)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "rows", tuple(self.rows))
        object.__setattr__(self, "columns", tuple(self.columns))
        _check(self)


def attention_view(
    maps: Sequence[AttentionMap],
    *,
    title: str,
    note: str = "",
    initial: str | None = None,
    initial_head: int | None = None,
    gold: Sequence[tuple[int, int]] | None = None,
) -> View:
    """A view of `maps` that opens at address `initial` (the first map) and `initial_head` (the mean of all).

    `gold` holds true (row, column) links, outlined in the cross-attention maps, or in all maps where there is
    no cross-attention. `note` is a sentence shown under the title.
    """
    maps = list(maps)
    if not maps:
        raise UsageError("an attention view needs at least one map; none was given. Capture a layer first.")
    addresses = [one.address for one in maps]
    twice = next((address for address in addresses if addresses.count(address) > 1), None)
    if twice is not None:
        raise UsageError(f"two maps have the address {twice!r}; give each layer and kind once.")
    if initial is not None and initial not in addresses:
        raise unknown("attention address", initial, addresses)
    first = maps[addresses.index(initial)] if initial is not None else maps[0]
    heads = len(first.weights)
    if initial_head is not None and not 0 <= initial_head < heads:
        raise UsageError(
            f"initial_head is {initial_head}, but {first.address} has heads 0 to {heads - 1}; "
            "leave it out for the mean of all heads."
        )
    links = _checked_gold(gold or (), maps)
    data = _data(maps, title=title, note=note, first=first, head=initial_head, gold=links)
    draw = partial(_draw, first, head=initial_head, title=title, gold=links if _is_linked(first, maps) else [])
    return View("attention", data, title, draw)


def pack(weights: npt.NDArray[Any], levels: int) -> str:
    """Weights as base64 text of zlib-compressed little-endian integers (see the top of this module)."""
    roots = np.sqrt(np.clip(weights, 0.0, 1.0).astype(np.float64))
    return packed(np.rint(roots * levels).astype("<u2" if levels > 255 else "u1"))


def save_weights(path: str | os.PathLike[str], attention_map: AttentionMap) -> Path:
    """Write the weights with their tokens, by the ending of `path`; every number is kept exactly.

    `.csv`: a line per head and query, a column per key. `.json`: one object. `.npy`: the array (heads, queries,
    keys), with the tokens beside it in `<name>.tokens.json`.
    """
    target = Path(path)
    suffix = target.suffix.lower()
    labels = {
        "address": attention_map.address,
        "rows": list(attention_map.rows),
        "columns": list(attention_map.columns),
    }
    if suffix == ".csv":
        write_whole(target, _csv(attention_map).encode("utf-8", "replace"))
    elif suffix == ".json":
        content = {**labels, "weights": attention_map.weights.tolist()}
        write_whole(target, json.dumps(content).encode("utf-8"))
    elif suffix == ".npy":
        stream = io.BytesIO()
        np.save(stream, attention_map.weights, allow_pickle=False)
        write_whole(target, stream.getvalue())
        write_whole(target.with_suffix(".tokens.json"), json.dumps(labels).encode("utf-8"))
    else:
        raise UsageError(f"cannot save attention weights as {target.name!r}: use .npy, .csv or .json.")
    return target


def _check(one: AttentionMap) -> None:
    where = f"attention map {one.address!r}"
    weights = one.weights
    if not one.address:
        raise UsageError("an attention map needs an address such as 'encoder.0.self'; it was empty.")
    if weights.ndim != 3 or 0 in weights.shape:
        raise UsageError(
            f"{where}: weights have shape {weights.shape}; they must be (heads, queries, keys), none of them 0."
        )
    if weights.shape[1:] != (len(one.rows), len(one.columns)):
        raise UsageError(
            f"{where}: weights have shape {weights.shape}, but there are {len(one.rows)} row tokens and "
            f"{len(one.columns)} column tokens; the last two sizes must be those."
        )
    for name, tokens in (("rows", one.rows), ("columns", one.columns)):
        odd = next((token for token in tokens if not isinstance(token, str)), None)
        if odd is not None:
            raise UsageError(f"{where}: {name} must be tokens (strings), but hold {odd!r}; decode the ids first.")
    if not np.issubdtype(weights.dtype, np.floating):
        raise UsageError(f"{where}: weights are {weights.dtype}; give floating-point numbers.")
    if not np.isfinite(weights).all():
        raise UsageError(f"{where}: weights hold NaN or infinity; they must be numbers from 0 to 1.")
    if weights.min() < 0 or weights.max() > 1 + ROW_SUM_TOLERANCE:
        raise UsageError(
            f"{where}: weights go from {weights.min():.4g} to {weights.max():.4g}; they must lie between 0 and 1. "
            "Pass the softmax's output, not its scores."
        )
    sums = weights.sum(axis=-1, dtype=np.float64)
    wrong = np.argwhere((np.abs(sums - 1) > ROW_SUM_TOLERANCE) & (sums != 0))
    if len(wrong):
        head, row = (int(index) for index in wrong[0])
        raise UsageError(
            f"{where}: the weights of head {head}, row {row} ({one.rows[row]!r}) sum to {sums[head, row]:.4g}; "
            "each row must sum to 1 (or to 0 where everything is masked). Are the axes the right way round?"
        )


def _checked_gold(gold: Sequence[tuple[int, int]], maps: Sequence[AttentionMap]) -> list[list[int]]:
    links = [[int(row), int(column)] for row, column in gold]
    for one in maps:
        if not _is_linked(one, maps):
            continue
        for row, column in links:
            if not (0 <= row < len(one.rows) and 0 <= column < len(one.columns)):
                raise UsageError(
                    f"gold link ({row}, {column}) lies outside {one.address}, which has {len(one.rows)} rows and "
                    f"{len(one.columns)} columns; links are (row, column) token positions from 0."
                )
    return links


def _is_linked(one: AttentionMap, maps: Sequence[AttentionMap]) -> bool:
    """Whether gold links belong to this map: to cross-attention, or to every map where there is none."""
    crossing = [other for other in maps if _place(other.address)[0].endswith(".cross")]
    return one in crossing if crossing else True


def _place(address: str) -> tuple[str, int]:
    """The kind and layer of an address: "decoder.2.cross" → ("decoder.cross", 2)."""
    found = _ADDRESS.match(address)
    return (f"{found['stack']}.{found['role']}", int(found["layer"])) if found else (address, 0)


def _data(
    maps: Sequence[AttentionMap],
    *,
    title: str,
    note: str,
    first: AttentionMap,
    head: int | None,
    gold: list[list[int]],
) -> dict[str, Any]:
    levels = 65535 if sum(one.weights.size for one in maps) <= SIXTEEN_BIT_LIMIT else 255
    axes: list[Sequence[str]] = []  # layers share their tokens; each list is written once

    def axis(tokens: Sequence[str]) -> int:
        if tokens not in axes:
            axes.append(tokens)
        return axes.index(tokens)

    packed = []
    for one in maps:
        kind, layer = _place(one.address)
        label, ends = _KINDS.get(kind, (kind, ""))
        packed.append(
            {
                "address": one.address,
                "kind": kind,
                "label": label,
                "ends": ends,
                "layer": layer,
                "grows": kind.startswith("decoder"),  # its rows come one by one while decoding
                "heads": len(one.weights),
                "rows": axis(one.rows),
                "columns": axis(one.columns),
                "gold": _is_linked(one, maps),
                "weights": pack(one.weights, levels),
            }
        )
    return {
        "title": title,
        "note": note,
        "levels": levels,
        "axes": [list(tokens) for tokens in axes],
        "maps": packed,
        "initial": {"address": first.address, "head": head},
        "gold": gold,
    }


def _csv(one: AttentionMap) -> str:
    digits = 17 if one.weights.dtype.itemsize > 4 else 9  # enough to give the same float back
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["head", "query", *one.columns])
    for head, matrix in enumerate(one.weights):
        for token, row in zip(one.rows, matrix, strict=True):
            writer.writerow([head, token, *(f"{weight:.{digits}g}" for weight in row.tolist())])
    return stream.getvalue()


def colour_table(stops: Sequence[str] = COLOUR_STOPS) -> npt.NDArray[np.uint8]:
    """256 colours (256, 3) that run evenly through `stops`."""
    corners = np.array([[int(stop[at : at + 2], 16) for at in (1, 3, 5)] for stop in stops], dtype=np.float64)
    places = np.linspace(0, len(stops) - 1, 256)
    channels = [np.interp(places, np.arange(len(stops)), corners[:, channel]) for channel in range(3)]
    return np.rint(np.stack(channels, axis=1)).astype(np.uint8)


def _draw(one: AttentionMap, *, head: int | None, title: str, gold: list[list[int]]) -> Picture:
    """The heat map of one head, or of the mean of all, as a still picture."""
    matrix = (one.weights.mean(axis=0) if head is None else one.weights[head]).astype(np.float64)
    rows, columns = matrix.shape
    cell = min(36.0, max(1.5, 760 / max(rows, columns)))
    every = max(1, int(np.ceil(13 / cell)))  # labels thin out before they touch
    font = min(13.0, max(9.0, cell * 0.62)) if every == 1 else 11.0
    margin = 24
    row_labels = [token_label(token) for token in one.rows]
    column_labels = [token_label(token) for token in one.columns]
    left = margin + 18 + max(text_width(label, font) for label in row_labels[::every]) + 10
    reach = max(text_width(label, font) for label in column_labels[::every]) * 0.71  # at 45 degrees
    top = margin + 54 + 22 + reach + 12
    width = max(left + columns * cell + reach + margin, 420, margin * 2 + text_width(title, 18))
    picture = Picture(width, top + rows * cell + 70, title)

    which = f"head {head or 0}" if head is not None or len(one.weights) == 1 else "mean of all heads"
    picture.text(margin, margin + 16, title, size=18, weight=600)
    picture.text(margin, margin + 36, f"{one.address} · {which}", fill=MUTED)
    picture.text(left, margin + 66, "key →", size=11, fill=MUTED)
    picture.text(margin, top, "query →", size=11, fill=MUTED, angle=90)
    for index in range(0, columns, every):
        picture.text(left + (index + 0.5) * cell + font * 0.3, top - 8, column_labels[index], size=font, angle=-45)
    for index in range(0, rows, every):
        baseline = top + (index + 0.5) * cell + font * 0.35
        picture.text(left - 9, baseline, row_labels[index], size=font, anchor="end")

    table = colour_table()
    scale = max(float(matrix.max()), 1e-9)
    painted = table[np.rint(matrix / scale * 255).astype(int)]  # (rows, columns, 3)
    if matrix.size <= _RECTANGLE_LIMIT:
        gap = 2 if cell >= 16 else 0
        for row, column in np.ndindex(rows, columns):
            red, green, blue = painted[row, column]
            picture.rectangle(
                left + column * cell + gap / 2,
                top + row * cell + gap / 2,
                cell - gap,
                cell - gap,
                fill=f"#{red:02x}{green:02x}{blue:02x}",
                radius=3 if gap else 0,
            )
    else:
        picture.image(left, top, columns * cell, rows * cell, painted)
    for row, column in gold:
        picture.rectangle(
            left + column * cell + 1,
            top + row * cell + 1,
            cell - 2,
            cell - 2,
            fill="none",
            stroke=GOLD_COLOUR,
            radius=4,
        )
    _draw_legend(picture, left, top + rows * cell + 24, table, scale, with_gold=bool(gold))
    return picture


def _draw_legend(
    picture: Picture, x: float, y: float, table: npt.NDArray[np.uint8], scale: float, *, with_gold: bool
) -> None:
    picture.image(x, y, 160, 10, table[None, :, :])
    picture.text(x, y + 25, "0", size=11, fill=MUTED)
    picture.text(x + 160, y + 25, f"{scale:.2f}", size=11, fill=MUTED, anchor="end")
    picture.text(x + 80, y + 25, "weight", size=11, fill=MUTED, anchor="middle")
    if with_gold:
        picture.rectangle(x + 186, y - 1, 12, 12, fill="none", stroke=GOLD_COLOUR, radius=3)
        picture.text(x + 205, y + 9, "gold alignment", size=11, fill=INK)
