"""Texts, or pairs of texts, to predict: from a .csv, .tsv or .jsonl, plain or .gz, or from tab-separated lines.

Rows keep their order, and empty texts stay, so that predictions line up with their rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard.data.files import CORRECT, BadRow, FileLines, ReadResult, read_bytes
from regard.data.labelled import LABELS, PAIRS, TEXTS
from regard.data.rows import table_suffix
from regard.data.tables import Column, read_table

Pair = tuple[str, str]


def read_text_column(
    path: Path | str, column: str | None = None, *, names: Sequence[str] = TEXTS, flag: str = "--text-column"
) -> list[str]:
    """All texts of a table's column, by name or number; unreadable rows raise.

    `names` are the names that the column usually has, `flag` is the option with which the user names it.
    """
    path = Path(path)
    text = FileLines.of(path, read_bytes(path))
    choices = [(Column("text", names, column, flag),)]
    others = (*LABELS, *(name for pair in PAIRS for name in pair))
    result: ReadResult[str] = ReadResult()
    for row in read_table(path, text, choices, header_names=1, other_names=others if column else (), exact=True).rows:
        if not isinstance(row, BadRow):
            result.add(row[0], row[1][0])
        elif row.reason == "empty line":
            result.add(row.line, "")
        else:
            result.bad.append(row)
    return result.finish(path, "texts", advice=CORRECT).examples


def read_text_pairs(
    path: Path | str,
    data: bytes | None = None,
    *,
    first_column: str | None = None,
    second_column: str | None = None,
) -> list[Pair]:
    """All pairs of a table, or of lines with a tab between two texts; of a file, or of `data` that came from it.

    Rows that cannot be read, or lack one of their texts, raise.
    """
    path = Path(path)
    is_table = bool(table_suffix(path) or first_column or second_column)
    # Plain text has no header: "first" and "second" are texts there.
    known = [[(first,), (second,)] for first, second in PAIRS] if is_table else [[(), ()]]
    choices = [
        (
            Column("first text", first, first_column, "--first-column"),
            Column("second text", second, second_column, "--second-column"),
        )
        for first, second in known
    ]
    text = FileLines.of(path, read_bytes(path) if data is None else data)
    result: ReadResult[Pair] = ReadResult()
    result.collect(path, read_table(path, text, choices, other_names=LABELS, exact=True).rows, _pair)
    return result.finish(path, "pairs", unit="pairs", advice=CORRECT).examples


def _pair(cells: Sequence[str]) -> Pair | str:
    first, second = cells
    if not first.strip() or not second.strip():
        return f"the {'second' if first.strip() else 'first'} text is empty"
    return first, second
