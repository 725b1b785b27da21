"""Convert tables to examples: .csv, .tsv and .jsonl, plain or .gz, or tab-separated text with any file name.

A reader states the columns that it needs and converts the cells of each row. A column is found by its name in a header
or among the keys of a JSON object, by a number that the user gives, or by its position in a table without a header.
"""

from __future__ import annotations

import csv
import dataclasses
import difflib
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter, methodcaller
from pathlib import Path
from statistics import mode
from typing import Any, TypeVar

from regard.data.files import EMPTY_LINE, FileLines, ReadResult, Row, shortened, type_name
from regard.utils.errors import DataError, MissingColumnError, UsageError, number_of

# Usual column names, in lowercase. If a table has several of them, the first one in the list is used.
TEXTS = ("text", "sentence", "sms", "message", "review", "tweet", "comment", "content", "document", "body")
LABELS = ("label", "labels", "class", "category", "sentiment", "quality", "gold_label", "entailment_judgment", "target")
NUMBERS = ("score", "similarity", "relatedness_score", "relatedness", "rating")
TEXT_PAIRS = (
    ("sentence1", "sentence2"), ("#1 string", "#2 string"), ("sentence_a", "sentence_b"), ("question1", "question2"),
    ("question", "sentence"), ("premise", "hypothesis"), ("text1", "text2"), ("first", "second"),
)  # fmt: skip
TABLE_SUFFIXES = (".tsv", ".csv", ".jsonl")
MAX_CHARACTERS = 10_000_000  # per text; longer texts are probably files without line ends
NUM_DELIMITER_ROWS = 10  # rows of a .csv from which its delimiter is guessed
MAX_CELL = 1 << 27  # characters; the csv module's own limit of 131,072 is shorter than many documents
SURROGATE = re.compile("[\ud800-\udfff]")
DELIMITERS = {";": "semicolons", ",": "commas", "\t": "tabs"}


@dataclass(frozen=True)
class Column:
    """A column that a reader needs."""

    role: str  # content of the column, such as "text"
    names: Sequence[str]  # its usual names
    given: str | None = None  # name or number that the user gave
    flag: str = ""  # command-line option that chooses the column
    required: bool = True  # False means that a missing column gives None for its cells
    is_text: bool = True  # False allows JSON values other than strings

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
Choices = Sequence[Columns]  # alternatives with the same roles; the first one in the table is used
Places = tuple[int | None, ...]  # the index of each column; None for an optional column that is missing
E = TypeVar("E")
Convert = Callable[[Sequence[Any]], E | str]  # requested cells of a row → an example, or why it is bad
CSVRecord = tuple[int, int, list[str] | str]  # first line, last line, cells or the reason why they are invalid
ChoicesOf = Callable[[Sequence[str]], Choices]  # lowercase column names → choices


def read_table(
    path: Path,
    choices: Choices | ChoicesOf,
    convert: Convert[E],
    *,
    data: bytes | None = None,
    suffix: str = "",
    other_names: Iterable[str] = (),
    guess: bool = False,
    exact: bool = False,
) -> ReadResult[E]:
    """Return the results of `convert` for the requested cells of each row. For a bad row, `convert` returns the reason.

    `data` is the content of the table if it is not read from the file. `choices` may be a function of the column names,
    for tables that must have a header. For the other options see `_is_header` and `_columns_without_header`. Blank
    lines above a header and at the end are ignored.
    """
    result: ReadResult[E] = ReadResult()
    text = FileLines.read(path, result.checksums, data)
    while text.lines and not text.lines[-1].strip():
        text.lines.pop()
    suffix = suffix or table_suffix(path) or ".tsv"
    if suffix == ".jsonl":
        return _read_records(path, text, choices, convert, result)
    delimiter = "," if suffix == ".csv" else "\t"
    rows = _csv_rows(text) if suffix == ".csv" else text.rows(split_tabs)
    above: list[Row] = []
    header: list[str] = []
    while not width_of(header) and (row := next(rows, None)):
        above.append(row)
        header = [] if isinstance(row[1], str) else row[1]
    bad = [row for row in above if isinstance(row[1], str)]
    if not width_of(header):
        return result.collect(path, bad, convert)
    if bad and (callable(choices) or any(column.given_name for column in choices[0])):
        line, reason = bad[0]
        raise DataError(f"{path}:{line}: {reason}. This row should be the header. Correct it.", path=path, line=line)
    choices = choices(normalized(header)) if callable(choices) else choices
    if _is_header(path, header, choices, other_names):
        places, notes = _find_columns(path, header, choices)
        rows, width, subject = itertools.chain(bad, rows), width_of(header), "the header has"
        result.header = above[-1][0]
    else:
        above += rows
        filled = [cells for _, cells in above if not isinstance(cells, str) and width_of(cells)]
        places, width, notes = _columns_without_header(path, filled, choices[0], delimiter, guess=guess, exact=exact)
        rows, subject = iter(above), "most rows have"
    result.remarks += notes
    return result.collect(path, rows, _of_cells(convert, places, width, subject, delimiter))


