"""The wanted columns of a table, for every reader of tables.

A reader says which columns it needs. They are found by name in the header or in the keys of JSON lines, by number, or
in a table without a header by position. What the cells mean is up to the reader.
"""

from __future__ import annotations

import dataclasses
import difflib
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

from regard.data.files import BadRow, FileLines, shortened
from regard.data.rows import Cells, Record, comma_rows, json_rows, json_text_fault, tab_rows, table_suffix, width_of
from regard.utils.errors import DataError, MissingColumnError, UsageError, number_of


@dataclass(frozen=True)
class Column:
    """A column that a reader needs."""

    role: str  # what it holds, such as "text"
    names: Sequence[str]  # its usual names in lowercase; the first one that exists is taken
    given: str | None = None  # the name or number that the user gave
    flag: str = ""  # the option with which the user gives it
    required: bool = True  # False: cells are None where the column is missing
    is_text: bool = True  # False: JSON values other than texts are allowed

    @property
    def number(self) -> int | None:
        return int(self.given) if self.given is not None and self.given.isdecimal() else None

    @property
    def given_name(self) -> str | None:
        return None if self.given is None or self.given.isdecimal() else self.given.lower()

    @property
    def argument(self) -> str:
        return self.flag.lstrip("-").replace("-", "_") or self.role


Columns = Sequence[Column]
Choices = Sequence[Columns]  # alternatives with the same roles; the first one that the table has is taken
ChoicesOf = Callable[[Sequence[str]], Choices]  # from the lowercase names of the columns
Places = tuple[int | None, ...]  # the index of each column; None for an optional column that is missing
Row = tuple[int, Sequence[Any]]  # the first line of a row, and the cells of the wanted columns
Guess = Callable[[Sequence[list[str]], int, Places], Places]  # (rows, width, places by number or ()) → places


@dataclass
class Table:
    """The wanted cells of each row, and the rows that cannot be used."""

    rows: Iterable[Row | BadRow] = ()
    notes: tuple[str, ...] = ()  # which columns were taken, where it is not obvious


def read_table(
    path: Path,
    text: FileLines,
    choices: Choices | ChoicesOf,
    *,
    suffix: str = "",
    header_names: int = 2,
    other_names: Iterable[str] = (),
    guess: Guess | None = None,
    exact: bool = False,
) -> Table:
    """Find the wanted columns of a table.

    `choices` may be a function of the table's column names, for tables that must have a header. The first row with
    content is a header if it has a name that the user gave, or `header_names` usual names of columns, or of others in
    `other_names`. Without a header the columns are those whose numbers the user gave, or what `guess` says, or the
    first ones; with `exact` there must be no others. Blank lines above a header and at the end are ignored.
    """
    suffix = suffix or table_suffix(path) or ".tsv"
    num_lines = next((number for number in range(len(text.lines), 0, -1) if text.lines[number - 1].strip()), 0)
    text = FileLines(text.lines[:num_lines], text.undecodable)
    if suffix == ".jsonl":
        return _read_records(path, text, choices)
    rows = comma_rows(path, text) if suffix == ".csv" else tab_rows(path, text)
    above: list[Cells | BadRow] = []
    header: list[str] = []
    while not width_of(header) and (row := next(rows, None)):
        above.append(row)
        header = [] if isinstance(row, BadRow) else row[1]
    bad = [row for row in above if isinstance(row, BadRow)]
    if not width_of(header):
        return Table(bad)
    if bad and (callable(choices) or any(column.given_name for column in choices[0])):
        raise DataError(f"{bad[0]}. This row should name the columns. Correct it.", path=path, line=bad[0].line)
    if callable(choices):
        choices = choices(_names(header))
    if _is_header(header, choices, header_names, other_names):
        places = find_columns(path, header, choices)
        cells = _cells(path, itertools.chain(bad, rows), places, width_of(header), "the header has", suffix)
        return Table(cells, _header_note(path, header, places, choices))
    if missing := next((column for column in choices[0] if column.given_name), None):
        raise _missing_column(path, missing, header)
    return _read_without_header(path, [*above, *rows], choices[0], guess, exact=exact, suffix=suffix)


# --- Rows ---------------------------------------------------------------------------------------------------


