"""Show attention weights with their tokens as a View, or save them to a file.

One viewer shows every kind of attention: heat map, lines between tokens, and an overview of all heads. This
module checks the weights, packs them so that 512 tokens × 144 heads open smoothly, and draws the first state as a
still picture. It depends on no model and computes no weights.

Packing. A weight w is stored as the integer nearest to √w · L, with L = 65535, or 255 if all maps together have more
than SIXTEEN_BIT_LIMIT weights, and decoded as (q / L)². The root gives small weights more levels: with linear steps
of 1/255, uniform attention over 512 tokens would vanish. The error is at most √w/L + 1/(4L²): below 1.6e-5 for 16
bits, below 0.004 for 8 bits, and 20 times smaller for weights near 0.002. Each layer is compressed separately, and the
browser unpacks only the layer that it shows.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.nn.hooks import Trace
from regard.utils.atomic_files import write_file
from regard.utils.errors import UsageError, unknown
from regard.views.picture import MUTED, Picture, color_table, pixels_of, text_width, token_label
from regard.views.view import View, pack_integers

SIXTEEN_BIT_LIMIT = 6_000_000  # weights in one view; above it, 8 bits keep the page small
ROW_SUM_TOLERANCE = 0.02  # half-precision softmax rows miss 1 by up to about this much
GOLD_COLOR = "#e07b00"

_ADDRESS = re.compile(r"^([\w.]+?)\.(\d+)\.(\w+)$")  # stack, layer, role
_KINDS = {  # label of each kind of attention, and what its queries and keys are
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
    weights: npt.NDArray[Any]  # (heads, queries, keys); each row sums to 1, or to 0 if everything is masked

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", np.asarray(self.weights))
        object.__setattr__(self, "rows", tuple(self.rows))
        object.__setattr__(self, "columns", tuple(self.columns))

        def error(argument: str, message: str) -> UsageError:
            return UsageError(f"attention map {self.address!r}: {message}", argument=argument)

        weights, shape = self.weights, self.weights.shape
        if not self.address:
            raise error("address", "the address is empty. Give one such as 'encoder.0.self'.")
        if weights.ndim != 3 or 0 in shape:
            raise error("weights", f"weights have shape {shape}; they must be (heads, queries, keys), none of them 0.")
        for axis, (name, tokens) in enumerate((("rows", self.rows), ("columns", self.columns)), 1):
            if len(tokens) != shape[axis]:
                message = (
                    f"got {len(tokens)} {name}, but axis {axis} of the weights has size {shape[axis]} (shape {shape})."
                )
                raise error(name, message)
            no_token = next((token for token in tokens if not isinstance(token, str)), None)
            if no_token is not None:
                raise error(name, f"{name} must be tokens (strings), but have {no_token!r}. Decode the ids first.")
        if not np.issubdtype(weights.dtype, np.floating):
            raise error("weights", f"weights are {weights.dtype}; they must be floating-point numbers.")
        if not np.isfinite(weights).all():
            raise error("weights", "weights have NaN or infinity; they must be numbers from 0 to 1.")
        low, high = weights.min(), weights.max()
        if low < 0 or high > 1 + ROW_SUM_TOLERANCE:
            message = f"weights range from {low:.4g} to {high:.4g}, not from 0 to 1. Pass the output of the softmax."
            raise error("weights", message)
        sums = weights.sum(axis=-1, dtype=np.float64)
        wrong = np.argwhere((np.abs(sums - 1) > ROW_SUM_TOLERANCE) & (sums != 0))
        if len(wrong):
            head, row = (int(index) for index in wrong[0])
            wrong_sum = f"the weights of head {head}, row {row} ({self.rows[row]!r}) sum to {sums[head, row]:.4g}"
            advice = "Check that axis 1 has the queries and axis 2 the keys."
            raise error("weights", f"{wrong_sum}; each row must sum to 1 (or to 0 if everything is masked). {advice}")

    @property
    def kind(self) -> str:
        """The address without its layer: "decoder.2.cross" → "decoder.cross"."""
        return _ADDRESS.sub(r"\1.\3", self.address)

    @property
    def layer(self) -> int:
        match = _ADDRESS.match(self.address)
        return int(match[2]) if match else 0

    def labels(self) -> dict[str, Any]:
        """The address and the tokens, as JSON values."""
        return {"address": self.address, "rows": list(self.rows), "columns": list(self.columns)}

    def numbers(self) -> dict[str, Any]:
        """The weights with their tokens, as JSON values."""
        return {**self.labels(), "weights": self.weights.tolist()}


def trace_maps(trace: Trace, *, batch: int = 0) -> list[AttentionMap]:
    """Return all attention maps for one text of a trace, in forward-pass order, without padding."""
    if not trace.captured:
        raise UsageError("the trace is empty: run the model inside the `with capture(model)` block.", argument="trace")
    maps = []
    for address in trace.captured:
        weights = trace.weights(address, batch=batch).detach().float().cpu().numpy()
        rows, columns = trace.labels(address, batch)
        # A text that is shorter than its batch has padding at its end: masked as a key, meaningless as a query.
        weights = weights[:, : len(rows), : len(columns)]
        maps.append(AttentionMap(address=address, rows=rows, columns=columns, weights=weights))
    return maps


def default_map(maps: Sequence[AttentionMap]) -> str:
    """Return the address to show first: the last cross-attention, or the last map if there is no cross-attention."""
    return next((m.address for m in reversed(maps) if m.address.endswith(".cross")), maps[-1].address)


def attention_view(
    maps: Sequence[AttentionMap],
    *,
    title: str,
    note: str = "",
    initial: str | None = None,
    initial_head: int | None = None,
    gold: Sequence[tuple[int, int]] | None = None,
) -> View:
    """A view of `maps` that opens at address `initial` (default: the first) and `initial_head` (default: the mean).

    `gold` contains gold alignments as (row, column). They are outlined in the cross-attention maps, or in all maps if
    there is no cross-attention. `note` is a sentence shown under the title. Saved as .csv (a line per head and query, a
    column per key), .json or .npy, the view writes the weights of its initial map without rounding.
    """
    if not maps:
        raise UsageError("an attention view needs at least one map. Capture a layer first.", argument="maps")
    by_address: dict[str, AttentionMap] = {}
    for m in maps:
        if by_address.setdefault(m.address, m) is not m:
            message = f"two maps have the address {m.address!r}; pass each attention layer once."
            raise UsageError(message, argument="maps", value=m.address)
    if initial is not None and initial not in by_address:
        raise unknown("attention address", initial, by_address)
    first = maps[0] if initial is None else by_address[initial]
    heads = len(first.weights)
    if initial_head is not None and not 0 <= initial_head < heads:
        message = f"{first.address} has heads 0 to {heads - 1}, got {initial_head}. For the mean of all heads, omit it."
        raise UsageError(message, argument="initial_head", value=initial_head, allowed=range(heads))
    cross = [m for m in maps if m.kind.endswith(".cross")]
    aligned = cross or maps  # the maps that gold alignments belong to
    links = [[int(row), int(column)] for row, column in gold or ()]
    for m in aligned:
        for row, column in links:
            if not (0 <= row < len(m.rows) and 0 <= column < len(m.columns)):
                shape = f"{len(m.rows)} rows and {len(m.columns)} columns"
                message = f"gold link (row {row}, column {column}) is outside {m.address}, which has {shape}."
                raise UsageError(message, argument="gold", value=(row, column))
    levels = 65535 if sum(m.weights.size for m in maps) <= SIXTEEN_BIT_LIMIT else 255
    axes = list(dict.fromkeys(tokens for m in maps for tokens in (m.rows, m.columns)))  # layers share their tokens
    data = {
        "levels": levels,
        "axes": [list(tokens) for tokens in axes],
        "maps": [_map_data(m, axes, levels, gold=m in aligned) for m in maps],
        "initial": {"address": first.address, "head": initial_head},
        "gold": links,
    }
    draw = partial(_draw, first, gold=links if first in aligned else [])
    writers = {".csv": _save_csv, ".json": _save_json, ".npy": _save_npy}
    exports = {suffix: partial(save, first) for suffix, save in writers.items()}
    return View("attention", data, title, draw, (), lambda: {"attention": [m.numbers() for m in maps]}, note, exports)


def _map_data(m: AttentionMap, axes: Sequence[Sequence[str]], levels: int, *, gold: bool) -> dict[str, Any]:
    label, ends = _KINDS.get(m.kind, (m.kind, ""))
    return {
        "address": m.address,
        "kind": m.kind,
        "label": label,
        "ends": ends,
        "layer": m.layer,
        "grows": m.kind.startswith("decoder"),  # decoding adds its rows one by one
        "heads": len(m.weights),
        "rows": axes.index(m.rows),
        "columns": axes.index(m.columns),
        "gold": gold,
        "weights": pack(m.weights, levels),
    }


def pack(weights: npt.NDArray[Any], levels: int) -> str:
    """Pack weights as the module docstring describes."""
    roots = np.sqrt(np.clip(weights, 0.0, 1.0).astype(np.float64))
    return pack_integers(np.rint(roots * levels).astype("<u2" if levels > 255 else "u1"))


def _save_json(m: AttentionMap, path: Path) -> None:
    write_file(path, json.dumps(m.numbers()), parents=True)


def _save_npy(m: AttentionMap, path: Path) -> None:
    """Write the array (heads, queries, keys), and its tokens to `<name>.tokens.json` in the same folder."""
    stream = io.BytesIO()
    np.save(stream, m.weights, allow_pickle=False)
    write_file(path, stream.getvalue(), parents=True)
    write_file(path.with_suffix(".tokens.json"), json.dumps(m.labels()))


def _save_csv(m: AttentionMap, path: Path) -> None:
    digits = 17 if m.weights.dtype.itemsize > 4 else 9  # enough to restore the same float
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["head", "query", *m.columns])
    for head, matrix in enumerate(m.weights):
        for token, row in zip(m.rows, matrix, strict=True):
            writer.writerow([head, token, *(f"{weight:.{digits}g}" for weight in row.tolist())])
    write_file(path, stream.getvalue(), parents=True)


def _draw(m: AttentionMap, data: dict[str, Any], *, gold: list[list[int]]) -> Picture:
    """Draw the heat map of one head, or of the mean of all heads, as a still picture."""
    title, head = data["title"], data["initial"]["head"]
    matrix = (m.weights.mean(axis=0) if head is None else m.weights[head]).astype(np.float64)
    rows, columns = matrix.shape
    cell = min(36.0, max(1.5, 760 / max(rows, columns)))
    every = max(1, int(np.ceil(13 / cell)))  # draw fewer labels before they touch
    font = min(13.0, max(9.0, cell * 0.62)) if every == 1 else 11.0
    margin = 24
    row_labels, column_labels = ([token_label(token) for token in tokens] for tokens in (m.rows, m.columns))
    left = margin + 18 + max(text_width(label, font) for label in row_labels[::every]) + 10
    reach = max(text_width(label, font) for label in column_labels[::every]) * 0.71  # at 45 degrees
    top = margin + 54 + 22 + reach + 12
    width = max(left + columns * cell + reach + margin, 420, margin * 2 + text_width(title, 18))
    picture = Picture(width, top + rows * cell + 70, title)
    is_mean = head is None and len(m.weights) > 1
    picture.heading(margin, f"{m.address} · {'mean of all heads' if is_mean else f'head {head or 0}'}")
    picture.text(left, margin + 66, "key →", size=11, fill=MUTED)
    picture.text(margin, top, "query →", size=11, fill=MUTED, angle=90)
    for index in range(0, columns, every):
        picture.text(left + (index + 0.5) * cell + font * 0.3, top - 8, column_labels[index], size=font, angle=-45)
    for index in range(0, rows, every):
        baseline = top + (index + 0.5) * cell + font * 0.35
        picture.text(left - 9, baseline, row_labels[index], size=font, anchor="end")

    scale = max(float(matrix.max()), 1e-9)
    pixels = pixels_of(matrix, scale)  # (rows, columns, 3)
    if matrix.size <= _RECTANGLE_LIMIT:
        gap, side = (2, cell - 2) if cell >= 16 else (0, cell)
        for row, column in np.ndindex(rows, columns):
            x, y = left + column * cell + gap / 2, top + row * cell + gap / 2
            fill = f"#{pixels[row, column].tobytes().hex()}"
            picture.rectangle(x, y, side, side, fill=fill, radius=3 if gap else 0)
    else:
        picture.image(left, top, columns * cell, rows * cell, pixels)
    for row, column in gold:
        x, y = left + column * cell + 1, top + row * cell + 1
        picture.rectangle(x, y, cell - 2, cell - 2, fill="none", stroke=GOLD_COLOR, radius=4)

    y = top + rows * cell + 24
    picture.image(left, y, 160, 10, color_table()[None, :, :])
    for x, anchor, text in ((0, "start", "0"), (160, "end", f"{scale:.2f}"), (80, "middle", "weight")):
        picture.text(left + x, y + 25, text, size=11, fill=MUTED, anchor=anchor)
    if gold:
        picture.rectangle(left + 186, y - 1, 12, 12, fill="none", stroke=GOLD_COLOR, radius=3)
        picture.text(left + 205, y + 9, "gold alignment", size=11)
    return picture