split_tabs = methodcaller("split", "\t")  # quotes have no meaning in a tab-separated table


def table_suffix(path: Path | str) -> str:
    """Return the suffix of a table without .gz, or an empty string if the file is not a table."""
    name = Path(path).name.lower().removesuffix(".gz")
    return next((suffix for suffix in TABLE_SUFFIXES if name.endswith(suffix)), "")


def text_fault(role: str, text: str, max_characters: int = MAX_CHARACTERS) -> str | None:
    """Return the reason why a text cannot be used, or None."""
    if not text or text.isspace():
        return f"the {role} is empty"
    if len(text) > max_characters:
        return f"the {role} has {len(text):,} characters; the limit is {max_characters:,}"
    return f"the {role} contains a NUL byte; is this a text file?" if "\0" in text else None


def json_text_fault(key: str, value: object) -> str | None:
    """Return the reason why a JSON value is not a text, or None."""
    if not isinstance(value, str):
        return f"{key!r} is {type_name(value)}, not a text"
    # JSON may escape half of a surrogate pair, such as "\ud83d", which is no character.
    is_whole = value.isascii() or not SURROGATE.search(value)
    return None if is_whole else f"{key!r} contains a lone surrogate (half of a character)"


def as_number(text: str) -> float | None:
    """Convert a text to a finite number, or return None."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


# --- Rows ---------------------------------------------------------------------------------------------------


def _of_cells(
    convert: Convert[E], places: Places, width: int, subject: str, delimiter: str
) -> Callable[[list[str]], E | str]:
    """Return a function that calls `convert` with the cells at `places`; rows with over `width` columns are bad."""
    needed = max(place for place in places if place is not None) + 1
    width = max(width, needed)
    # itemgetter is faster than a list comprehension, but takes only indices.
    pick = itemgetter(*places) if len(places) > 1 and None not in places else None

    def converted(cells: list[str]) -> E | str:
        if len(cells) < needed:
            return f"{number_of(len(cells), 'column')}, {needed} needed" if any(cells) else EMPTY_LINE
        if len(cells) > width and width_of(cells) > width:
            mark = "a tab" if delimiter == "\t" else "a delimiter without quotes"
            return f"{width_of(cells)} columns where {subject} {width}; does a text contain {mark}?"
        return convert(pick(cells) if pick else [None if place is None else cells[place] for place in places])

    return converted


def csv_records(text: FileLines) -> tuple[str, list[CSVRecord]]:
    """Return the delimiter and the records of a .csv. Quoted cells may contain delimiters and line breaks."""
    limit = csv.field_size_limit(MAX_CELL)
    try:
        # Spreadsheets write semicolons in countries where 1,5 is a number.
        semicolons, commas = _first_widths(text, ";"), _first_widths(text, ",")
        is_even = _splits_evenly(semicolons) and not _splits_evenly(commas)
        # In an uneven table, the header and most rows decide.
        is_likely = commas[:1] == [1] and semicolons[0] > 1 and semicolons.count(semicolons[0]) > len(semicolons) / 2
        delimiter = ";" if is_even or is_likely else ","
        return delimiter, list(_parse_csv(text, delimiter))
    finally:
        csv.field_size_limit(limit)


def _csv_rows(text: FileLines) -> Iterator[Row]:
    for begin, end, cells in csv_records(text)[1]:
        lines = range(begin, end + 1) if text.undecodable else ()
        yield begin, next((text.undecodable[line] for line in lines if line in text.undecodable), cells)


def _splits_evenly(widths: Sequence[int]) -> bool:
    return len(widths) > 1 and len(set(widths)) == 1 and widths[0] > 1


def _first_widths(text: FileLines, delimiter: str) -> list[int]:
    """Return the numbers of cells in the first rows; 0 for a row that is invalid with this delimiter."""
    rows = itertools.islice(_parse_csv(text, delimiter), NUM_DELIMITER_ROWS)
    return [0 if isinstance(cells, str) else len(cells) for _, _, cells in rows if cells]


def _parse_csv(text: FileLines, delimiter: str) -> Iterator[CSVRecord]:
    """Yield for each row its first line, its last line, and its cells or the reason why it is invalid."""
    reader = csv.reader((line + "\n" for line in text.lines), delimiter=delimiter, strict=True)
    while True:
        begin = reader.line_num + 1
        try:
            cells: list[str] | str = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            until = f" (read up to line {reader.line_num})" if reader.line_num > begin else ""
            cells = f"not valid CSV: {error}{until}"
        yield begin, reader.line_num, cells


def _read_records(
    path: Path, text: FileLines, choices: Choices | ChoicesOf, convert: Convert[E], result: ReadResult[E]
) -> ReadResult[E]:
    """Return the examples of JSON lines. Records may differ in the choice of columns and in upper and lower case."""
    rows = text.rows(_parse_json)
    if callable(choices):
        records = list(rows)
        names = dict.fromkeys(name for _, row in records if isinstance(row, dict) for name in normalized([*row]))
        choices, rows = choices(list(names)) if names else [], iter(records)
    above: list[Row] = []
    keys: list[str] = []
    for row in rows:
        above.append(row)
        if isinstance(row[1], dict):
            is_complete = _match_columns(path, list(row[1]), choices) is not None
            if is_complete or not keys:
                keys = list(row[1])
            if is_complete:
                break
    if keys:
        places, notes = _find_columns(path, keys, choices)
        wanted = [None if place is None else keys[place] for place in places]
        choices = [  # a column number stands for the same key in all records
            [
                dataclasses.replace(c, given=k) if c.number is not None else c
                for c, k in zip(columns, wanted, strict=True)
            ]
            for columns in choices
        ]
        result.remarks += notes
        convert = _of_record(path, convert, choices, wanted)
    return result.collect(path, itertools.chain(above, rows), convert)


def _of_record(
    path: Path, convert: Convert[E], choices: Choices, usual_keys: Sequence[str | None]
) -> Callable[[Any], E | str]:
    """Return `convert` as a function of a JSON object."""
    texts = [place for place, column in enumerate(choices[0]) if column.is_text]

    def converted(record: dict[Any, Any]) -> E | str:
        keys = usual_keys
        try:
            values = [record[key] for key in keys]
        except KeyError:
            names = list(record)
            places = _match_columns(path, names, choices)
            if places is None:
                absent = next(key for key in keys if key is not None and key.strip().lower() not in normalized(names))
                return f"no key {absent!r}; its keys are: {show_header(names)}"
            keys = [None if place is None else names[place] for place in places]
            values = [None if key is None else record[key] for key in keys]
        for place in texts:
            if (key := keys[place]) is not None and (fault := json_text_fault(key, values[place])):
                return fault
        return convert(values)

    return converted


def _parse_json(line: str) -> dict[str, Any] | str:
    """Return the object in a line, or the reason why the line is invalid."""
    if not line.strip():
        return EMPTY_LINE
    try:
        record = json.loads(line)
    except (RecursionError, ValueError) as error:
        return f"not valid JSON ({'nested too deeply' if isinstance(error, RecursionError) else error})"
    return record if isinstance(record, dict) else f"not a JSON object but {type_name(record)}"


# --- Finding columns ----------------------------------------------------------------------------------------


def pair_columns(first: str | None, second: str | None) -> list[tuple[Column, Column]]:
    """Return the columns of two texts for each pair of usual names."""
    return [
        (Column("first text", (a,), first, "--first-column"), Column("second text", (b,), second, "--second-column"))
        for a, b in TEXT_PAIRS
    ]


def normalized(header: Sequence[str]) -> list[str]:
    return [name.strip().lower() for name in header]


def _is_header(path: Path, row: Sequence[str], choices: Choices, other_names: Iterable[str]) -> bool:
    """Return whether a row is a header: it contains a name that the user gave, or at least two of the usual names and
    `other_names`.

    One usual name is enough if the user gave numbers, or if there is only one column. Raise an error if no usual name
    is found and a name that the user gave is missing.
    """
    names = normalized(row)
    given = [column.given.lower() for column in choices[0] if column.given is not None]
    if any(column.given_name in names for column in choices[0]) or (given and all(name in names for name in given)):
        return True
    usual = {*other_names, *(name for columns in choices for column in columns for name in column.names)}
    is_one_enough = any(column.number is not None for column in choices[0]) or len(choices[0]) == 1
    if sum(name in usual for name in names) >= (1 if is_one_enough else 2):
        return True
    if missing := next((column for column in choices[0] if column.given_name), None):
        raise _missing_column(path, missing, row)
    return False


def _match_columns(path: Path, header: Sequence[str], choices: Choices) -> Places | None:
    """Return the indices of the first choice whose columns are all in the header; None if there is no such choice."""
    names = normalized(header)
    for columns in choices:
        places = tuple(_place(path, names, column) for column in columns)
        if all(place is not None or not column.required for place, column in zip(places, columns, strict=True)):
            return places
    return None


def _find_columns(path: Path, header: Sequence[str], choices: Choices) -> tuple[Places, list[str]]:
    """Return the result of `_match_columns` and notes on the chosen columns; raise an error if columns are missing."""
    names = normalized(header)
    for column in choices[0]:
        if column.given is not None and _place(path, names, column) is None:
            raise _missing_column(path, column, header)
    places = _match_columns(path, header, choices)
    if places is not None:
        return _distinct(path, places, choices[0]), _header_notes(path, header, places, choices)
    lacking = [[c for c in columns if c.required and _place(path, names, c) is None] for columns in choices]
    missing = min(lacking, key=len)
    roles, hint = _listed([column.role for column in missing]), _flags_hint(choices[0])
    message = f"{path} has no column for {roles}. Its columns: {show_header(header)}.{hint}"
    raise DataError(message, path=path, argument=missing[0].argument, value=[name.strip() for name in header])


def _columns_without_header(
    path: Path, rows: Sequence[list[str]], columns: Columns, delimiter: str, *, guess: bool, exact: bool
) -> tuple[Places, int, list[str]]:
    """Return the indices of the columns, the number of columns in the table, and notes.

    Use the numbers that the user gave. Otherwise, with `guess`, choose columns by their contents; the last of `columns`
    has the labels. Otherwise use the first columns; `exact` then means that the table must not have other columns.
    """
    required = [column for column in columns if column.required]
    roles = _listed([column.role for column in required])
    num_cells = mode(map(len, rows))
    if num_cells < len(required):
        other = next((mark for mark in DELIMITERS if mark != delimiter and mark in rows[0][0]), None)
        hint = f" The columns seem to be separated by {DELIMITERS[other]}." if other else ""
        found = f"{number_of(num_cells, 'column')} ({shortened(rows[0][0])!r})"
        needed = f"at least {len(required)} columns ({roles}), separated by {DELIMITERS[delimiter]}"
        raise DataError(f"{path} must have {needed}, got {found}.{hint}", path=path, value=num_cells, hint=other)
    width = max(mode(map(width_of, rows)), len(required))
    places = _numbered_places(path, columns, width)
    has_note = not places
    if guess:
        places = places or _guess_columns(path, rows, width, columns)
        _refuse_unknown_header(path, rows, places[-1] or 0, columns)
    elif not places:
        if exact and width > len(required):
            hint = _flags_hint(columns) or f" Add a header with {_listed([column.names[0] for column in required])}."
            message = f"{path}: cannot tell which of the columns ({show_header(rows[0])}) have {roles}.{hint}"
            raise DataError(message, path=path, value=width)
        has_note = width > len(required)
        places = tuple(required.index(column) if column.required else None for column in columns)
    numbers = (None if place is None else str(place + 1) for place in places)
    notes = [_note(path, columns, numbers, f" (of {width}; it has no header)")] if has_note else []
    return places, width, notes


def _guess_columns(path: Path, rows: Sequence[list[str]], width: int, columns: Columns) -> Places:
    """Guess that the longest columns are texts; the column with the fewest distinct values has the labels."""
    cells = [[row[place].strip() if place < len(row) else "" for row in rows] for place in range(width)]
    by_length = sorted(range(width), key=lambda place: -sum(map(len, cells[place])))
    texts, others = sorted(by_length[: len(columns) - 1]), sorted(by_length[len(columns) - 1 :])
    others = [place for place in others if all(cells[place])] or others
    num_values = [len(set(column)) for column in cells]
    label = min(others, key=lambda place: (num_values[place] < 2, num_values[place], place))
    if num_values[label] > max(2, len(rows) // 2) and len(rows) > 10 and as_number(cells[label][1]) is None:
        message = f"{path} must have a known header or a column with repeated labels.{_flags_hint(columns)}"
        raise DataError(message, path=path)
    return (*texts, label)


def _refuse_unknown_header(path: Path, rows: Sequence[list[str]], place: int, columns: Columns) -> None:
    """Raise an error if only the label of the first row is unique, because this row is then an unknown header."""
    labels = Counter(row[place].strip() for row in rows if len(row) > place)
    first = rows[0][place].strip() if len(rows[0]) > place else ""
    others = [count for label, count in labels.items() if label != first]
    if len(rows) >= 5 and labels[first] == 1 and others and min(others) > 1 and as_number(first) is None:
        names, hint = [name.strip() for name in rows[0]], _flags_hint(columns)
        advice = f"{hint} If it is an example, add a header line above it."
        message = f"{path}: the first line looks like a header: {show_header(names)}.{advice}"
        raise DataError(message, path=path, line=1, value=names)


def _numbered_places(path: Path, columns: Columns, width: int) -> Places:
    """Return the column indices for the numbers that the user gave, or () if the user gave none."""
    for column in columns:
        if column.number is not None and not 1 <= column.number <= width:
            raise _missing_column(path, column, [str(number) for number in range(1, width + 1)])
    if all(column.number is None for column in columns):
        return ()
    missing = next((column for column in columns if column.required and column.number is None), None)
    if missing is not None:
        message = f"{path} has no header. Give the numbers of all columns with {_flags(columns)}."
        raise UsageError(message, path=path, argument=missing.argument)
    return _distinct(path, tuple(None if c.number is None else c.number - 1 for c in columns), columns)


def _missing_column(path: Path, column: Column, header: Sequence[str]) -> MissingColumnError:
    """Return the error for a column that the user gave but the table lacks."""
    names = {name.strip().lower(): name.strip() for name in header}
    near = difflib.get_close_matches(str(column.given).lower(), names, n=1)
    hint = names[near[0]] if near else None
    suggestion = f" Did you mean {shortened(hint)!r}?" if hint else ""
    message = f"{path} has no column {column.given!r}. Its columns: {show_header(header)}.{suggestion}"
    return MissingColumnError(
        message, path=path, argument=column.argument, value=column.given, allowed=names.values(), hint=hint
    )


def _place(path: Path, names: Sequence[str], column: Column) -> int | None:
    if column.number is not None and column.given not in names:
        return column.number - 1 if 1 <= column.number <= len(names) else None
    wanted = [column.given.lower()] if column.given else column.names
    name = next((name for name in wanted if name in names), None)
    if name is None:
        return None
    if names.count(name) > 1:
        numbers = ", ".join(str(place) for place, other in enumerate(names, start=1) if other == name)
        choose = f", or choose one by number with {column.flag}" if column.flag else ""
        message = f"{path}: columns {numbers} have the same name, {name!r}. Rename them{choose}."
        raise DataError(message, path=path, argument=column.argument, value=name)
    return names.index(name)


def _distinct(path: Path, places: Places, columns: Columns) -> Places:
    """Return `places`; raise an error if two of them are the same."""
    for index, place in enumerate(places):
        if place is not None and place in places[:index]:
            column, other = columns[index], columns[places.index(place)]
            roles = f"{other.role} and {column.role}"
            message = f"{path}: column {place + 1} cannot be used for both {roles}.{_flags_hint(columns)}"
            raise UsageError(message, path=path, argument=column.argument, value=column.given)
    return places


# --- Notes and messages -------------------------------------------------------------------------------------


def _note(path: Path, columns: Columns, names: Iterable[str | None], rest: str = "") -> str:
    """Return a note on the chosen columns."""
    taken = ", ".join(f"{column.role} {name}" for column, name in zip(columns, names, strict=True) if name)
    return f"columns: {taken} in {path.name}{rest}.{_flags_hint(columns)}"


def _header_notes(path: Path, header: Sequence[str], places: Places, choices: Choices) -> list[str]:
    """Return a note on the columns chosen from a header, or none if the choice is obvious."""
    taken = [None if place is None else shortened(header[place].strip()) for place in places]
    first_names = {column.names[0] for columns in choices for column in columns if column.names}
    chosen = {name.lower() for column, name in zip(choices[0], taken, strict=True) if name and not column.given}
    if chosen <= first_names or width_of(header) <= len(taken) - taken.count(None):
        return []
    return [_note(path, choices[0], (name and repr(name) for name in taken))]


def width_of(cells: Sequence[str]) -> int:
    """Return the number of columns in a row, without empty cells at its end."""
    if cells and cells[-1] and not cells[-1].isspace():
        return len(cells)
    return next((place for place in range(len(cells), 0, -1) if cells[place - 1].strip()), 0)


def show_header(header: Sequence[str]) -> str:
    return ", ".join(shortened(name.strip()) for name in header[:20])


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _flags(columns: Columns) -> str:
    return _listed(list(dict.fromkeys(column.flag for column in columns if column.flag)))


def _flags_hint(columns: Columns) -> str:
    return f" Choose columns with {_flags(columns)}." if _flags(columns) else ""
