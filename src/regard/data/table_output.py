"""Write a table again with more columns: the user's columns stay byte for byte, results are added to their rows.

A table keeps its delimiter, quotes, line ends and byte order mark, because the text of each row is copied. If the
output has another format than the input, rows are converted: .csv and .tsv to each other and to .jsonl, and back.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.files import FileLines, read_bytes
from regard.data.tables import CSVRecord, csv_records, split_tabs, table_suffix
from regard.utils.errors import UsageError, shorten_list

BOM = "\ufeff"
TABLE_FORMATS = (".csv", ".tsv", ".jsonl")  # of tables that can be written


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One row of a table: its first line, its text without the line end, its line end and its cells."""

    line: int
    text: str
    end: str
    cells: Sequence[str]

    @property
    def is_blank(self) -> bool:
        return not self.text.strip()


@dataclass
class SourceTable:
    """A table as it is in its file. `header` is the line of the row with the column names, if there is one."""

    path: Path
    rows: list[SourceRow]
    suffix: str
    delimiter: str = ""
    header: int | None = None
    has_bom: bool = False
    names: Sequence[str] = ()  # of the columns

    @classmethod
    def read(cls, path: Path, header: int | None) -> SourceTable:
        """Read the rows of a file that a reader has already checked."""
        data, suffix = read_bytes(path), table_suffix(path) or ".tsv"
        text = FileLines.read(path, data=data)
        ends = _line_ends(data)
        has_bom = data.startswith(BOM.encode())
        if suffix == ".jsonl":
            rows = [SourceRow(n, line, end, ()) for n, (line, end) in enumerate(zip(text.lines, ends, strict=True), 1)]
            names = list(dict.fromkeys(name for row in rows for name in _record(row)))
            return cls(path, rows, suffix, has_bom=has_bom, names=names)
        parsed: list[CSVRecord] = [(n, n, split_tabs(line)) for n, line in enumerate(text.lines, start=1)]
        delimiter = "\t"
        if suffix == ".csv":
            delimiter, parsed = csv_records(text)
        rows = []
        for begin, end, cells in parsed:
            lines = [a + b for a, b in zip(text.lines[begin - 1 : end], ends[begin - 1 : end], strict=True)]
            content = "".join(lines).removesuffix(ends[end - 1])
            rows.append(SourceRow(begin, content, ends[end - 1], [] if isinstance(cells, str) else cells))
        names = next((list(row.cells) for row in rows if row.line == header), [])
        return cls(path, rows, suffix, delimiter, header, has_bom, names)

    def check_names(self, names: Iterable[str]) -> None:
        """Refuse new columns with the name of an existing column."""
        taken = {name.strip().lower(): name.strip() for name in self.names}
        clashes = [taken[name.lower()] for name in names if name.lower() in taken]
        if clashes:
            raise UsageError(
                f"{self.path} already has the column{'s' if len(clashes) > 1 else ''} {shorten_list(clashes)}. "
                "Choose other names for the results with --prefix.",
                argument="prefix",
                value=clashes[0],
                path=self.path,
            )

    def with_columns(self, results: Mapping[int, Mapping[str, Any]], suffix: str) -> bytes:
        """Return the table with the columns of `results`, which maps the lines of rows to values by column name."""
        names = list(dict.fromkeys(name for row in results.values() for name in row))
        self.check_names(names)
        rows = self._same_format(results, names) if suffix == self.suffix else self._converted(results, names, suffix)
        text = (BOM if self.has_bom and suffix in (".csv", self.suffix) else "") + "".join(rows)
        return text.encode("utf-8", errors="surrogateescape")

    def _same_format(self, results: Mapping[int, Mapping[str, Any]], names: Sequence[str]) -> Iterator[str]:
        no_results = dict.fromkeys(names)
        last_end = next((row.end for row in self.rows if row.end), "\n")
        width = max((len(row.cells) for row in self.rows), default=0) if self.header is None else len(self.names)
        for row in self.rows:
            end = row.end or ("" if row is self.rows[-1] else last_end)
            values = results.get(row.line, no_results)
            if row.is_blank:
                yield row.text + end
            elif self.suffix == ".jsonl":
                yield _append_keys(row.text, values) + end
            else:
                added = names if row.line == self.header else [cell_text(values.get(name)) for name in names]
                own = row.text + self.delimiter * (width - len(row.cells))
                if len(row.cells) > width:  # empty cells after the last column
                    own = self._line(row.cells[:width])
                yield own + self.delimiter + self._line(added) + end

    def _converted(self, results: Mapping[int, Mapping[str, Any]], names: Sequence[str], suffix: str) -> Iterator[str]:
        own = self.names or [f"column {n + 1}" for n in range(max((len(row.cells) for row in self.rows), default=0))]
        if suffix != ".jsonl":
            yield table_line([*own, *names], suffix)
        for row in self.rows:
            if row.is_blank or row.line == self.header:
                continue
            record: dict[str, Any] = dict(zip(own, row.cells, strict=False)) or _record(row)
            record |= results.get(row.line) or dict.fromkeys(names)
            if suffix == ".jsonl":
                yield json.dumps(record, ensure_ascii=False) + "\n"
            else:
                yield table_line([cell_text(record.get(name)) for name in (*own, *names)], suffix)

    def _line(self, cells: Sequence[str]) -> str:
        """Cells of a row without the line end."""
        return table_line(cells, self.suffix, self.delimiter).removesuffix("\n")


def _line_ends(data: bytes) -> list[str]:
    """The line end of each line as `FileLines` counts them."""
    if b"\n" not in data:
        return ["\r"] * data.count(b"\r") + ([""] if not data.endswith(b"\r") and data else [])
    *lines, last = data.split(b"\n")
    return ["\r\n" if line.endswith(b"\r") else "\n" for line in lines] + ([""] if last else [])


def _record(row: SourceRow) -> dict[str, Any]:
    try:
        record = json.loads(row.text)
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


def _append_keys(text: str, values: Mapping[str, Any]) -> str:
    """A JSON object as text with more keys at its end; the text before them stays as it is."""
    body, brace, rest = text.rpartition("}")
    comma = "" if body.strip() == "{" else ", "
    return body.rstrip() + comma + json.dumps(dict(values), ensure_ascii=False)[1:-1] + brace + rest


def cell_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool | dict | list | tuple):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def table_line(cells: Sequence[str], suffix: str, delimiter: str = ",") -> str:
    if suffix == ".tsv":  # quotes have no meaning in a tab-separated table
        return "\t".join(" ".join(cell.replace("\t", " ").splitlines()) for cell in cells) + "\n"
    stream = io.StringIO(newline="")
    csv.writer(stream, delimiter=delimiter, lineterminator="\n").writerow(cells)
    return stream.getvalue()