def _read_without_header(
    path: Path, rows: Sequence[Cells | BadRow], columns: Columns, guess: Guess | None, *, exact: bool, suffix: str
) -> Table:
    filled = [row[1] for row in rows if not isinstance(row, BadRow) and width_of(row[1])]
    required = [column for column in columns if column.required]
    roles = listed([column.role for column in required])
    num_cells = _most_common(map(len, filled))
    if num_cells < len(required):
        marks = {";": "semicolons", ",": "commas", "\t": "tabs"}
        delimiter = "," if suffix == ".csv" else "\t"
        other = next((marks[mark] for mark in marks if mark != delimiter and mark in filled[0][0]), None)
        raise DataError(
            f"{path} has {number_of(num_cells, 'column')} ({shortened(filled[0][0])!r}); {len(required)} are needed "
            f"({roles}), separated by {marks[delimiter]}.{f' It seems to be separated by {other}.' if other else ''}",
            path=path,
            value=num_cells,
        )
    width = max(_most_common(map(width_of, filled)), len(required))
    places = _numbered_places(path, columns, width)
    notes = not places
    if guess is not None:
        places = guess(filled, width, places)
    elif not places:
        if exact and width > len(required):
            hint = flags_hint(columns) or f" Add a header with {listed([column.names[0] for column in required])}."
            raise DataError(
                f"{path}: cannot tell which of its columns ({_shown(filled[0])}) hold {roles}.{hint}",
                path=path,
                value=width,
            )
        notes = width > len(required)
        places = tuple(required.index(column) if column.required else None for column in columns)
    taken = (None if place is None else str(place + 1) for place in places)
    note = _note(path, columns, taken, f" (of {width}; it has no header)") if notes else ()
    return Table(_cells(path, rows, places, max(width, _needed(places)), "most rows have", suffix), note)


def _cells(
    path: Path, rows: Iterable[Cells | BadRow], places: Places, width: int, whose: str, suffix: str
) -> Iterator[Row | BadRow]:
    """The wanted cells of rows that are long enough, and not longer than `width`."""
    needed = _needed(places)
    # The getter is faster than a list comprehension, and takes only indices.
    pick = itemgetter(*places) if len(places) > 1 and None not in places else None
    for row in rows:
        if isinstance(row, BadRow):
            yield row
            continue
        line, cells = row
        if len(cells) < needed:
            reason = f"{number_of(len(cells), 'column')}, {needed} needed" if any(cells) else "empty line"
            yield BadRow(str(path), line, reason)
        elif len(cells) > width and width_of(cells) > width:
            mark = "a delimiter without quotes" if suffix == ".csv" else "a tab"
            reason = f"{width_of(cells)} columns where {whose} {width}; does a text contain {mark}?"
            yield BadRow(str(path), line, reason)
        else:
            yield line, pick(cells) if pick else [None if place is None else cells[place] for place in places]


def _most_common(numbers: Iterable[int]) -> int:
    return Counter(numbers).most_common(1)[0][0]


def _needed(places: Places) -> int:
    return max(place for place in places if place is not None) + 1


def _read_records(path: Path, text: FileLines, choices: Choices | ChoicesOf) -> Table:
    """The values of JSON lines. Each record may use another of the choices, and other capitals."""
    rows = json_rows(path, text)
    if callable(choices):
        records = list(rows)
        names = dict.fromkeys(name for row in records if not isinstance(row, BadRow) for name in _names(list(row[1])))
        choices, rows = choices(list(names)) if names else [], iter(records)
    above: list[Record | BadRow] = []
    keys: list[str] = []
    for row in rows:
        above.append(row)
        if not isinstance(row, BadRow) and _find(path, list(row[1]), choices):
            keys = list(row[1])
            break
    keys = keys or next((list(row[1]) for row in above if not isinstance(row, BadRow)), [])
    if not keys:
        return Table([row for row in above if isinstance(row, BadRow)])
    places = find_columns(path, keys, choices)
    wanted = [None if place is None else keys[place] for place in places]
    # A number means the same key in all records.
    fixed = [
        [
            dataclasses.replace(c, given=key) if c.number is not None else c
            for c, key in zip(columns, wanted, strict=True)
        ]
        for columns in choices
    ]
    return Table(_values(path, itertools.chain(above, rows), fixed, wanted), _header_note(path, keys, places, choices))


def _values(
    path: Path, rows: Iterable[Record | BadRow], choices: Choices, usual_keys: Sequence[str | None]
) -> Iterator[Row | BadRow]:
    texts = [place for place, column in enumerate(choices[0]) if column.is_text]
    for row in rows:
        if isinstance(row, BadRow):
            yield row
            continue
        line, record = row
        keys = usual_keys
        try:
            values = [record[key] for key in keys]  # type: ignore[index]
        except KeyError:
            names = list(record)
            places = _find(path, names, choices)
            if places is None:
                absent = next(key for key in keys if key is not None and key.strip().lower() not in _names(names))
                yield BadRow(str(path), line, f"no key {absent!r}; its keys are: {_shown(names)}")
                continue
            keys = [None if place is None else names[place] for place in places]
            values = [None if key is None else record[key] for key in keys]
        for place in texts:
            if (key := keys[place]) is not None and (fault := json_text_fault(key, values[place])):
                yield BadRow(str(path), line, fault)
                break
        else:
            yield line, values


# --- Columns ------------------------------------------------------------------------------------------------


def find_columns(path: Path, header: Sequence[str], choices: Choices) -> Places:
    """Where the columns of the first possible choice are in a header; raises if no choice is possible."""
    names = _names(header)
    for column in choices[0]:
        if column.given is not None and _place(path, names, column) is None:
            raise _missing_column(path, column, header)
    places = _find(path, header, choices)
    if places is not None:
        return _distinct(path, places, choices[0])
    lacking = [[c for c in columns if c.required and _place(path, names, c) is None] for columns in choices]
    missing = min(lacking, key=len)
    raise DataError(
        f"{path} has no column for {listed([column.role for column in missing])}. Its columns: {_shown(header)}."
        f"{flags_hint(choices[0])}",
        path=path,
        argument=missing[0].argument,
        value=[name.strip() for name in header],
    )


