"""The tokens of a text with their ids → a View: what a tokenizer makes of a text, in colour.

Several tokenizers stand side by side. This module does not know any tokenizer; it takes the tokens and, where
there are merges, the steps that made each word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from regard.utils.errors import UsageError
from regard.views.picture import INK, MUTED, Picture, shown, text_width
from regard.views.view import View

TOKEN_COLORS = ("#dcdcfa", "#fde2c8", "#cdeede", "#fad7e6", "#d3e9f5", "#f1e6b8")


@dataclass(frozen=True, kw_only=True)
class TokenColumn:
    """One tokenizer's way of cutting the text."""

    name: str  # whose cutting it is, as a heading
    tokens: Sequence[tuple[str, str, int]]  # (stretch of the text, token as the vocabulary writes it, id)
    derivations: Sequence[Sequence[str]] | None = None  # per word its merges: steps of symbols joined by spaces


def tokens_view(columns: Sequence[TokenColumn], *, title: str = "Tokens", note: str = "") -> View:
    """A view of the same text cut by one or more tokenizers."""
    if not columns:
        raise UsageError("a token view needs at least one column of tokens; none was given.")
    data = {"title": title, "note": note, "columns": [_column(column) for column in columns]}
    return View("tokens", data, title, partial(_draw, columns, title))


def _column(column: TokenColumn) -> dict[str, Any]:
    tokens = []
    for place, token in enumerate(column.tokens):
        if len(token) != 3 or not isinstance(token[0], str) or not isinstance(token[1], str):
            raise UsageError(f"column {column.name!r}, token {place} is {token!r}; it must be (text, token, id).")
        tokens.append([token[0], token[1], int(token[2])])
    words = [list(steps) for steps in column.derivations or ()]
    return {"name": column.name, "tokens": tokens, "words": words, "owners": _owners(words, len(tokens))}


def _owners(words: Sequence[Sequence[str]], num_tokens: int) -> list[int]:
    """For each token the word whose merges made it; empty where words and tokens cannot be matched."""
    owners = [word for word, steps in enumerate(words) for _ in (steps[-1].split(" ") if steps else ())]
    return owners if len(owners) == num_tokens else []


def _draw(columns: Sequence[TokenColumn], title: str) -> Picture:
    """The columns one below the other, lines broken like text."""
    margin, width, line, size = 24, 860, 34, 15
    shapes: list[tuple[float, float, float, str, int, int]] = []  # x, y, width, label, id, colour
    headings: list[tuple[float, str]] = []
    y = 86.0
    for column in columns:
        headings.append((y, f"{column.name} · {len(column.tokens)} tokens"))
        y += 14
        x = float(margin)
        for place, (text, token, token_id) in enumerate(column.tokens):
            label = shown(text, 40) if text else shown(token, 12)
            room = max(text_width(label, size), text_width(str(token_id), 10)) + 12
            if x + room > width - margin and x > margin:
                x, y = margin, y + line + 12
            shapes.append((x, y, room, label, token_id, place))
            x += room + 3
            if text.endswith("\n"):
                x, y = margin, y + line + 12
        y += line + 44
    picture = Picture(width, y, title)
    picture.text(margin, 40, title, size=18, weight=600)
    for at, heading in headings:
        picture.text(margin, at, heading, fill=MUTED)
    for x, top, room, label, token_id, place in shapes:
        picture.rectangle(x, top, room, 26, fill=TOKEN_COLORS[place % len(TOKEN_COLORS)], radius=5)
        picture.text(x + room / 2, top + 18, label, size=size, fill=INK, anchor="middle")
        picture.text(x + room / 2, top + 38, str(token_id), size=10, fill=MUTED, anchor="middle")
    return picture
