"""Rows of tables (.csv, .tsv, .jsonl, tab-separated text), and checks of their cells. Knows nothing about columns."""

from __future__ import annotations

import contextlib
import csv
import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.data.files import BadRow, FileLines, kind_of

TABLE_SUFFIXES = (".tsv", ".csv", ".jsonl")
NUM_DELIMITER_ROWS = 10  # rows of a .csv that its delimiter is guessed from
MAX_CELL = 1 << 27  # characters; the csv module's own limit of 131,072 is shorter than many documents

Cells = tuple[int, list[str]]  # the first line of a row, and its cells
Record = tuple[int, dict[str, Any]]  # the line of a JSON object, and the object


def table_suffix(path: Path | str) -> str:
    """The suffix of a table without .gz, or an empty text."""
    name = Path(path).name.lower().removesuffix(".gz")
    return next((suffix for suffix in TABLE_SUFFIXES if name.endswith(suffix)), "")


def width_of(cells: Sequence[str]) -> int:
    """The number of columns of a row, without empty cells at its end."""
    if cells and cells[-1] and not cells[-1].isspace():
        return len(cells)
    return next((place for place in range(len(cells), 0, -1) if cells[place - 1].strip()), 0)


def tab_rows(path: Path, text: FileLines) -> Iterator[Cells | BadRow]:
    """The rows of a tab-separated table. Quotes have no meaning there."""
    for number, line in enumerate(text.lines, start=1):
        if number in text.undecodable:
            yield BadRow(str(path), number, text.undecodable[number])
        else:
            yield number, line.split("\t")


def comma_rows(path: Path, text: FileLines) -> Iterator[Cells | BadRow]:
    """The rows of a comma- or semicolon-separated table. Quoted cells may contain delimiters and line breaks."""
    with _long_cells():
        parsed = list(_parsed_csv(text, _delimiter(text)))
    for begin, end, cells in parsed:
        fault = _undecodable_between(text, begin, end) if text.undecodable else None
        if fault or isinstance(cells, str):
            yield BadRow(str(path), begin, fault or str(cells))
        else:
            yield begin, cells


def json_rows(path: Path, text: FileLines) -> Iterator[Record | BadRow]:
    """The objects of a file with one JSON object per line."""
    for number, line in enumerate(text.lines, start=1):
        record = text.undecodable.get(number) or _parsed_json(line)
        yield BadRow(str(path), number, record) if isinstance(record, str) else (number, record)


@contextlib.contextmanager
def _long_cells() -> Iterator[None]:
    before = csv.field_size_limit(MAX_CELL)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _delimiter(text: FileLines) -> str:
    """Commas, unless only semicolons split the first rows evenly: spreadsheets write these where 1,5 is a number."""
    return ";" if _splits_evenly(text, ";") and not _splits_evenly(text, ",") else ","


def _splits_evenly(text: FileLines, delimiter: str) -> bool:
    """Whether the first rows have the same number of cells, more than one."""
    rows = [cells for _, _, cells in itertools.islice(_parsed_csv(text, delimiter), NUM_DELIMITER_ROWS) if cells]
    widths = {0 if isinstance(cells, str) else len(cells) for cells in rows}  # 0: invalid with this delimiter
    return len(rows) > 1 and len(widths) == 1 and max(widths) > 1


def _parsed_csv(text: FileLines, delimiter: str) -> Iterator[tuple[int, int, list[str] | str]]:
    """First line, last line, and the cells or the reason why there are none."""
    reader = csv.reader((line + "\n" for line in text.lines), delimiter=delimiter, strict=True)
    while True:
        begin = reader.line_num + 1
        try:
            cells: list[str] | str = next(reader)
        except StopIteration:
            return
        except csv.Error as problem:
            until = f" (read up to line {reader.line_num})" if reader.line_num > begin else ""
            cells = f"not valid CSV: {problem}{until}"
        yield begin, reader.line_num, cells


def _undecodable_between(text: FileLines, begin: int, end: int) -> str | None:
    return next((text.undecodable[line] for line in range(begin, end + 1) if line in text.undecodable), None)


def _parsed_json(line: str) -> dict[str, Any] | str:
    """The object in a line, or the reason why there is none."""
    if not line.strip():
        return "empty line"
    try:
        record = json.loads(line)
    except RecursionError:
        return "not valid JSON (nested too deeply)"
    except ValueError as problem:
        return f"not valid JSON ({problem})"
    return record if isinstance(record, dict) else f"not a JSON object but {kind_of(record)}"


def text_fault(role: str, text: str, max_characters: int) -> str | None:
    """Why a text cannot be used; None if it can."""
    if not text.strip():
        return f"the {role} is empty"
    if len(text) > max_characters:
        return f"the {role} has {len(text):,} characters; the limit is {max_characters:,}"
    return f"the {role} contains a NUL byte; is this a text file?" if "\0" in text else None


def json_text_fault(key: str, value: object) -> str | None:
    """Why a JSON value is not a text; None if it is one."""
    if not isinstance(value, str):
        return f"{key!r} is {kind_of(value)}, not a text"
    if value.isascii():
        return None
    try:  # JSON may escape half of a surrogate pair, such as "\ud83d", which is no character
        value.encode("utf-8")
    except UnicodeEncodeError:
        return f"{key!r} contains half of a character (a lone surrogate)"
    return None
