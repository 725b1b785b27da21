"""The arrays of one multi-head attention → a View of its five steps, from the words to the layer's output.

The steps are those of the usual figure of eight heads: the sentence, its vectors X, the matrices of each head, the
attention of each head, and the heads joined and multiplied with W^O. This module checks that the arrays fit
together, takes what can be drawn, and packs it. It knows no model and computes nothing that it draws.

What is drawn. Long texts are drawn up to MOST_TOKENS tokens. Wide matrices are sampled: every n-th row or column is
taken as it is, and the page says which n; nothing is averaged, so each number on the page is one of the model's.

Packing. A number v is stored as the 16-bit integer nearest to v / peak · 32767, where peak is the largest absolute
value of its kind (all Q, K and V are one kind): the error is at most peak / 65534.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.utils.errors import UsageError
from regard.views.attention import colour_table
from regard.views.packing import packed
from regard.views.picture import INK, MUTED, RULE, Picture, text_width, token_label
from regard.views.view import View

MOST_TOKENS = 32  # tokens of a text that are drawn
MOST_COLUMNS = 512  # columns drawn of X and of the output
HEAD_COLUMNS = 64  # columns drawn of Q, K, V and Z of a head
HEAD_MATRIX = (64, 32)  # rows and columns drawn of W^Q, W^K and W^V of a head
OUTPUT_MATRIX = (128, 128)  # rows and columns drawn of W^O
MOST_NUMBERS = 320_000  # in one page: with more than this it would pass a megabyte
SIGNED_STOPS = ("#7a2e06", "#d9722a", "#f2c49b", "#f6f5f2", "#bdbfea", "#6c66c8", "#2f2179")  # below zero, 0, above
STRONG = 0.98  # this share of the numbers lies within the scale of colours; a few large ones would bleach the rest

Array = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class AttentionSteps:
    """Everything that one multi-head attention computed for one text."""

    address: str  # where in the model: "encoder.0.self"
    rows: Sequence[str]  # T query tokens
    columns: Sequence[str]  # S key tokens
    inputs: Array  # X (T, D): what entered the attention
    memory: Array | None = None  # M (S, D): what a cross-attention attends to
    query_matrices: Array  # W^Q (H, D, Dh)
    key_matrices: Array  # W^K (H, D, Dh)
    value_matrices: Array  # W^V (H, D, Dh)
    queries: Array  # Q (H, T, Dh), as they were scored
    keys: Array  # K (H, S, Dh), as they were scored
    values: Array  # V (H, S, Dh)
    weights: Array  # (H, T, S), each row summing to 1
    heads: Array  # Z (H, T, Dh): what each head gave
    output_matrix: Array  # W^O (H · Dh, D)
    output: Array  # (T, D): what left the attention
    embedded: bool = True  # whether X are the words' vectors, or R, the output of the block below
    remarks: Mapping[int, str] = field(default_factory=dict)  # step → what else happens there in this model

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", tuple(self.rows))
        object.__setattr__(self, "columns", tuple(self.columns))
        _check(self)

    def numbers(self) -> dict[str, Any]:
        """What was computed for the text, as lists. The matrices W are the model's and not repeated here."""
        computed = ("inputs", "memory", "queries", "keys", "values", "weights", "heads", "output")
        arrays = {name: getattr(self, name) for name in computed}
        return {
            "address": self.address,
            "rows": list(self.rows),
            "columns": list(self.columns),
            **{name: array.tolist() for name, array in arrays.items() if array is not None},
        }


def steps_view(steps: AttentionSteps, *, title: str, note: str = "") -> View:
    """A view of the five steps. `note` is a sentence shown under the title."""
    return View("steps", _data(steps, title=title, note=note), title, partial(_draw, steps, title=title))


