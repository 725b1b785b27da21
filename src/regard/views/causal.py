"""How a language model learns from a text → a View: the causal mask, and the target and loss of each position.

Each row is a position: it sees the tokens of the filled cells and predicts the token on the right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.utils.errors import UsageError
from regard.views.picture import MUTED, RULE, Picture, text_width, token_label
from regard.views.view import View

MAX_POSITIONS = 64  # of a page; a longer text is cut there
SEEN_COLOR, SELF_COLOR, MASKED_COLOR, LOSS_COLOR = "#c9c4f4", "#4a3fc0", "#f6f6f8", "#d9661f"
NO_TARGET = "no target: the text ends"


@dataclass(frozen=True, kw_only=True)
class CausalTraining:
    """A text as a language model learns from it. The last position has no target, and so no loss."""

    tokens: Sequence[str]  # (T,)
    mask: npt.NDArray[np.bool_]  # (T, T): whether the row sees the column
    losses: Sequence[float]  # (T - 1,): -log of the probability of the next token, at each position but the last

    def __post_init__(self) -> None:
        count = len(self.tokens)
        given = np.shape(self.mask), len(self.losses)
        if count < 2 or given != ((count, count), count - 1):
            message = (
                f"{count} tokens (at least 2) need a mask of shape {(count, count)} and {count - 1} losses; "
                f"given: {given[0]} and {given[1]}."
            )
            raise UsageError(message, argument="tokens", value=count)

    @property
    def loss(self) -> float:
        """The loss that training minimizes: the mean over the positions that have a target."""
        return math.fsum(self.losses) / len(self.losses)

    def numbers(self) -> dict[str, Any]:
        """Mask, targets and losses as lists."""
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


def causal_view(training: CausalTraining, *, title: str, note: str = "") -> View:
    """A view of the mask with targets and losses. `note` is a sentence shown under the title."""
    count = min(MAX_POSITIONS, len(training.tokens))
    data = {
        "tokens": [token_label(token) for token in training.tokens[: count + 1]],
        "shown": count,
        "count": len(training.tokens),
        "mask": np.asarray(training.mask)[:count, :count].astype(int).tolist(),
        "losses": [float(loss) for loss in training.losses[:count]],
        "loss": training.loss,
    }
    return View("causal", data, title, _draw, training.lines(), training.numbers, note)


def _draw(data: dict[str, Any]) -> Picture:
    """The mask with its targets and losses as a still picture."""
    count, labels, losses = data["shown"], data["tokens"], data["losses"]
    margin, bar = 28.0, 160.0
    cell, size = (24.0, 13) if count <= 24 else (14.0, 10)
    label_width = max(text_width(label, size) for label in labels) + 12
    left, top = margin + label_width, 84 + label_width
    right = left + count * cell + 22
    picture = Picture(right + label_width + bar + 90, top + count * cell + 60, data["title"])
    mean = f"mean loss {data['loss']:.3f} over {data['count'] - 1} positions"
    picture.heading(margin, f"Row: a position and what it sees. Right: its target and loss · {mean}")
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
