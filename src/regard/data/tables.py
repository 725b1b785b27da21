"""Tables → examples, for every reader: .csv, .tsv and .jsonl, plain or .gz, or tab-separated text of any name.

A reader states the columns that it needs and converts the cells of each row.
"""

from __future__ import annotations

import csv
import dataclasses
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

from regard.data.columns import (
    Choices,
    Guess,
    Places,
    columns_without_header,
    find_columns,
    is_header,
    match_columns,
    normalized,
    show_header,
    width_of,
)
from regard.data.files import EMPTY_LINE, BadRow, FileLines, ReadResult, type_name
from regard.utils.errors import DataError, number_of

TABLE_SUFFIXES = (".tsv", ".csv", ".jsonl")
MAX_CHARACTERS = 10_000_000  # of a text: more than any document, less than a file without line ends
NUM_DELIMITER_ROWS = 10  # rows of a .csv from which its delimiter is guessed
MAX_CELL = 1 << 27  # characters; the csv module's own limit of 131,072 is shorter than many documents

E = TypeVar("E")
Cells = tuple[int, list[str]]  # the first line of a row, and its cells
Record = tuple[int, dict[str, Any]]  # the line of a JSON object, and the object
Row = tuple[int, Sequence[Any]]  # the first line of a row, and the cells of the wanted columns
Convert = Callable[[Sequence[Any]], E | str]  # the wanted cells of a row → an example, or why it is bad
ChoicesOf = Callable[[Sequence[str]], Choices]  # from the lowercase names of the columns


def read_table(
    path: Path,
    choices: Choices | ChoicesOf,
    convert: Convert[E],
    *,
    data: bytes | None = None,
    suffix: str = "",
    other_names: Iterable[str] = (),
    guess: Guess | None = None,
    exact: bool = False,
) -> ReadResult[E]:
    """The examples that `convert` makes of the wanted cells of each row; it returns a reason for a bad row.

    `data` is the content if it does not come from the file. `choices` may be a function of the column names, for tables
    that must have a header. For the other options see `is_header` and `columns_without_header`. Blank lines above a
    header and at the end are ignored.
    """
    result: ReadResult[E] = ReadResult()
    text = FileLines.read(path, result.checksums, data)
    num_lines = next((number for number in range(len(text.lines), 0, -1) if text.lines[number - 1].strip()), 0)
    text = FileLines(text.lines[:num_lines], text.undecodable)
    suffix = suffix or table_suffix(path) or ".tsv"
    if suffix == ".jsonl":
        return _read_records(path, text, choices, convert, result)
    delimiter = "," if suffix == ".csv" else "\t"
    rows = _csv_rows(path, text) if suffix == ".csv" else tab_rows(path, text)
    above: list[Cells | BadRow] = []
    header: list[str] = []
    while not width_of(header) and (row := next(rows, None)):
        above.append(row)
        header = [] if isinstance(row, BadRow) else row[1]
    bad = [row for row in above if isinstance(row, BadRow)]
    if not width_of(header):
        result.bad += bad
        return result
    if bad and (callable(choices) or any(column.given_name for column in choices[0])):
        raise DataError(f"{bad[0]}. This row should name the columns. Correct it.", path=path, line=bad[0].line)
    choices = choices(normalized(header)) if callable(choices) else choices
    if is_header(path, header, choices, other_names):
        places, notes = find_columns(path, header, choices)
        wanted = _wanted(path, itertools.chain(bad, rows), places, width_of(header), "the header has", delimiter)
    else:
        above += rows
        filled = [row[1] for row in above if not isinstance(row, BadRow) and width_of(row[1])]
        places, width, notes = columns_without_header(path, filled, choices[0], delimiter, guess, exact=exact)
        wanted = _wanted(path, above, places, width, "most rows have", delimiter)
    result.remarks += notes
    result.collect(path, wanted, convert)
    return result


def table_suffix(path: Path | str) -> str:
    """The suffix of a table without .gz, or an empty text."""
    name = Path(path).name.lower().removesuffix(".gz")
    return next((suffix for suffix in TABLE_SUFFIXES if name.endswith(suffix)), "")


def text_fault(role: str, text: str, max_characters: int = MAX_CHARACTERS) -> str | None:
    """Why a text cannot be used; None if it can."""
    if not text or text.isspace():
        return f"the {role} is empty"
    if len(text) > max_characters:
        return f"the {role} has {len(text):,} characters; the limit is {max_characters:,}"
    return f"the {role} contains a NUL byte; is this a text file?" if "\0" in text else None


def json_text_fault(key: str, value: object) -> str | None:
    """Why a JSON value is not a text; None if it is one."""
    if not isinstance(value, str):
        return f"{key!r} is {type_name(value)}, not a text"
    if value.isascii():
        return None
    try:  # JSON may escape half of a surrogate pair, such as "\ud83d", which is no character
        value.encode("utf-8")
    except UnicodeEncodeError:
        return f"{key!r} contains half of a character (a lone surrogate)"
    return None


# --- Tables with delimiters ---------------------------------------------------------------------------------


