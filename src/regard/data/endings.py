"""Beginnings with several endings, of which one is right, as SWAG has them: .tsv, .csv or .jsonl, plain or .gz.

A header says what stands where: `sent1` comes before, `sent2`, if there is one, opens every ending, `ending0`,
`ending1` … go on, and `label` is the number of the right one, counted from 0. Other tables say context or premise, and
choice1, choice2 …; in JSON lines the endings may be one list. Nothing here knows tokens.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.files import (
    CORRECT,
    CORRECT_OR_SKIP,
    BadRow,
    Lines,
    Reading,
    kind_of,
    refuse_bad_rows,
    refuse_emptiness,
    shortened,
)
from regard.data.labelled import MAX_CHARACTERS, text_fault
from regard.data.tables import (
    Cells,
    Record,
    comma_rows,
    json_rows,
    json_text_fault,
    missing_key,
    names_in,
    tab_rows,
    table_suffix,
    too_long,
    too_short,
    width_of,
)
from regard.errors import DataError, number_of

BEGINNINGS = ("sent1", "ctx_a", "context", "premise", "ctx")
OPENINGS = ("sent2", "ctx_b")
ENDING = re.compile(r"(?:ending|choice)_?(\d{1,3})")
ENDINGS = ("endings", "choices")  # of JSON: a list
LABEL = "label"


@dataclass(frozen=True, slots=True)
class Choice:
    """What comes before, what may follow, and the number of what does; None: nobody says."""

    first: str
    endings: tuple[str, ...]
    right: int | None = None


def names_endings(path: Path | str) -> bool:
    """Whether the header of a table, or the first of its JSON lines, names a beginning and its endings."""
    path = Path(path)
    return _Columns.of(names_in(path, Lines.read(path, {}))) is not None


def read_endings(
    path: Path | str,
    *,
    labelled: bool = True,
    skip_bad_rows: bool = False,
    max_characters: int = MAX_CHARACTERS,
) -> Reading[Choice]:
    """Read beginnings and their endings. Unless `labelled`, it does not matter what stands in a column of labels.

    By default bad rows raise a DataError that lists them; with `skip_bad_rows` they are left out and returned in
    `.bad`. What is wrong with a file as a whole always raises.
    """
    path, reading = Path(path), Reading[Choice]()
    text = Lines.read(path, reading.checksums)
    if text.lines:
        names, rows = _table(path, text)
        columns = _Columns.find(path, names, labelled=labelled)
        _refuse_counting_from_one(path, rows, columns)
        for row in rows:
            found = row if isinstance(row, BadRow) else _choice(row[1], columns, max_characters)
            _keep(path, row, found, reading)
    return _finished(reading, str(path), advice=CORRECT_OR_SKIP if labelled else CORRECT, skip_bad_rows=skip_bad_rows)


def read_ending_lines(where: Path | str, data: bytes) -> Reading[Choice]:
    """Beginnings and their endings from lines, with tabs between them; `data` came from `where`."""
    path, reading = Path(where), Reading[Choice]()
    for row in tab_rows(path, Lines.of(path, data)):
        _keep(path, row, row if isinstance(row, BadRow) else _of_line(row[1]), reading)
    return _finished(reading, str(where), advice=CORRECT, skip_bad_rows=False)


def _finished(reading: Reading[Choice], where: str, *, advice: str, skip_bad_rows: bool) -> Reading[Choice]:
    if not skip_bad_rows:
        refuse_bad_rows(reading.bad, len(reading.bad) + len(reading.examples), advice=advice)
    refuse_emptiness(reading, where, what="choice")
    return reading


def _keep(path: Path, row: Cells | Record | BadRow, found: Choice | str | BadRow, reading: Reading[Choice]) -> None:
    if isinstance(row, BadRow):
        reading.bad.append(row)
    elif isinstance(found, Choice):
        reading.add(row[0], found)
    else:
        reading.bad.append(BadRow(str(path), row[0], str(found)))


# Columns --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Columns:
    """What the columns that count are called."""

    first: str
    opening: str | None
    endings: tuple[str, ...]  # one for each, or a single one that holds a list
    label: str | None

    @classmethod
    def of(cls, names: Sequence[str]) -> _Columns | None:
        """The columns among `names`; None where these do not speak of endings."""
        first = next((name for name in BEGINNINGS if name in names), None)
        numbered = [name for name in names if ENDING.fullmatch(name)]
        listed = tuple(name for name in ENDINGS if name in names)[:1]
        if first is None or (len(numbered) < 2 and not listed):
            return None
        # What is told twice is told best by its parts: HellaSwag's "ctx" is "ctx_a" and "ctx_b" together.
        opening = next((name for name in OPENINGS if name in names and first in ("sent1", "ctx_a")), None)
        endings = tuple(sorted(numbered, key=_number_of)) if len(numbered) > 1 else listed
        return cls(first, opening, endings, LABEL if LABEL in names else None)

    @classmethod
    def find(cls, path: Path, names: Sequence[str], *, labelled: bool) -> _Columns:
        """The columns of a table, which must be there, each once, and endings in a row without gaps."""
        found = cls.of(names)
        listed = ", ".join(shortened(name) for name in names[:20])
        if found is None:
            raise DataError(
                f"{path}: its columns ({listed}) do not name a beginning and its endings: sent1 or context, then "
                "ending0, ending1 …"
            )
        if not labelled:
            found = cls(found.first, found.opening, found.endings, None)
        elif found.label is None:
            raise DataError(f"{path}: no column {LABEL!r} says which ending is right; its columns are: {listed}.")
        for name in (found.first, found.opening, *dict.fromkeys(found.endings), found.label):
            if name is not None and names.count(name) > 1:
                raise DataError(f"{path}: {names.count(name)} columns are called {name!r}. Rename all but one of them.")
        numbers = [_number_of(name) for name in found.endings] if len(found.endings) > 1 else [0]
        if numbers not in ([*range(len(numbers))], [*range(1, len(numbers) + 1)]):
            raise DataError(f"{path}: its endings are not numbered one after the other: {', '.join(found.endings)}.")
        return found


def _number_of(name: str) -> int:
    found = ENDING.fullmatch(name)
    return int(found[1]) if found else 0


def _table(path: Path, text: Lines) -> tuple[list[str], list[Record | BadRow]]:
    """The names of the columns, in small letters, and the rows as records by these names."""
    suffix = table_suffix(path) or ".tsv"
    if suffix == ".jsonl":
        records = [row if isinstance(row, BadRow) else (row[0], _small(row[1])) for row in json_rows(path, text)]
        known = dict.fromkeys(name for row in records if not isinstance(row, BadRow) for name in row[1])
        return list(known), records
    rows = list(comma_rows(path, text) if suffix == ".csv" else tab_rows(path, text))
    while len(rows) > 1 and not isinstance(rows[0], BadRow) and not width_of(rows[0][1]):
        del rows[0]
    header = rows[0]
    if isinstance(header, BadRow):
        raise DataError(f"{header}. This row should name the columns: correct it, or save the file as UTF-8.")
    names = [name.strip().lower() for name in header[1]]
    return names, [row if isinstance(row, BadRow) else _record(path, row, names, suffix) for row in rows[1:]]


def _small(record: Mapping[str, Any]) -> dict[str, Any]:
    return {key.strip().lower(): value for key, value in record.items()}


def _record(path: Path, row: Cells, names: Sequence[str], suffix: str) -> Record | BadRow:
    line, cells = row
    if not width_of(cells):
        return too_short(path, line, cells, len(names))
    if width_of(cells) > len(names):
        return too_long(path, line, width_of(cells), len(names), header=True, suffix=suffix)
    return line, dict(zip(names, [*cells, *[""] * len(names)], strict=False))


# What stands in a row -------------------------------------------------------------------------------------


def _choice(record: Mapping[str, Any], columns: _Columns, max_characters: int) -> Choice | str:
    """What a record says, or what is wrong with it."""
    needed = (columns.first, *columns.endings, *([columns.label] if columns.label else ()))
    absent = next((name for name in needed if name not in record), None)
    if absent is not None:
        return missing_key(absent, dict(record))
    named = [(name, record[name]) for name in columns.endings]
    if len(named) == 1:
        ((name, listed),) = named
        if not isinstance(listed, list):
            return f"{name!r} is {kind_of(listed)}, not a list"
        named = [(name, ending) for ending in listed]
    if len(named) < 2:
        return "there are no two endings to choose from"
    opening = record.get(columns.opening, "") if columns.opening else ""
    if fault := json_text_fault(columns.opening or "", opening):
        return fault
    for name, text in [(columns.first, record[columns.first]), *named]:
        if fault := json_text_fault(name, text) or text_fault(f"column {name!r}", text, max_characters):
            return fault
    right = _right(record[columns.label], len(named)) if columns.label else None
    if isinstance(right, str):
        return right
    endings = (f"{opening.strip()} {ending.strip()}".strip() for _, ending in named)
    return Choice(record[columns.first].strip(), tuple(endings), right)


def _right(label: object, endings: int) -> int | str:
    """The number that a label is, or what is wrong with it."""
    if isinstance(label, bool) or not isinstance(label, (int, float, str)):
        return f"the label is {kind_of(label)}, not the number of an ending"
    written = str(label).strip()
    known = {str(number): number for number in range(endings)}
    if not written:
        return "the label is empty"
    right = known.get(written.removesuffix(".0"))
    fault = f"the label {shortened(written)!r} is no number of an ending: these are 0 to {endings - 1}"
    return fault if right is None else right


def _refuse_counting_from_one(path: Path, rows: Sequence[Record | BadRow], columns: _Columns) -> None:
    """Labels that count from 1 would each mean the ending after the one that is meant."""
    if columns.label is None or len(columns.endings) < 2:
        return
    labels = {str(row[1].get(columns.label)).strip() for row in rows if not isinstance(row, BadRow)}
    if "0" not in labels and str(len(columns.endings)) in labels:
        raise DataError(
            f"{path}: its labels seem to count from 1, to {len(columns.endings)}. They must be numbers of endings that "
            "count from 0: take 1 from each."
        )


def _of_line(cells: Sequence[str]) -> Choice | str:
    texts = [cell.strip() for cell in cells]
    if len(texts) < 3:
        return (
            f"{number_of(len(texts), 'text')}; a beginning and two endings or more are needed, with tabs between them"
        )
    if not all(texts):
        return "a text is empty"
    return Choice(texts[0], tuple(texts[1:]))
