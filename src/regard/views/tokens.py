"""Views of a text, token by token.

- `tokens_view`: how tokenizers split a text, in color, side by side
- `spans_view`: a passage with start and end probabilities of an answer at each token, and the best candidates
- `causal_view`: how a language model learns from a text: the causal mask, and the target and loss of each position
- `inputs_view`: the vectors whose sum enters an encoder: token + segment + position, and the normalized sum

This module depends on no model and computes none of the numbers that it draws.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.utils.errors import UsageError
from regard.views.picture import MUTED, RULE, Picture, pixels_of, text_width, token_label, visible_text
from regard.views.view import View

TOKEN_COLORS = ("#dcdcfa", "#fde2c8", "#cdeede", "#fad7e6", "#d3e9f5", "#f1e6b8")
START_COLOR, END_COLOR, ANSWER_COLOR = "#d97200", "#4a3fc0", "#fbe9b7"
SEEN_COLOR, SELF_COLOR, MASKED_COLOR, LOSS_COLOR = "#c9c4f4", "#4a3fc0", "#f6f6f8", "#d9661f"

MAX_POSITIONS = 64  # maximum number of positions in a causal view; longer texts are truncated
NO_TARGET = "no target: the text ends"

MAX_TOKENS = 96  # maximum number of tokens in a view of inputs; longer texts are truncated
MAX_NUMBERS = 48  # per vector: for wide vectors only every n-th number is drawn, and the page states n
SCALE_QUANTILE = 0.98  # this share of the numbers is within the color scale
SEGMENTS, NUM_SEGMENT_COLORS = "ABCDEFGH", 4
INPUT_ROWS = {  # rows of the figure: name of the array → its sign and label
    "token_vectors": ("", "token"),
    "segment_vectors": ("+", "segment"),
    "position_vectors": ("+", "position"),
    "sums": ("=", "sum"),
    "normalized": ("→", "after LayerNorm"),
}

Array = npt.NDArray[np.float32]


# --- Tokens -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class TokenColumn:
    """The tokens of a text by one tokenizer."""

    name: str  # of the tokenizer, as a heading
    tokens: Sequence[tuple[str, str, int]]  # (part of the text, token as in the vocabulary, id)
    derivations: Sequence[Sequence[str]] | None = (
        None  # the merge steps of each word; a step is tokens joined by spaces
    )


def tokens_view(columns: Sequence[TokenColumn], *, title: str = "Tokens") -> View:
    """A view of one text, tokenized by one or more tokenizers."""
    if not columns:
        raise UsageError("a token view needs at least one column of tokens.", argument="columns")
    return View("tokens", {"columns": [_column(column) for column in columns]}, title, _draw_tokens)


def _column(column: TokenColumn) -> dict[str, Any]:
    tokens = []
    for index, token in enumerate(column.tokens):
        if len(token) != 3 or not isinstance(token[0], str) or not isinstance(token[1], str):
            raise UsageError(
                f"column {column.name!r}: entry {index} is {token!r}; it must be (text, token, id).", value=token
            )
        tokens.append([token[0], token[1], int(token[2])])
    words = [list(steps) for steps in column.derivations or ()]
    # For each token the word that its merges belong to; empty if words and tokens cannot be matched.
    owners = [word for word, steps in enumerate(words) for _ in (steps[-1].split(" ") if steps else ())]
    matched = owners if len(owners) == len(tokens) else []
    return {"name": column.name, "tokens": tokens, "words": words, "owners": matched}


def _draw_tokens(data: dict[str, Any]) -> Picture:
    """The columns one below the other, with line breaks."""
    margin, width, line, size = 24, 860, 46, 15
    picture = Picture(width, 0, data["title"])
    picture.heading(margin)
    y = 86
    for column in data["columns"]:
        picture.text(margin, y, f"{column['name']} · {len(column['tokens'])} tokens", fill=MUTED)
        x, y = float(margin), y + 14
        for index, (text, token, token_id) in enumerate(column["tokens"]):
            label = visible_text(text, 40) if text else visible_text(token, 12)
            box_width = max(text_width(label, size), text_width(str(token_id), 10)) + 12
            if x + box_width > width - margin and x > margin:
                x, y = margin, y + line
            picture.rectangle(x, y, box_width, 26, fill=TOKEN_COLORS[index % len(TOKEN_COLORS)], radius=5)
            picture.text(x + box_width / 2, y + 18, label, size=size, anchor="middle")
            picture.text(x + box_width / 2, y + 38, str(token_id), size=10, fill=MUTED, anchor="middle")
            x += box_width + 3
            if text.endswith("\n"):
                x, y = margin, y + line
        y += 78
    picture.height = y
    return picture


# --- Answers ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A token of the passage: its characters, and the probabilities that the answer starts and ends with it."""

    start: int
    end: int
    begins: float
    ends: float