def _wanted(
    path: Path, rows: Iterable[Cells | BadRow], places: Places, width: int, subject: str, delimiter: str
) -> Iterator[Row | BadRow]:
    """The wanted cells of each row that is long enough and has at most `width` columns."""
    needed = max(place for place in places if place is not None) + 1
    width = max(width, needed)
    # itemgetter is faster than a list comprehension, but takes only indices.
    pick = itemgetter(*places) if len(places) > 1 and None not in places else None
    for row in rows:
        if isinstance(row, BadRow):
            yield row
            continue
        line, cells = row
        if len(cells) < needed:
            reason = f"{number_of(len(cells), 'column')}, {needed} needed" if any(cells) else EMPTY_LINE
            yield BadRow(str(path), line, reason)
        elif len(cells) > width and width_of(cells) > width:
            mark = "a tab" if delimiter == "\t" else "a delimiter without quotes"
            reason = f"{width_of(cells)} columns where {subject} {width}; does a text contain {mark}?"
            yield BadRow(str(path), line, reason)
        else:
            yield line, pick(cells) if pick else [None if place is None else cells[place] for place in places]


def tab_rows(path: Path, text: FileLines) -> Iterator[Cells | BadRow]:
    """The rows of a tab-separated table. Quotes have no meaning there."""
    for number, line in enumerate(text.lines, start=1):
        if number in text.undecodable:
            yield BadRow(str(path), number, text.undecodable[number])
        else:
            yield number, line.split("\t")


def _csv_rows(path: Path, text: FileLines) -> Iterator[Cells | BadRow]:
    """The rows of a .csv. Quoted cells may contain delimiters and line breaks."""
    limit = csv.field_size_limit(MAX_CELL)
    try:
        # Spreadsheets write semicolons in countries where 1,5 is a number.
        delimiter = ";" if _splits_evenly(text, ";") and not _splits_evenly(text, ",") else ","
        parsed = list(_parse_csv(text, delimiter))
    finally:
        csv.field_size_limit(limit)
    for begin, end, cells in parsed:
        if text.undecodable:
            lines = range(begin, end + 1)
            cells = next((text.undecodable[line] for line in lines if line in text.undecodable), cells)
        yield BadRow(str(path), begin, cells) if isinstance(cells, str) else (begin, cells)


def _splits_evenly(text: FileLines, delimiter: str) -> bool:
    """Whether the first rows have the same number of cells, more than one."""
    rows = [cells for _, _, cells in itertools.islice(_parse_csv(text, delimiter), NUM_DELIMITER_ROWS) if cells]
    widths = {0 if isinstance(cells, str) else len(cells) for cells in rows}  # 0: invalid with this delimiter
    return len(rows) > 1 and len(widths) == 1 and max(widths) > 1


def _parse_csv(text: FileLines, delimiter: str) -> Iterator[tuple[int, int, list[str] | str]]:
    """First line, last line, and the cells or the reason why the row is invalid."""
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


# --- JSON lines ---------------------------------------------------------------------------------------------


def _read_records(
    path: Path, text: FileLines, choices: Choices | ChoicesOf, convert: Convert[E], result: ReadResult[E]
) -> ReadResult[E]:
    """The examples of JSON lines. Each record may use another of the choices, and other capitals."""
    rows = _json_rows(path, text)
    if callable(choices):
        records = list(rows)
        names = dict.fromkeys(name for row in records if not isinstance(row, BadRow) for name in normalized([*row[1]]))
        choices, rows = choices(list(names)) if names else [], iter(records)
    above: list[Record | BadRow] = []
    keys: list[str] = []
    for row in rows:
        above.append(row)
        if not isinstance(row, BadRow):
            is_complete = match_columns(path, list(row[1]), choices) is not None
            if is_complete or not keys:
                keys = list(row[1])
            if is_complete:
                break
    if not keys:
        result.bad += [row for row in above if isinstance(row, BadRow)]
        return result
    places, notes = find_columns(path, keys, choices)
    wanted = [None if place is None else keys[place] for place in places]
    by_key = [  # a number means the same key in all records
        [dataclasses.replace(c, given=k) if c.number is not None else c for c, k in zip(columns, wanted, strict=True)]
        for columns in choices
    ]
    result.remarks += notes
    result.collect(path, _values(path, itertools.chain(above, rows), by_key, wanted), convert)
    return result


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
            places = match_columns(path, names, choices)
            if places is None:
                absent = next(key for key in keys if key is not None and key.strip().lower() not in normalized(names))
                yield BadRow(str(path), line, f"no key {absent!r}; its keys are: {show_header(names)}")
                continue
            keys = [None if place is None else names[place] for place in places]
            values = [None if key is None else record[key] for key in keys]
        for place in texts:
            if (key := keys[place]) is not None and (fault := json_text_fault(key, values[place])):
                yield BadRow(str(path), line, fault)
                break
        else:
            yield line, values


def _json_rows(path: Path, text: FileLines) -> Iterator[Record | BadRow]:
    for number, line in enumerate(text.lines, start=1):
        record = text.undecodable.get(number) or _parse_json(line)
        yield BadRow(str(path), number, record) if isinstance(record, str) else (number, record)


def _parse_json(line: str) -> dict[str, Any] | str:
    """The object in a line, or the reason why it is invalid."""
    if not line.strip():
        return EMPTY_LINE
    try:
        record = json.loads(line)
    except RecursionError:
        return "not valid JSON (nested too deeply)"
    except ValueError as error:
        return f"not valid JSON ({error})"
    return record if isinstance(record, dict) else f"not a JSON object but {type_name(record)}"