def _check(steps: AttentionSteps) -> None:
    if np.ndim(steps.weights) != 3 or np.ndim(steps.inputs) != 2 or np.ndim(steps.queries) != 3:
        raise UsageError(
            f"steps of {steps.address!r}: weights have shape {np.shape(steps.weights)}, inputs "
            f"{np.shape(steps.inputs)} and queries {np.shape(steps.queries)}; "
            "they must be (heads, queries, keys), (queries, width) and (heads, queries, head width)."
        )
    heads, width, head_dim = len(steps.queries), steps.inputs.shape[1], steps.queries.shape[2]
    num_queries, num_keys = len(steps.rows), len(steps.columns)
    matrices = (heads, width, head_dim)
    wanted: dict[str, tuple[int, ...]] = {
        "inputs": (num_queries, width),
        "query_matrices": matrices,
        "key_matrices": matrices,
        "value_matrices": matrices,
        "queries": (heads, num_queries, head_dim),
        "keys": (heads, num_keys, head_dim),
        "values": (heads, num_keys, head_dim),
        "weights": (heads, num_queries, num_keys),
        "heads": (heads, num_queries, head_dim),
        "output_matrix": (heads * head_dim, width),
        "output": (num_queries, width),
    }
    if steps.memory is not None:
        wanted["memory"] = (num_keys, width)
    for name, shape in wanted.items():
        array = np.asarray(getattr(steps, name))
        if array.shape != shape or 0 in shape:
            raise UsageError(
                f"steps of {steps.address!r}: {name} have shape {array.shape}, but {num_queries} query tokens, "
                f"{num_keys} key tokens, {heads} heads of {head_dim} and a width of {width} need {shape}, "
                "none of them 0."
            )
        if not np.isfinite(array).all():
            raise UsageError(f"steps of {steps.address!r}: {name} hold NaN or infinity; only numbers can be drawn.")


class _Matrix(NamedTuple):
    """A matrix with its name, and what is taken of it."""

    name: tuple[str, str, str]  # letter, what stands above it, what stands below
    kind: str  # matrices of one kind share their scale
    array: Array
    tokens: tuple[str, str]  # what its rows and columns are: "query", "key" or "" for plain numbers
    every: tuple[int, int]  # n: every n-th row and column is drawn

    @property
    def drawn(self) -> Array:
        limits = tuple(MOST_TOKENS if tokens else None for tokens in self.tokens)
        return np.asarray(self.array[: limits[0] : self.every[0], : limits[1] : self.every[1]], dtype=np.float64)


def _matrices(steps: AttentionSteps, coarser: int = 1) -> dict[str, list[_Matrix]]:
    """Every matrix of the figure, by the part of the figure where it stands; `coarser` thins out the columns."""
    heads = range(len(steps.heads))

    def every(length: int, most: int) -> int:
        return math.ceil(length * coarser / most)

    def rows_of(name: tuple[str, str, str], kind: str, array: Array, tokens: str, most: int) -> _Matrix:
        return _Matrix(name, kind, array, (tokens, ""), (1, every(array.shape[1], most)))

    def parameters(name: tuple[str, str, str], kind: str, array: Array, most: tuple[int, int]) -> _Matrix:
        rows, columns = (every(length, limit) for length, limit in zip(array.shape, most, strict=True))
        return _Matrix(name, kind, array, ("", ""), (rows, columns))

    def of_heads(letter: str, arrays: Array, tokens: str, kind: str) -> list[_Matrix]:
        return [rows_of((letter, "", str(h)), kind, arrays[h], tokens, HEAD_COLUMNS) for h in heads]

    projections = {"Q": steps.query_matrices, "K": steps.key_matrices, "V": steps.value_matrices}
    enters = rows_of(("X" if steps.embedded else "R", "", ""), "inputs", steps.inputs, "query", MOST_COLUMNS)
    seen = steps.memory
    return {
        "inputs": [enters],
        "memory": [] if seen is None else [rows_of(("M", "", ""), "memory", seen, "key", MOST_COLUMNS)],
        "matrices": [
            parameters(("W", letter, str(h)), "matrices", arrays[h], HEAD_MATRIX)
            for letter, arrays in projections.items()
            for h in heads
        ],
        "queries": of_heads("Q", steps.queries, "query", "projected"),
        "keys": of_heads("K", steps.keys, "key", "projected"),
        "values": of_heads("V", steps.values, "key", "projected"),
        "weights": [_Matrix(("A", "", str(h)), "weights", steps.weights[h], ("query", "key"), (1, 1)) for h in heads],
        "heads": of_heads("Z", steps.heads, "query", "heads"),
        "output_matrix": [parameters(("W", "O", ""), "output matrix", steps.output_matrix, OUTPUT_MATRIX)],
        "output": [rows_of(("Z", "", ""), "output", steps.output, "query", MOST_COLUMNS)],
    }


