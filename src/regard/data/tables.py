"""Tables: lines → rows of cells. Tab-separated, comma-separated with quotes, or one JSON object a line.

Knows columns and their names, and nothing of what stands in them.
"""

from __future__ import annotations

import contextlib
import csv
import difflib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.data.files import BadRow, Lines, kind_of, shortened
from regard.errors import MissingColumnError

TABLE_SUFFIXES = (".tsv", ".csv", ".jsonl")
LOOKED_AT = 10  # rows of a .csv by which its separator is known
LONGEST_CELL = 1 << 27  # characters; more than any text has, so that a text's own limit is the one that is named

Cells = tuple[int, list[str]]  # the line a row begins on, and its cells
Record = tuple[int, dict[str, Any]]


def table_suffix(path: Path) -> str:
    """The suffix of a table without .gz, or nothing."""
    name = path.name.lower().removesuffix(".gz")
    return next((suffix for suffix in TABLE_SUFFIXES if name.endswith(suffix)), "")


def width_of(cells: Sequence[str]) -> int:
    """How many columns a row has, empty ones at its end not counted."""
    return next((place for place in range(len(cells), 0, -1) if cells[place - 1].strip()), 0)


def too_short(path: Path, line: int, cells: list[str], needed: int) -> BadRow:
    if not any(cell.strip() for cell in cells):
        return BadRow(str(path), line, "empty line")
    return BadRow(str(path), line, f"{len(cells)} column{'' if len(cells) == 1 else 's'}, {needed} needed")


def too_long(path: Path, line: int, width: int, wanted: int, *, header: bool, suffix: str) -> BadRow:
    whose = "the header has" if header else "most rows have"
    mark = "a comma, or whatever separates its cells, without quotes" if suffix == ".csv" else "a tab"
    return BadRow(str(path), line, f"{width} columns where {whose} {wanted}; is there {mark} inside a sentence?")


def tab_rows(path: Path, text: Lines) -> Iterator[Cells | BadRow]:
    """The rows of a tab-separated table, in which quotes mean nothing."""
    for number, line in enumerate(text.lines, start=1):
        if number in text.undecodable:
            yield BadRow(str(path), number, text.undecodable[number])
        else:
            yield number, line.split("\t")


def comma_rows(path: Path, text: Lines) -> Iterator[Cells | BadRow]:
    """The rows of a comma-separated table, whose cells may be quoted and hold commas and line breaks.

    Where commas are decimal points, spreadsheets separate cells by semicolons instead.
    """
    with _long_cells():
        parsed = list(_parsed_csv(text, _delimiter(text)))
    for begin, end, cells in parsed:
        fault = _fault_between(text, begin, end)
        if fault or isinstance(cells, str):
            yield BadRow(str(path), begin, fault or str(cells))
        else:
            yield begin, cells


def json_rows(path: Path, text: Lines) -> Iterator[Record | BadRow]:
    """The objects of a file of JSON lines."""
    for number, line in enumerate(text.lines, start=1):
        record = text.undecodable.get(number) or _parsed_json(line)
        yield BadRow(str(path), number, record) if isinstance(record, str) else (number, record)


def names_in(path: Path, text: Lines) -> list[str]:
    """The names in the first row of a table, or in the first of its JSON lines, that can be read; in small letters."""
    readers: dict[str, Callable[[Path, Lines], Iterable[Any]]] = {".jsonl": json_rows, ".csv": comma_rows}
    first_lines = Lines(text.lines[:LOOKED_AT], text.undecodable)
    for row in readers.get(table_suffix(path), tab_rows)(path, first_lines):
        if not isinstance(row, BadRow) and any(names := [name.strip().lower() for name in row[1]]):
            return names
    return []


def json_text_fault(key: str, value: object) -> str | None:
    """Why a value is not a text; None if it is one."""
    if not isinstance(value, str):
        return f"{key!r} is {kind_of(value)}, not a text"
    try:  # only an escape can write half of a character: "\\ud83d" alone is valid JSON but no text
        value.encode("utf-8")
    except UnicodeEncodeError:
        return f"{key!r} holds half of a character (a lone surrogate)"
    return None


def missing_key(key: str, record: dict[str, Any]) -> str:
    return f"no key {key!r}; its keys are: {', '.join(map(shortened, record))}"


@contextlib.contextmanager
def _long_cells() -> Iterator[None]:
    """Let the parser take long cells: its own limit is less than a book."""
    before = csv.field_size_limit(LONGEST_CELL)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _delimiter(text: Lines) -> str:
    """What separates the cells: commas, unless only semicolons give the first rows as many cells each."""
    return ";" if _is_steady(text, ";") and not _is_steady(text, ",") else ","


def _is_steady(text: Lines, delimiter: str) -> bool:
    """Whether the first rows have as many cells each, of which there are more than one."""
    rows = [cells for _, _, cells in itertools.islice(_parsed_csv(text, delimiter), LOOKED_AT) if cells]
    widths = {0 if isinstance(cells, str) else len(cells) for cells in rows}  # 0: not to be read by this mark
    return len(rows) > 1 and len(widths) == 1 and max(widths) > 1


def _parsed_csv(text: Lines, delimiter: str) -> Iterator[tuple[int, int, list[str] | str]]:
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


def _fault_between(text: Lines, begin: int, end: int) -> str | None:
    if not text.undecodable:
        return None
    return next((text.undecodable[n] for n in range(begin, end + 1) if n in text.undecodable), None)


def _parsed_json(line: str) -> dict[str, Any] | str:
    """The object on the line, or the reason why there is none."""
    if not line.strip():
        return "empty line"
    try:
        record = json.loads(line)
    except RecursionError:
        return "not JSON that can be read (nested too deeply)"
    except ValueError as problem:
        return f"not valid JSON ({problem})"
    if not isinstance(record, dict):
        return f"not a JSON object but {kind_of(record)}"
    return record


def missing_column(path: Path, missing: str, there: Sequence[str]) -> MissingColumnError:
    names = {name.strip().lower(): name.strip() for name in there}
    near = difflib.get_close_matches(missing.lower(), names, n=1)
    hint = f" Did you mean {names[near[0]]!r}?" if near else ""
    listed = ", ".join(shortened(name) for name in there[:20])
    return MissingColumnError(f"{path}: no column {missing!r}; its columns are: {listed}.{hint}")
