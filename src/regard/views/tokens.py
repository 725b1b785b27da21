"""The tokens of a text with their ids → a View: how tokenizers split a text, in color, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.utils.errors import UsageError
from regard.views.picture import MUTED, Picture, text_width, visible_text
from regard.views.view import View

TOKEN_COLORS = ("#dcdcfa", "#fde2c8", "#cdeede", "#fad7e6", "#d3e9f5", "#f1e6b8")


@dataclass(frozen=True, kw_only=True)
class TokenColumn:
    """The tokens of a text by one tokenizer."""

    name: str  # of the tokenizer, as a heading
    tokens: Sequence[tuple[str, str, int]]  # (part of the text, token as in the vocabulary, id)
    derivations: Sequence[Sequence[str]] | None = None  # per word its merges: steps of symbols joined by spaces


def tokens_view(columns: Sequence[TokenColumn], *, title: str = "Tokens", note: str = "") -> View:
    """A view of the same text, split by one or more tokenizers."""
    if not columns:
        raise UsageError("a token view needs at least one column of tokens.", argument="columns")
    return View("tokens", {"columns": [_column(column) for column in columns]}, title, _draw, note=note)


def _column(column: TokenColumn) -> dict[str, Any]:
    tokens = []
    for index, token in enumerate(column.tokens):
        if len(token) != 3 or not isinstance(token[0], str) or not isinstance(token[1], str):
            raise UsageError(
                f"column {column.name!r}: token {index} is {token!r}; it must be (text, token, id).", value=token
            )
        tokens.append([token[0], token[1], int(token[2])])
    words = [list(steps) for steps in column.derivations or ()]
    # For each token the word that its merges belong to; empty if words and tokens cannot be matched.
    owners = [word for word, steps in enumerate(words) for _ in (steps[-1].split(" ") if steps else ())]
    matched = owners if len(owners) == len(tokens) else []
    return {"name": column.name, "tokens": tokens, "words": words, "owners": matched}


def _draw(data: dict[str, Any]) -> Picture:
    """The columns one below the other, with line breaks."""
    margin, width, line, size = 24, 860, 34, 15
    boxes: list[tuple[float, float, float, str, int, int]] = []  # x, y, width, label, id, index
    headings: list[tuple[float, str]] = []
    y = 86.0
    for column in data["columns"]:
        headings.append((y, f"{column['name']} · {len(column['tokens'])} tokens"))
        x, y = float(margin), y + 14
        for index, (text, token, token_id) in enumerate(column["tokens"]):
            label = visible_text(text, 40) if text else visible_text(token, 12)
            box_width = max(text_width(label, size), text_width(str(token_id), 10)) + 12
            if x + box_width > width - margin and x > margin:
                x, y = margin, y + line + 12
            boxes.append((x, y, box_width, label, token_id, index))
            x += box_width + 3
            if text.endswith("\n"):
                x, y = margin, y + line + 12
        y += line + 44
    picture = Picture(width, y, data["title"])
    picture.heading(margin)
    for baseline, heading in headings:
        picture.text(margin, baseline, heading, fill=MUTED)
    for x, top, box_width, label, token_id, index in boxes:
        picture.rectangle(x, top, box_width, 26, fill=TOKEN_COLORS[index % len(TOKEN_COLORS)], radius=5)
        picture.text(x + box_width / 2, top + 18, label, size=size, anchor="middle")
        picture.text(x + box_width / 2, top + 38, str(token_id), size=10, fill=MUTED, anchor="middle")
    return picture
