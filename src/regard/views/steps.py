"""Show the five steps of one multi-head attention as a View, from the tokens to the layer's output.

The steps are those of the usual figure of eight heads: the sentence, its vectors X, the matrices of each head, the
attention of each head, and the heads joined and multiplied by W^O. This module checks the shapes of the arrays, selects
the numbers to draw, and packs them. It depends on no model and computes none of the numbers that it draws.

Selection. Texts are truncated to MAX_TOKENS tokens. For large matrices only every n-th row or column is drawn, and the
page states n. Numbers are never averaged: each number on the page occurs in the model.

Packing. A number v is stored as the 16-bit integer nearest to v / peak · 32767, where peak is the largest absolute
value of its kind (all Q, K and V are one kind): the error is at most peak / 65534.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.utils.errors import UsageError
from regard.views.picture import INK, MUTED, RULE, Picture, pixels_of, text_width, token_label
from regard.views.view import View, pack_integers

MAX_TOKENS = 32  # maximum number of tokens that are drawn
MAX_COLUMNS = 512  # of X and of the output
HEAD_COLUMNS = 64  # of Q, K, V and Z of a head
HEAD_MATRIX = (64, 32)  # rows and columns of W^Q, W^K and W^V of a head
OUTPUT_MATRIX = (128, 128)  # rows and columns of W^O
MAX_NUMBERS = 320_000  # maximum per page; more numbers would exceed a megabyte
SCALE_QUANTILE = 0.98  # fraction of the numbers within the color scale; a few large ones would make the others pale

SHAPES = (
    dict.fromkeys(("queries", "heads"), "H T Dh")
    | dict.fromkeys(("inputs", "output"), "T D")
    | dict.fromkeys(("keys", "values"), "H S Dh")
    | dict.fromkeys(("query_matrices", "key_matrices", "value_matrices"), "H D Dh")
    | {"memory": "S D", "weights": "H T S", "output_matrix": "HDh D"}
)

Array = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class AttentionSteps:
    """All arrays of one multi-head attention for one text."""

    address: str  # where in the model: "encoder.0.self"
    rows: Sequence[str]  # T query tokens
    columns: Sequence[str]  # S key tokens
    inputs: Array  # X: the input of the attention
    memory: Array | None = None  # M: the encoder output that a cross-attention attends to
    query_matrices: Array  # W^Q
    key_matrices: Array  # W^K
    value_matrices: Array  # W^V
    queries: Array  # Q, as scored
    keys: Array  # K, as scored
    values: Array  # V
    weights: Array  # A: each row sums to 1
    heads: Array  # Z: the output of each head
    output_matrix: Array  # W^O
    output: Array  # the output of the attention
    embedded: bool = True  # whether X are the token vectors, or R, the output of the block below
    remarks: Mapping[int, str] = field(default_factory=dict)  # step → how this model differs from the figure

    def __post_init__(self) -> None:
        num_heads, _, head_dim = self.queries.shape if np.ndim(self.queries) == 3 else (0, 0, 0)
        sizes = {"T": len(self.rows), "S": len(self.columns), "D": np.shape(self.inputs)[-1]}
        sizes |= {"H": num_heads, "Dh": head_dim, "HDh": num_heads * head_dim}
        for name, letters in SHAPES.items():
            if getattr(self, name) is None:
                continue
            array, shape = np.asarray(getattr(self, name)), tuple(sizes[letter] for letter in letters.split())
            if array.shape != shape or 0 in shape:
                message = f"steps of {self.address!r}: {name} have shape {array.shape}, not ({letters}) = {shape}."
                raise UsageError(message, argument=name, value=array.shape, allowed=[shape])
            if not np.isfinite(array).all():
                message = f"steps of {self.address!r}: {name} have NaN or infinity; only finite numbers can be drawn."
                raise UsageError(message, argument=name)

    def numbers(self) -> dict[str, Any]:
        """The arrays computed for the text, as lists; without the matrices W of the model."""
        computed = ("inputs", "memory", "queries", "keys", "values", "weights", "heads", "output")
        arrays = {name: getattr(self, name).tolist() for name in computed if getattr(self, name) is not None}
        return {"address": self.address, "rows": list(self.rows), "columns": list(self.columns), **arrays}


class _Matrix(NamedTuple):
    """A matrix with its name, and which of its rows and columns are drawn."""

    name: tuple[str, str, str]  # letter, superscript, subscript
    kind: str  # matrices of one kind share their scale
    array: Array
    tokens: tuple[str, str]  # tokens of its rows and columns: "query", "key" or "" for plain numbers
    every: tuple[int, int]  # n: every n-th row and column is drawn

    @property
    def drawn(self) -> Array:
        limits = (MAX_TOKENS if tokens else None for tokens in self.tokens)
        rows, columns = map(slice, (None, None), limits, self.every)
        return np.asarray(self.array[rows, columns], dtype=np.float64)


Parts = dict[str, list[_Matrix]]  # by part of the figure


def steps_view(steps: AttentionSteps, *, title: str, note: str = "") -> View:
    """A view of the five steps. `note` is a sentence shown under the title."""
    coarser, parts = 1, _parts(steps, 1)
    while sum(matrix.drawn.size for matrix in _flatten(parts)) > MAX_NUMBERS and coarser < 64:
        coarser *= 2
        parts = _parts(steps, coarser)
    scales = _scales(parts)
    numbers: list[Array] = []

    def describe(matrix: _Matrix) -> dict[str, Any]:
        drawn, start = matrix.drawn, sum(map(len, numbers))
        numbers.append(np.rint(drawn / scales[matrix.kind]["peak"] * 32767).astype("<i2").ravel())
        return {
            "name": list(matrix.name),
            "kind": matrix.kind,
            "shape": list(matrix.array.shape),
            "drawn": list(drawn.shape),
            "every": list(matrix.every),
            "tokens": list(matrix.tokens),
            "start": start,
        }

    num_heads, _, head_dim = steps.queries.shape
    data = {
        "address": steps.address,
        "d_model": steps.inputs.shape[1],
        "num_heads": num_heads,
        "head_dim": head_dim,
        "embedded": steps.embedded,
        "rows": [token_label(token) for token in steps.rows],
        "columns": [token_label(token) for token in steps.columns],
        "wordMarks": any(token.startswith("▁") for token in (*steps.rows, *steps.columns)),
        "maxTokens": MAX_TOKENS,
        "remarks": {str(step): remark for step, remark in steps.remarks.items()},
        "scales": scales,
        "parts": {part: [describe(matrix) for matrix in matrices] for part, matrices in parts.items()},
    }
    data["numbers"] = pack_integers(np.concatenate(numbers))
    return View("steps", data, title, partial(_draw, parts), numbers=steps.numbers, note=note)


def _parts(steps: AttentionSteps, coarser: int) -> Parts:
    """Every matrix of the figure; with `coarser`, fewer rows and columns are drawn."""

    def matrix(name: tuple[str, str, str], kind: str, array: Array, *axes: str | int) -> _Matrix:
        """An axis is "query" or "key" for tokens, or the largest number of rows or columns to draw."""
        rows, columns = (axis if isinstance(axis, str) else "" for axis in axes)
        every = [
            1 if isinstance(axis, str) else math.ceil(size * coarser / axis)
            for size, axis in zip(array.shape, axes, strict=True)
        ]
        return _Matrix(name, kind, array, (rows, columns), (every[0], every[1]))

    def heads(letter: str, kind: str, arrays: Array, *axes: str | int, of: str = "") -> list[_Matrix]:
        return [matrix((letter, of, str(head)), kind, array, *axes) for head, array in enumerate(arrays)]

    letter = "X" if steps.embedded else "R"
    memory = [] if steps.memory is None else [matrix(("M", "", ""), "memory", steps.memory, "key", MAX_COLUMNS)]
    return {
        "inputs": [matrix((letter, "", ""), "inputs", steps.inputs, "query", MAX_COLUMNS)],
        "memory": memory,
        "matrices": [
            *heads("W", "matrices", steps.query_matrices, *HEAD_MATRIX, of="Q"),
            *heads("W", "matrices", steps.key_matrices, *HEAD_MATRIX, of="K"),
            *heads("W", "matrices", steps.value_matrices, *HEAD_MATRIX, of="V"),
        ],
        "queries": heads("Q", "projected", steps.queries, "query", HEAD_COLUMNS),
        "keys": heads("K", "projected", steps.keys, "key", HEAD_COLUMNS),
        "values": heads("V", "projected", steps.values, "key", HEAD_COLUMNS),
        "weights": heads("A", "weights", steps.weights, "query", "key"),
        "heads": heads("Z", "heads", steps.heads, "query", HEAD_COLUMNS),
        "output_matrix": [matrix(("W", "O", ""), "output matrix", steps.output_matrix, *OUTPUT_MATRIX)],
        "output": [matrix(("Z", "", ""), "output", steps.output, "query", MAX_COLUMNS)],
    }


def _flatten(parts: Parts) -> Iterable[_Matrix]:
    return (matrix for matrices in parts.values() for matrix in matrices)


def _scales(parts: Parts) -> dict[str, dict[str, float]]:
    """Return for each kind the largest absolute value, and the limit of the color scale."""
    kinds: dict[str, list[Array]] = {}
    for matrix in _flatten(parts):
        kinds.setdefault(matrix.kind, []).append(np.abs(matrix.drawn).ravel())
    scales = {}
    for kind, arrays in kinds.items():
        numbers = np.concatenate(arrays)
        peak = float(numbers.max()) or 1.0
        limit = float(np.quantile(numbers, SCALE_QUANTILE))
        # Large attention weights matter most; for other matrices the scale covers nearly all numbers.
        if kind == "weights" or limit == 0 or limit > peak * 0.8:
            limit = peak
        scales[kind] = {"peak": peak, "limit": limit}
    return scales


def _draw(parts: Parts, data: dict[str, Any]) -> Picture:
    """The figure as a still picture: the five steps from top to bottom, a line for each head."""
    num_heads, head_dim, memory = data["num_heads"], data["head_dim"], parts["memory"]
    width, margin, indent = 1000, 28, 66
    inner = width - indent - margin
    num_rows = min(max(len(data["rows"]), len(data["columns"])), MAX_TOKENS)
    strip = float(min(40, max(16, 5 * num_rows)))  # the height of a matrix with a row for each token
    line = strip + 26
    square = max(54.0, 4 * num_rows)
    height = 86 + 72 + (58 + strip) * (1 + len(memory)) + 60 + 3 * 114 + 60 + num_heads * line + 80 + 2 * strip + 200
    picture = Picture(width, height, data["title"])

    def heading(number: int, y: float, text: str) -> None:
        picture.rectangle(margin, y - 18, 26, 26, fill=INK, radius=13)
        picture.text(margin + 13, y, str(number), fill="#ffffff", anchor="middle", weight=600)
        picture.text(indent, y, text, size=15, weight=600)

    def image(matrix: _Matrix, x: float, y: float, w: float, h: float) -> None:
        limit = data["scales"][matrix.kind]["limit"]
        picture.image(x, y, w, h, pixels_of(matrix.drawn, limit, signed=matrix.kind != "weights"))

    def draw(matrix: _Matrix, x: float, y: float, w: float, h: float, *, gap: float = 22) -> None:
        name = "".join(matrix.name)
        full = f"{name}  {matrix.array.shape[0]} × {matrix.array.shape[1]}"
        picture.text(x, y - 5, full if text_width(full, 11) < w + gap else name, size=11, fill=MUTED)
        image(matrix, x, y, w, h)
        picture.rectangle(x, y, w, h, fill="none", stroke=RULE)

    thinned = any(max(matrix.every) > 1 for matrix in _flatten(parts))
    remark = " · large matrices are drawn with every n-th row and column" if thinned else ""
    picture.heading(margin, f"{data['address']} · {num_heads} heads of {head_dim}{remark}")
    y = 104.0
    heading(1, y, "The sentence")
    x = float(indent)
    for label in data["rows"][:MAX_TOKENS]:
        if x + text_width(label) > width - margin:
            picture.text(x, y + 28, "…")
            break
        picture.text(x, y + 28, label)
        x += text_width(label) + 14
    y += 72
    heading(2, y, "Each token becomes a vector" if data["embedded"] else "The output of the block below")
    for matrix in (*parts["inputs"], *memory):
        draw(matrix, indent, y + 34, inner, strip)
        y += 58 + strip
    y += 18
    heading(3, y, f"Split into {num_heads} heads: multiply by the matrices of each, {data['d_model']} × {head_dim}")
    column = inner / num_heads
    w = min(60.0, column - 6)
    for index, matrix in enumerate(parts["matrices"]):
        projection, head = divmod(index, num_heads)
        draw(matrix, indent + head * column, y + 34 + projection * 114, w, 88, gap=column - w)
    y += 60 + 3 * 114
    heading(4, y, "Attention in each head")
    for head in range(num_heads):
        x = float(indent)
        for part in ("queries", "keys", "values", "weights", "heads"):
            w = square if part == "weights" else (inner - square - 4 * 22) / 4
            draw(parts[part][head], x, y + 34 + head * line, w, strip)
            x += w + 22
    y += 60 + num_heads * line
    heading(5, y, "Concatenate the heads and multiply by W^O")
    for head, matrix in enumerate(parts["heads"]):
        image(matrix, indent + head * column, y + 34, column - 2, strip)
        picture.text(indent + head * column, y + 29, f"Z{head}", size=11, fill=MUTED)
    y += 58 + strip
    draw(parts["output_matrix"][0], indent, y + 12, 140, 140)
    draw(parts["output"][0], indent + 170, y + 12, inner - 170, strip)
    return picture
