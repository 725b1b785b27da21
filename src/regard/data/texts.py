"""The texts, or pairs of texts, of a table that wait for an answer: of .csv, .tsv or .jsonl, plain or .gz.

Columns are recognised by their usual names, or have those that are asked for; a table without a header has its texts in
its only column, or in its only two. Rows stay in their order, and single texts stay where they are empty, too, so that
the answers stand beside their rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from regard.data.files import CORRECT, BadRow, Lines, read_bytes, refuse_bad_rows, shortened
from regard.data.labelled import LABELS, PAIRS, TEXTS
from regard.data.tables import (
    Cells,
    comma_rows,
    json_rows,
    json_text_fault,
    missing_column,
    missing_key,
    tab_rows,
    table_suffix,
    too_long,
    too_short,
    width_of,
)
from regard.errors import DataError

Pair = tuple[str, str]


def read_text_column(path: Path | str, column: str | None = None) -> list[str]:
    """All texts of a table: those of `column`, a name or a number. Rows that cannot be read raise, with their lines."""
    path = Path(path)
    suffix = table_suffix(path)
    lines = Lines.of(path, read_bytes(path, {}))
    if suffix == ".jsonl":
        found, bad = _of_records(path, lines, column)
    else:
        found, bad = _of_cells(path, _rows(path, lines, suffix), column)
    refuse_bad_rows(bad, len(bad) + len(found), advice=CORRECT)
    if not found:
        raise DataError(f"{path} holds no texts; one in each row is expected.")
    return found


def read_text_pairs(path: Path | str, data: bytes | None = None, *, columns: Pair | None = None) -> list[Pair]:
    """All pairs of a table, or of lines with a tab between two texts; of a file, or of the `data` that came from it.

    `columns` are the names or numbers of those in which the two stand. Rows that cannot be read, or lack one of their
    texts, raise with their lines.
    """
    path = Path(path)
    suffix = table_suffix(path)
    lines = Lines.of(path, read_bytes(path, {}) if data is None else data)
    if suffix == ".jsonl":
        found, bad = _pairs_of_records(path, lines, columns)
    else:
        found, bad = _pairs_of_cells(path, _rows(path, lines, suffix), suffix, columns)
    refuse_bad_rows(bad, len(bad) + len(found), what="pairs", advice=CORRECT)
    if not found:
        raise DataError(f"{path} holds no pairs; two texts in each row are expected.")
    return found


def _rows(path: Path, lines: Lines, suffix: str) -> list[Cells | BadRow]:
    rows = list(comma_rows(path, lines) if suffix == ".csv" else tab_rows(path, lines))
    while rows and not isinstance(rows[-1], BadRow) and not width_of(rows[-1][1]):
        rows.pop()  # what stands behind the last line's end
    return rows


def _first_filled(rows: Iterable[Cells | BadRow]) -> list[str]:
    """The first row with something in it: the header, if there is one."""
    return next((row[1] for row in rows if not isinstance(row, BadRow) and width_of(row[1])), [])


def _places_of(path: Path, header: Sequence[str], wanted: Sequence[str]) -> tuple[int, ...] | None:
    """Where columns of these names stand in a header; None if one of them does not."""
    names = [name.strip().lower() for name in header]
    if any(name not in names for name in wanted):
        return None
    for name in wanted:
        if names.count(name) > 1:
            raise DataError(f"{path}: {names.count(name)} columns are called {name!r}. Rename all but one of them.")
    return tuple(map(names.index, wanted))


def _asked_places(path: Path, rows: Sequence[Cells | BadRow], asked: Sequence[str]) -> tuple[tuple[int, ...], bool]:
    """Where columns stand that were asked for by name or number, and whether the first row is a header."""
    first = _first_filled(rows)
    if not first or isinstance(rows[0], BadRow):  # what is wrong there is told with the other bad rows
        return tuple(range(len(asked))), False
    names = {name.strip().lower() for name in first}
    places = [_place(path, first, column) for column in asked]
    usual = {*TEXTS, *LABELS, *(name for pair in PAIRS for name in pair)}
    return tuple(places), bool(names & {*usual, *(column.lower() for column in asked)})


def _place(path: Path, header: Sequence[str], column: str) -> int:
    if places := _places_of(path, header, (column.lower(),)):
        return places[0]
    if column.isdecimal() and 1 <= int(column) <= len(header):
        return int(column) - 1
    raise missing_column(path, column, header)


def _keys(path: Path, record: dict[str, Any], asked: Sequence[str]) -> list[str]:
    """The keys of a record that were asked for."""
    return [list(record)[_place(path, list(record), column)] for column in asked]


def _cannot_be_told(path: Path, first: Sequence[str], *, holds: str, advice: str) -> DataError:
    listed = ", ".join(shortened(name.strip()) for name in first[:20])
    return DataError(f"{path}: which of its columns ({listed}) {holds} cannot be told. {advice}")


# --- Single texts ------------------------------------------------------------------------------------------


def _of_cells(path: Path, rows: Sequence[Cells | BadRow], column: str | None) -> tuple[list[str], list[BadRow]]:
    first = _first_filled(rows)
    if column is not None:
        (place,), header = _asked_places(path, rows, (column,))
    else:
        known = next((places[0] for name in TEXTS if (places := _places_of(path, first, (name,)))), None)
        if known is None and width_of(first) > 1:
            advice = "Name it, or its number, with --text-column, or give a file with a text a line."
            raise _cannot_be_told(path, first, holds="holds the texts", advice=advice)
        place, header = known or 0, known is not None
    found, bad = [], []
    begun = not header
    for row in rows:
        if isinstance(row, BadRow):
            bad.append(row)
        elif begun:
            found.append(_cell(row[1], place))
        else:
            begun = row[1] is first  # blank lines above a header are no texts
    return found, bad


def _cell(cells: Sequence[str], place: int) -> str:
    return cells[place] if place < len(cells) else ""


def _of_records(path: Path, lines: Lines, column: str | None) -> tuple[list[str], list[BadRow]]:
    names: Sequence[str] = TEXTS
    found, bad = [], []
    for row in json_rows(path, lines):
        if isinstance(row, BadRow):
            bad.append(row)
            continue
        line, record = row
        if column is not None and names is TEXTS:
            names = [_keys(path, record, (column,))[0].lower()]
        key = next((key for name in names for key in record if key.lower() == name), None)
        fault = missing_key(column or "text", record) if key is None else json_text_fault(key, record[key])
        if fault or key is None:
            bad.append(BadRow(str(path), line, fault or ""))
        else:
            found.append(str(record[key]))
    return found, bad


# --- Pairs -------------------------------------------------------------------------------------------------


def _pairs_of_cells(
    path: Path, rows: Sequence[Cells | BadRow], suffix: str, columns: Pair | None
) -> tuple[list[Pair], list[BadRow]]:
    first = _first_filled(rows)
    if columns is not None:
        (one, other), header = _asked_places(path, rows, columns)
        width = max(width_of(first), one + 1, other + 1)
    else:
        # A text file has no header: "first" and "second" would be two texts as good as any.
        known = (_places_of(path, first, names) for names in PAIRS) if suffix else ()
        places = next((places for places in known if places), None)
        if places is None and suffix and width_of(first) > 2:
            advice = "Name them, or their numbers, with --first-column and --second-column."
            raise _cannot_be_told(path, first, holds="hold the two texts", advice=advice)
        (one, other), header = places or (0, 1), places is not None
        width = width_of(first) if header else 2
    found: list[Pair] = []
    bad: list[BadRow] = []
    for row in rows:
        if isinstance(row, BadRow):
            bad.append(row)
            continue
        line, cells = row
        if header and cells is first:
            continue
        if len(cells) <= max(one, other):
            bad.append(too_short(path, line, cells, max(one, other) + 1))
        elif width_of(cells) > width:
            bad.append(too_long(path, line, width_of(cells), width, header=header, suffix=suffix))
        else:
            _keep(path, line, (cells[one], cells[other]), found, bad)
    return found, bad


def _pairs_of_records(path: Path, lines: Lines, columns: Pair | None) -> tuple[list[Pair], list[BadRow]]:
    names: Sequence[Sequence[str]] = PAIRS
    found: list[Pair] = []
    bad: list[BadRow] = []
    for row in json_rows(path, lines):
        if isinstance(row, BadRow):
            bad.append(row)
            continue
        if columns is not None and names is PAIRS:
            names = [[key.lower() for key in _keys(path, row[1], columns)]]
        _keep(path, row[0], _pair_in(row[1], names), found, bad)
    return found, bad


def _pair_in(record: dict[str, Any], names: Sequence[Sequence[str]]) -> Pair | str:
    """The two texts of a record under those of the names that fit it best; or why they are not there."""
    values = {key.lower(): value for key, value in record.items()}
    one, other = max(names, key=lambda pair: sum(name in values for name in pair))
    for name in (one, other):
        fault = json_text_fault(name, values[name]) if name in values else missing_key(name, record)
        if fault:
            return fault
    return values[one], values[other]


def _keep(path: Path, line: int, pair: Pair | str, found: list[Pair], bad: list[BadRow]) -> None:
    if not isinstance(pair, str):
        empty = next((which for which, text in zip(("first", "second"), pair, strict=True) if not text.strip()), None)
        pair = f"the {empty} text is empty" if empty else pair
    if isinstance(pair, str):
        bad.append(BadRow(str(path), line, pair))
    else:
        found.append(pair)