@dataclass(frozen=True, kw_only=True)
class SpanCandidate:
    """A span of the passage that may be the answer; an empty span means no answer."""

    start: int
    end: int
    probability: float


@dataclass(frozen=True, kw_only=True)
class SpanMarks:
    """A question, its passage, a mark for each token, and the candidates, best first."""

    question: str
    passage: str
    marks: Sequence[Mark]
    candidates: Sequence[SpanCandidate]

    def __post_init__(self) -> None:
        for name, values in (("marks", self.marks), ("candidates", self.candidates)):
            if not values:
                raise UsageError(f"{name} is empty. Give at least one.", argument=name)
        # Tokens may share a character: "½" is read as "1⁄2".
        edges = [(0, 0), *((mark.start, mark.end) for mark in self.marks), (len(self.passage),) * 2]
        is_ordered = all(a[0] <= b[0] and a[1] <= b[1] for a, b in pairwise(edges))
        if not is_ordered or any(start > end for start, end in edges):
            message = "marks must be in ascending order and inside the passage."
            raise UsageError(message, argument="marks", value=edges[1:-1])

    def numbers(self) -> dict[str, Any]:
        candidates = [{"text": self.passage[c.start : c.end], **asdict(c)} for c in self.candidates]
        return {"marks": [asdict(mark) for mark in self.marks], "candidates": candidates}


def spans_view(answer: SpanMarks, *, note: str = "") -> View:
    """A view of one question and its answer."""
    data = {
        "passage": answer.passage,
        "marks": [[mark.start, mark.end, round(mark.begins, 5), round(mark.ends, 5)] for mark in answer.marks],
        "candidates": [[c.start, c.end, round(c.probability, 5)] for c in answer.candidates],
    }
    return View("spans", data, answer.question, _draw_spans, numbers=answer.numbers, note=note)


def _draw_spans(data: dict[str, Any]) -> Picture:
    """The passage in lines: above each token its start probability, below it its end probability."""
    margin, width, line, size, bar = 24, 900, 62, 15, 16
    passage, (answer_start, answer_end, probability) = data["passage"], data["candidates"][0]
    picture = Picture(width, 0, data["title"])
    answer = visible_text(passage[answer_start:answer_end] or "(no answer)", 80)
    picture.heading(margin, f"{answer} · {probability:.1%}")
    x, y = float(margin), 120
    for start, end, starts, ends in data["marks"]:
        label = visible_text(passage[start:end], 40)
        box_width = text_width(label, size) + 4
        if x + box_width > width - margin and x > margin:
            x, y = margin, y + line
        if answer_start <= start < end <= answer_end:
            picture.rectangle(x - 2, y - 15, box_width + 4, 22, fill=ANSWER_COLOR)
        picture.rectangle(x, y - 17 - bar * starts, box_width, bar * starts, fill=START_COLOR)
        picture.rectangle(x, y + 9, box_width, bar * ends, fill=END_COLOR)
        picture.text(x + 2, y, label, size=size)
        x += box_width + 4
    legend = "orange, above: probability that the answer starts here; violet, below: that it ends here"
    picture.text(margin, y + 48, legend, size=12, fill=MUTED)
    picture.height = y + 62
    return picture


# --- Targets of a language model ----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CausalTraining:
    """The mask, targets and losses of a language model on a text. The last position has no target and no loss."""

    tokens: Sequence[str]  # (T,)
    mask: npt.NDArray[np.bool_]  # (T, T): whether the row may attend to the column
    losses: Sequence[float]  # (T - 1,): -log of the probability of the next token, at each position but the last

    def __post_init__(self) -> None:
        count = len(self.tokens)
        given = np.shape(self.mask), len(self.losses)
        if count < 2 or given != ((count, count), count - 1):
            needed = f"{count} tokens (at least 2) need a mask of shape {(count, count)} and {count - 1} losses"
            raise UsageError(f"{needed}; given: {given[0]} and {given[1]}.", argument="tokens", value=count)

    @property
    def loss(self) -> float:
        """The loss that training minimizes: the mean over the positions that have a target."""
        return math.fsum(self.losses) / len(self.losses)

    def numbers(self) -> dict[str, Any]:
        return {
            "tokens": list(self.tokens),
            "mask": np.asarray(self.mask).astype(int).tolist(),
            "targets": [*self.tokens[1:], None],
            "losses": [*map(float, self.losses), None],
            "loss": self.loss,
        }

    def lines(self) -> list[str]:
        """Mask, targets and losses as text, a line for each position."""
        labels = [token_label(token) for token in self.tokens]
        width = max(map(len, labels))
        targets = [f"→ {label:<{width}}  loss {loss:6.3f}" for label, loss in zip(labels[1:], self.losses, strict=True)]
        lines = []
        for position, (label, row, target) in enumerate(zip(labels, self.mask, [*targets, NO_TARGET], strict=True)):
            marks = " ".join("■" if seen else "·" for seen in row)
            lines.append(f"{position:>3} {label:<{width}}  {marks}  {target}")
        return [*lines, f"mean loss {self.loss:.3f} over {len(self.losses)} positions"]


