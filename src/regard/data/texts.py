"""Texts, or pairs of texts, to predict: from tables, or from lines of plain text.

Rows keep their order, and empty texts stay, so that predictions line up with their rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from regard.data.columns import LABELS, TEXT_PAIRS, TEXTS, Column
from regard.data.files import EMPTY_LINE, decode, read_bytes
from regard.data.labelled import pair_columns
from regard.data.tables import read_table, table_suffix
from regard.utils.errors import DataError, UsageError

TextPair = tuple[str, str]


def read_texts(path: Path, data: bytes | None = None, *, text_column: str | None = None) -> list[str]:
    """The texts of a table's column; or the lines of another file, or of `data` that came from stdin."""
    if data is None and table_suffix(path):
        return read_text_column(path, text_column)
    if text_column is not None:
        raise UsageError(f"--text-column needs a table; {path} has plain lines.", argument="text_column", path=path)
    return text_lines(read_bytes(path) if data is None else data, path)


def text_lines(data: bytes, path: Path | str) -> list[str]:
    """One text for each line."""
    if not data:
        raise DataError(f"{path} is empty; one text per line is expected.", path=path)
    lines = data.removesuffix(b"\n").split(b"\n")
    return [decode(line, path, number).rstrip("\r") for number, line in enumerate(lines, start=1)]


def read_text_column(
    path: Path | str, column: str | None = None, *, names: Sequence[str] = TEXTS, flag: str = "--text-column"
) -> list[str]:
    """All texts of a table's column, by name or number; unreadable rows raise.

    `names` are the usual names of the column, `flag` is the option with which the user names it.
    """
    path = Path(path)
    others = (*LABELS, *(name for pair in TEXT_PAIRS for name in pair)) if column else ()
    choices = [[Column("text", names, column, flag)]]
    # Each text is in a list: a str would be the reason why its row is bad.
    result = read_table(path, choices, lambda cells: [cells[0]], other_names=others, exact=True)
    empty = [(row.line, [""]) for row in result.bad if row.reason == EMPTY_LINE]
    result.bad = [row for row in result.bad if row.reason != EMPTY_LINE]
    result.finish(path, "texts", can_skip=False)
    return [text for _, [text] in sorted([*zip(result.lines, result.examples, strict=True), *empty])]


def read_text_pairs(
    path: Path | str, data: bytes | None = None, *, first_column: str | None = None, second_column: str | None = None
) -> list[TextPair]:
    """All pairs of a table, or of lines with a tab between two texts; of a file, or of `data` that came from it.

    Rows that cannot be read, or lack one of their texts, raise.
    """
    path = Path(path)
    choices = pair_columns(first_column, second_column)
    if not (table_suffix(path) or first_column or second_column):
        # Plain text has no header: "first" and "second" are texts there.
        choices = [(replace(first, names=()), replace(second, names=())) for first, second in choices[:1]]
    result = read_table(path, choices, _pair, data=data, other_names=LABELS, exact=True)
    return result.finish(path, "pairs", unit="pairs", can_skip=False).examples


def _pair(cells: Sequence[str]) -> TextPair | str:
    first, second = cells
    if not first.strip() or not second.strip():
        return f"the {'second' if first.strip() else 'first'} text is empty"
    return first, second
