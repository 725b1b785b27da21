"""The texts of a table that wait for an answer: the text column of .csv, .tsv or .jsonl, plain or .gz.

The column is recognised by its usual names; a table of one column has its texts there. Rows stay in their order, and
empty texts stay, too, so that the answers stand beside their rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard.data.files import BadRow, Lines, read_bytes, refuse_bad_rows, shortened
from regard.data.labelled import TEXTS
from regard.data.tables import comma_rows, json_rows, json_text_fault, missing_key, tab_rows, table_suffix, width_of
from regard.errors import DataError


def read_text_column(path: Path | str) -> list[str]:
    """All texts of a table. Rows that cannot be read raise, with their lines."""
    path = Path(path)
    suffix = table_suffix(path)
    lines = Lines.of(path, read_bytes(path, {}))
    found, bad = (_of_records if suffix == ".jsonl" else _of_cells)(path, lines, suffix)
    refuse_bad_rows(bad, len(bad) + len(found), what="rows")
    if not found:
        raise DataError(f"{path} holds no texts; one in each row is expected.")
    return found


def _of_cells(path: Path, lines: Lines, suffix: str) -> tuple[list[str], list[BadRow]]:
    rows = list(comma_rows(path, lines) if suffix == ".csv" else tab_rows(path, lines))
    while rows and not isinstance(rows[-1], BadRow) and not width_of(rows[-1][1]):
        rows.pop()  # what stands behind the last line's end
    first = next((row[1] for row in rows if not isinstance(row, BadRow)), [])
    place, has_header = _text_place(path, first)
    found, bad = [], []
    for row in rows[int(has_header) :]:
        if isinstance(row, BadRow):
            bad.append(row)
        else:
            found.append(row[1][place] if place < len(row[1]) else "")
    return found, bad


def _text_place(path: Path, first: Sequence[str]) -> tuple[int, bool]:
    """In which column the texts stand, and whether the first row is a header."""
    names = [name.strip().lower() for name in first]
    known = [name for name in TEXTS if name in names]
    if known:
        return names.index(known[0]), True
    if width_of(first) <= 1:
        return 0, False
    listed = ", ".join(shortened(name.strip()) for name in first[:20])
    raise DataError(
        f"{path}: which of its columns ({listed}) holds the texts cannot be told. Write a header that calls it `text`, "
        "or give a file with a text a line."
    )


def _of_records(path: Path, lines: Lines, suffix: str) -> tuple[list[str], list[BadRow]]:
    found, bad = [], []
    for row in json_rows(path, lines):
        if isinstance(row, BadRow):
            bad.append(row)
            continue
        line, record = row
        key = next((key for name in TEXTS for key in record if key.lower() == name), None)
        fault = missing_key("text", record) if key is None else json_text_fault(key, record[key])
        if fault or key is None:
            bad.append(BadRow(str(path), line, fault or ""))
        else:
            found.append(str(record[key]))
    return found, bad
