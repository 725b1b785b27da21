"""How a language model learns from a text → a View: the causal mask, and the target and loss of each position.

Each row is a position: it sees the tokens of the filled cells and predicts the token on the right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.utils.errors import UsageError
from regard.views.picture import INK, MUTED, RULE, Picture, text_width, token_label
from regard.views.view import View

MOST = 64  # positions of a page; a text that is longer is drawn up to there
SEEN, SELF = "#c9c4f4", "#4a3fc0"


@dataclass(frozen=True, kw_only=True)
class CausalTraining:
    """A text as a language model learns from it. The last position has no target yet, and so no loss."""

    tokens: Sequence[str]  # (T,)
    mask: npt.NDArray[np.bool_]  # (T, T): whether the row sees the column
    losses: Sequence[float]  # (T - 1,): -log of the probability of the next token, at each position but the last

    def __post_init__(self) -> None:
        count = len(self.tokens)
        if count < 2 or np.shape(self.mask) != (count, count) or len(self.losses) != count - 1:
            raise UsageError(
                f"{count} tokens need a mask of {count} × {count} and {count - 1} losses, and at least 2 "
                f"tokens; given: a mask of {np.shape(self.mask)} and {len(self.losses)} losses."
            )

    @property
    def loss(self) -> float:
        """What training makes smaller: the mean over the positions that have a target."""
        return math.fsum(self.losses) / len(self.losses)

    def numbers(self) -> dict[str, Any]:
        """All of it as lists: who sees whom, the targets and the losses."""
        return {
            "tokens": list(self.tokens),
            "mask": np.asarray(self.mask).astype(int).tolist(),
            "targets": [*self.tokens[1:], None],
            "losses": [*map(float, self.losses), None],
            "loss": self.loss,
        }

    def lines(self) -> list[str]:
        """The triangle and the exercises as text, a line for each position."""
        labels = [token_label(token) for token in self.tokens]
        wide = max(map(len, labels))
        lines = []
        for place, label in enumerate(labels):
            marks = " ".join("■" if kept else "·" for kept in self.mask[place])
            target = "no target: the text ends"
            if place < len(self.losses):
                target = f"→ {labels[place + 1]:<{wide}}  loss {self.losses[place]:6.3f}"
            lines.append(f"{place:>3} {label:<{wide}}  {marks}  {target}")
        return [*lines, f"mean loss {self.loss:.3f} over {len(self.losses)} positions"]


def causal_view(training: CausalTraining, *, title: str, note: str = "") -> View:
    """A view of the triangle with targets and losses. `note` is a sentence shown under the title."""
    shown = min(MOST, len(training.tokens))
    data = {
        "title": title,
        "note": note,
        "tokens": [token_label(token) for token in training.tokens[: shown + 1]],
        "shown": shown,
        "count": len(training.tokens),
        "mask": np.asarray(training.mask)[:shown, :shown].astype(int).tolist(),
        "losses": [float(loss) for loss in training.losses[:shown]],
        "loss": training.loss,
    }
    return View("causal", data, title, partial(_draw, training, title))


def _draw(training: CausalTraining, title: str) -> Picture:
    """The triangle with its targets and losses as a still picture."""
    shown = min(MOST, len(training.tokens))
    labels = [token_label(token) for token in training.tokens[: shown + 1]]
    cell, margin = (24.0 if shown <= 24 else 14.0), 28.0
    size = 13 if shown <= 24 else 10
    room = max(text_width(label, size) for label in labels) + 12
    left, top = margin + room, 84 + room
    right = left + shown * cell + 22
    bar = 160.0
    picture = Picture(right + room + bar + 90, top + shown * cell + 60, title)
    picture.text(margin, 38, title, size=18, weight=600)
    mean = f"mean loss {training.loss:.3f} over {len(training.losses)} positions"
    picture.text(margin, 60, f"Row: a position and what it sees. Right: its target and loss · {mean}", fill=MUTED)
    for place in range(shown):
        x, y = left + place * cell, top + place * cell
        picture.text(left - 8, y + cell * 0.7, labels[place], size=size, anchor="end")
        picture.text(x + cell * 0.7, top - 8, labels[place], size=size, angle=-90)
        for column in range(shown):
            kept = bool(training.mask[place][column])
            fill = (SELF if column == place else SEEN) if kept else "#f6f6f8"
            picture.rectangle(left + column * cell + 1, y + 1, cell - 2, cell - 2, fill=fill, radius=2)
        if place < len(training.losses):
            loss = training.losses[place]
            picture.text(right, y + cell * 0.7, labels[place + 1], size=size, fill=INK)
            width = bar * min(1.0, loss / max(1e-9, max(training.losses)))
            picture.rectangle(right + room, y + cell * 0.25, max(1.0, width), cell * 0.5, fill="#d9661f", radius=2)
            picture.text(right + room + width + 6, y + cell * 0.7, f"{loss:.2f}", size=size, fill=MUTED)
        else:
            picture.text(right, y + cell * 0.7, "no target: the text ends", size=size, fill=MUTED)
    picture.polyline([(left, top), (left + shown * cell, top)], stroke=RULE)
    return picture