def causal_view(training: CausalTraining, *, title: str) -> View:
    """A view of the mask: each row is a position, which sees the filled cells and predicts the token on the right."""
    count = min(MAX_POSITIONS, len(training.tokens))
    data = {
        "tokens": [token_label(token) for token in training.tokens[: count + 1]],
        "shown": count,
        "count": len(training.tokens),
        "mask": np.asarray(training.mask)[:count, :count].astype(int).tolist(),
        "losses": [float(loss) for loss in training.losses[:count]],
        "loss": training.loss,
    }
    return View("causal", data, title, _draw_causal, training.lines(), training.numbers)


def _draw_causal(data: dict[str, Any]) -> Picture:
    """The mask with its targets and losses as a still picture."""
    count, labels, losses = data["shown"], data["tokens"], data["losses"]
    margin, bar = 28.0, 160.0
    cell, size = (24.0, 13) if count <= 24 else (14.0, 10)
    label_width = max(text_width(label, size) for label in labels) + 12
    left, top = margin + label_width, 84 + label_width
    right = left + count * cell + 22
    picture = Picture(right + label_width + bar + 90, top + count * cell + 60, data["title"])
    mean = f"mean loss {data['loss']:.3f} over {data['count'] - 1} positions"
    picture.heading(margin, f"Each row shows what a position sees, with its target and loss on the right · {mean}")
    for position, row in enumerate(data["mask"]):
        y = top + position * cell
        baseline = y + cell * 0.7
        picture.text(left - 8, baseline, labels[position], size=size, anchor="end")
        picture.text(left + position * cell + cell * 0.7, top - 8, labels[position], size=size, angle=-90)
        for column, seen in enumerate(row):
            color = SELF_COLOR if column == position else SEEN_COLOR
            fill = color if seen else MASKED_COLOR
            picture.rectangle(left + column * cell + 1, y + 1, cell - 2, cell - 2, fill=fill, radius=2)
        if position == len(losses):
            picture.text(right, baseline, NO_TARGET, size=size, fill=MUTED)
            continue
        picture.text(right, baseline, labels[position + 1], size=size)
        x, width = right + label_width, bar * losses[position] / max(1e-9, *losses)
        picture.rectangle(x, y + cell * 0.25, max(1.0, width), cell * 0.5, fill=LOSS_COLOR, radius=2)
        picture.text(x + width + 6, baseline, f"{losses[position]:.2f}", size=size, fill=MUTED)
    picture.polyline([(left, top), (left + count * cell, top)], stroke=RULE)
    return picture


# --- Inputs of an encoder -----------------------------------------------------------------------------------


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
                message = f"got {count} tokens and {len(getattr(self, name))} {name}. Give the same number, at least 1."
                raise UsageError(message, argument=name)
        shape = (count, self.sums.shape[-1])
        for name, array in self.arrays.items():
            if array.shape != shape:
                raise UsageError(f"{name} has shape {array.shape}; it must be {shape}.", argument=name)
            if not np.isfinite(array).all():
                raise UsageError(f"{name} has NaN or infinity; only finite numbers can be drawn.", argument=name)

    @property
    def arrays(self) -> dict[str, Array]:
        return {name: getattr(self, name) for name in INPUT_ROWS}

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
            **{label.replace(" ", "_"): self.arrays[name].tolist() for name, (_, label) in INPUT_ROWS.items()},
        }


def inputs_view(inputs: InputSums, *, title: str) -> View:
    """A view of the input of the first block.

    The token, segment and position vectors and their sum share one color scale."""
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
        for (sign, label), array in zip(INPUT_ROWS.values(), inputs.arrays.values(), strict=True)
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
    return View("inputs", data, title, _draw_inputs, inputs.lines(), inputs.numbers)


def _limit(arrays: Sequence[Array]) -> float:
    """The largest value of the color scale that `arrays` share."""
    numbers = np.abs(np.concatenate([array[:MAX_TOKENS].ravel() for array in arrays]))
    return _round(np.quantile(numbers, SCALE_QUANTILE)) or _round(numbers.max()) or 1.0


def _round(number: Any) -> float:
    return float(f"{number:.4g}")


def _draw_inputs(data: dict[str, Any]) -> Picture:
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
        color = TOKEN_COLORS[SEGMENTS.index(segment) % NUM_SEGMENT_COLORS]
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