def _find(path: Path, header: Sequence[str], choices: Choices) -> Places | None:
    names = _names(header)
    for columns in choices:
        places = tuple(_place(path, names, column) for column in columns)
        if all(place is not None or not column.required for place, column in zip(places, columns, strict=True)):
            return places
    return None


def _place(path: Path, names: Sequence[str], column: Column) -> int | None:
    if column.number is not None and column.given not in names:
        return column.number - 1 if 1 <= column.number <= len(names) else None
    wanted = [column.given.lower()] if column.given else column.names
    name = next((name for name in wanted if name in names), None)
    if name is None:
        return None
    if names.count(name) > 1:
        numbers = ", ".join(str(place + 1) for place, other in enumerate(names) if other == name)
        choose = f", or choose one by number with {column.flag}" if column.flag else ""
        raise DataError(
            f"{path}: {names.count(name)} columns are called {name!r} (numbers {numbers}). Rename them{choose}.",
            path=path,
            argument=column.argument,
            value=name,
        )
    return names.index(name)


def _is_header(first: Sequence[str], choices: Choices, header_names: int, other_names: Iterable[str]) -> bool:
    names = _names(first)
    given = [column.given.lower() for column in choices[0] if column.given is not None]
    if any(column.given_name in names for column in choices[0]) or (given and all(name in names for name in given)):
        return True
    usual = {*other_names, *(name for columns in choices for column in columns for name in column.names)}
    needed = 1 if any(column.number is not None for column in choices[0]) else header_names
    return sum(name in usual for name in names) >= needed


def _numbered_places(path: Path, columns: Columns, width: int) -> Places:
    """The places of columns that were given by number: all required ones, or none."""
    for column in columns:
        if column.number is not None and not 1 <= column.number <= width:
            raise _missing_column(path, column, [str(number) for number in range(1, width + 1)])
    if all(column.number is None for column in columns):
        return ()
    missing = next((column for column in columns if column.required and column.number is None), None)
    if missing is not None:
        raise UsageError(
            f"{path} has no header: give the numbers of all columns with {_flags(columns)}.",
            path=path,
            argument=missing.argument,
        )
    return _distinct(path, tuple(None if c.number is None else c.number - 1 for c in columns), columns)


def _distinct(path: Path, places: Places, columns: Columns) -> Places:
    """The places, no two of which may be the same column."""
    for index, place in enumerate(places):
        if place is not None and place in places[:index]:
            column, other = columns[index], columns[places.index(place)]
            raise UsageError(
                f"{path}: column {place + 1} cannot be both {other.role} and {column.role}.{flags_hint(columns)}",
                path=path,
                argument=column.argument,
                value=column.given,
            )
    return places


def _missing_column(path: Path, column: Column, header: Sequence[str]) -> MissingColumnError:
    names = {name.strip().lower(): name.strip() for name in header}
    near = difflib.get_close_matches(str(column.given).lower(), names, n=1)
    hint = names[near[0]] if near else None
    meant = f" Did you mean {shortened(hint)!r}?" if hint else ""
    return MissingColumnError(
        f"{path} has no column {column.given!r}. Its columns: {_shown(header)}.{meant}",
        path=path,
        argument=column.argument,
        value=column.given,
        allowed=names.values(),
        hint=hint,
    )


# --- Words of notes and errors ------------------------------------------------------------------------------


def _note(path: Path, columns: Columns, taken: Iterable[str | None], rest: str = "") -> tuple[str, ...]:
    """Which columns were taken."""
    names = [f"{column.role} {name}" for column, name in zip(columns, taken, strict=True) if name]
    return (f"columns: {', '.join(names)} in {path.name}{rest}.{flags_hint(columns)}",)


def _header_note(path: Path, header: Sequence[str], places: Places, choices: Choices) -> tuple[str, ...]:
    """Which columns were taken, where others could have been meant."""
    taken = [None if place is None else shortened(header[place].strip()) for place in places]
    first_names = {column.names[0] for columns in choices for column in columns if column.names}
    obvious = all(
        name is None or column.given or name.lower() in first_names
        for column, name in zip(choices[0], taken, strict=True)
    )
    if obvious or width_of(header) <= len(taken) - taken.count(None):
        return ()
    return _note(path, choices[0], (name and repr(name) for name in taken))


def _names(header: Sequence[str]) -> list[str]:
    return [name.strip().lower() for name in header]


def _shown(header: Sequence[str]) -> str:
    return ", ".join(shortened(name.strip()) for name in header[:20])


def listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _flags(columns: Columns) -> str:
    return listed(list(dict.fromkeys(column.flag for column in columns if column.flag)))


def flags_hint(columns: Columns) -> str:
    flags = _flags(columns)
    return f" Choose columns with {flags}." if flags else ""