def _fitting(steps: AttentionSteps) -> dict[str, list[_Matrix]]:
    """The matrices, thinned out until they fit into a page."""
    coarser = 1
    while True:
        parts = _matrices(steps, coarser)
        if sum(one.drawn.size for part in parts.values() for one in part) <= MOST_NUMBERS or coarser >= 64:
            return parts
        coarser *= 2


def _scales(parts: Mapping[str, list[_Matrix]]) -> dict[str, dict[str, float]]:
    """For each kind its largest absolute value, and the one where the colours end."""
    kinds: dict[str, list[Array]] = {}
    for part in parts.values():
        for one in part:
            kinds.setdefault(one.kind, []).append(np.abs(one.drawn).ravel())
    scales = {}
    for kind, found in kinds.items():
        numbers = np.concatenate(found)
        peak = float(numbers.max()) or 1.0
        limit = float(np.quantile(numbers, STRONG))
        # Among attention weights the strong ones are the point; elsewhere it may be that nearly all are zero, or that
        # none stands out.
        if kind == "weights" or limit == 0 or limit > peak * 0.8:
            limit = peak
        scales[kind] = {"peak": peak, "limit": limit}
    return scales


def _data(steps: AttentionSteps, *, title: str, note: str) -> dict[str, Any]:
    parts = _fitting(steps)
    scales = _scales(parts)
    numbers: list[Array] = []
    start = 0

    def described(one: _Matrix) -> dict[str, Any]:
        nonlocal start
        drawn = one.drawn
        numbers.append(np.rint(drawn / scales[one.kind]["peak"] * 32767).astype("<i2").ravel())
        start += drawn.size
        return {
            "name": list(one.name),
            "kind": one.kind,
            "shape": list(one.array.shape),
            "drawn": list(drawn.shape),
            "every": list(one.every),
            "tokens": list(one.tokens),
            "start": start - drawn.size,
        }

    described_parts = {part: [described(one) for one in ones] for part, ones in parts.items()}
    heads, _, head_dim = steps.queries.shape
    return {
        "title": title,
        "note": note,
        "address": steps.address,
        "width": steps.inputs.shape[1],
        "heads": heads,
        "headWidth": head_dim,
        "embedded": steps.embedded,
        "rows": [token_label(token) for token in steps.rows],
        "columns": [token_label(token) for token in steps.columns],
        "wordMarks": any(token.startswith("▁") for token in (*steps.rows, *steps.columns)),
        "mostTokens": MOST_TOKENS,
        "remarks": {str(step): remark for step, remark in steps.remarks.items()},
        "scales": scales,
        "parts": described_parts,
        "numbers": packed(np.concatenate(numbers)),
    }


def _draw(steps: AttentionSteps, *, title: str) -> Picture:
    """The figure as a still picture: the five steps from top to bottom, a line for each head."""
    parts = _fitting(steps)
    scales = _scales(parts)
    heads, num_queries, head_dim = steps.heads.shape
    width, margin, indent = 1000, 28, 66
    room = width - indent - margin
    drawn_rows = min(max(num_queries, len(steps.columns)), MOST_TOKENS)
    strip = float(min(40, max(16, 5 * drawn_rows)))  # how tall a matrix with a row for each token is
    line = strip + 26
    wide = max(54.0, 4 * drawn_rows)
    seen = parts["memory"]
    height = 86 + 72 + (58 + strip) * (1 + len(seen)) + 60 + 3 * 114 + 60 + heads * line + 80 + 2 * strip + 200
    picture = Picture(width, height, title)

    def heading(number: int, y: float, text: str) -> None:
        picture.rectangle(margin, y - 18, 26, 26, fill=INK, radius=13)
        picture.text(margin + 13, y, str(number), fill="#ffffff", anchor="middle", weight=600)
        picture.text(indent, y, text, size=15, weight=600)

    def place(one: _Matrix, x: float, y: float, w: float, h: float, *, gap: float = 22) -> None:
        name = f"{one.name[0]}{one.name[1]}{one.name[2]}"
        full = f"{name}  {one.array.shape[0]} × {one.array.shape[1]}"
        picture.text(x, y - 5, full if text_width(full, 11) < w + gap else name, size=11, fill=MUTED)
        picture.image(x, y, w, h, _pixels(one, scales[one.kind]["limit"]))
        picture.rectangle(x, y, w, h, fill="none", stroke=RULE)

    picture.text(margin, 40, title, size=18, weight=600)
    thinned = any(max(one.every) > 1 for part in parts.values() for one in part)
    remark = " · of wide matrices every n-th row and column is drawn" if thinned else ""
    picture.text(margin, 60, f"{steps.address} · {heads} heads of {head_dim}{remark}", fill=MUTED)
    y = 104.0
    heading(1, y, "The sentence")
    x = float(indent)
    for token in steps.rows[:MOST_TOKENS]:
        label = token_label(token)
        if x + text_width(label) > width - margin:
            picture.text(x, y + 28, "…")
            break
        picture.text(x, y + 28, label)
        x += text_width(label) + 14
    y += 72
    heading(2, y, "Each token becomes a vector" if steps.embedded else "The output of the block below")
    for one in (*parts["inputs"], *seen):
        place(one, indent, y + 34, room, strip)
        y += 58 + strip
    y += 18
    heading(3, y, f"Split into {heads} heads: multiply by the matrices of each, {steps.inputs.shape[1]} × {head_dim}")
    each = room / heads
    for h in range(heads):
        for at in range(3):
            one = parts["matrices"][at * heads + h]
            w = min(60.0, each - 6)
            place(one, indent + h * each, y + 34 + at * 114, w, 88, gap=each - w)
    y += 60 + 3 * 114
    heading(4, y, "Attention in each head")
    for h in range(heads):
        x = float(indent)
        each = (room - wide - 4 * 22) / 4
        for part in ("queries", "keys", "values", "weights", "heads"):
            w = wide if part == "weights" else each
            place(parts[part][h], x, y + 34 + h * line, w, strip)
            x += w + 22
    y += 60 + heads * line
    heading(5, y, "Concatenate the heads and multiply by W^O")
    each = room / heads
    for h in range(heads):
        picture.image(indent + h * each, y + 34, each - 2, strip, _pixels(parts["heads"][h], scales["heads"]["limit"]))
        picture.text(indent + h * each, y + 29, f"Z{h}", size=11, fill=MUTED)
    y += 58 + strip
    place(parts["output_matrix"][0], indent, y + 12, 140, 140)
    place(parts["output"][0], indent + 170, y + 12, room - 170, strip)
    return picture


def _pixels(one: _Matrix, limit: float) -> npt.NDArray[np.uint8]:
    is_share = one.kind == "weights"
    table = colour_table() if is_share else colour_table(SIGNED_STOPS)
    levels = one.drawn / limit if is_share else one.drawn / limit * 0.5 + 0.5
    painted: npt.NDArray[np.uint8] = table[np.rint(np.clip(levels, 0, 1) * 255).astype(int)]
    return painted
