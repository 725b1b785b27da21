"""Read data files as lines, and store the result of a reader: its examples and its bad rows.

A reader checks a whole file before it returns, and reports the file, line and reason for each bad row.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from regard.utils.errors import DataError, UsageError, number_of

NUM_IN_ERROR = 5  # maximum number of bad rows in an error
NUM_IN_NOTES = 20  # maximum number of skipped rows in the notes
EMPTY_LINE = "empty line"
NOT_UTF8 = "not valid UTF-8"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")

E = TypeVar("E")
F = TypeVar("F")
Row = tuple[int, Any]  # the first line of a row and its content; a str is the reason why the row is bad


@dataclass(frozen=True, slots=True)
class BadRow:
    file: str
    line: int  # counted from 1; the first line if the row spans several
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"


@dataclass
class ReadResult(Generic[E]):
    """The usable examples of a file, in order, and its bad rows."""

    examples: list[E] = field(default_factory=list)
    bad: list[BadRow] = field(default_factory=list)
    checksums: dict[str, str] = field(default_factory=dict)  # path → sha256 of the file
    remarks: list[str] = field(default_factory=list)  # notes for the user on how the file was read
    lines: list[int] = field(default_factory=list)  # first line of each example, if the reader records it
    header: int | None = None  # line of the column names in a table

    def add(self, line: int, example: E) -> None:
        self.lines.append(line)
        self.examples.append(example)

    def collect(self, path: Path, rows: Iterable[Row], convert: Callable[[Any], E | str]) -> Self:
        """Convert rows to examples, add them and return this result. For a bad row, `convert` returns the reason."""
        add_line, add_example = self.lines.append, self.examples.append  # files have millions of rows
        for line, content in rows:
            example = content if isinstance(content, str) else convert(content)
            if isinstance(example, str):
                self.bad.append(BadRow(str(path), line, example))
            else:
                add_line(line)
                add_example(example)
        return self

    def map(self, convert: Callable[[E], F]) -> ReadResult[F]:
        """Return the same result with converted examples."""
        examples = list(map(convert, self.examples))
        return ReadResult(examples, self.bad, self.checksums, self.remarks, self.lines, self.header)

    def without(self, faults: Mapping[int, str], path: Path | str) -> ReadResult[E]:
        """Return a copy in which some examples become bad rows; `faults` maps their indices to reasons."""
        result: ReadResult[E] = ReadResult([], list(self.bad), self.checksums, list(self.remarks), header=self.header)
        for index, (line, example) in enumerate(zip(self.lines, self.examples, strict=True)):
            if index in faults:
                result.bad.append(BadRow(str(path), line, faults[index]))
            else:
                result.add(line, example)
        return result

    def finish(
        self,
        path: Path | str,
        noun: str,
        *,
        skip_bad_rows: bool = False,
        can_skip: bool = True,
        unit: str = "rows",
        total: int | None = None,
    ) -> Self:
        """Return this result; raise an error if it has no examples, or bad rows without `skip_bad_rows`.

        In errors, `noun` stands for the examples, and bad rows are counted as "n of `total` `unit`". Without
        `can_skip`, errors do not mention --skip-bad-rows.
        """
        self.bad.sort(key=lambda row: row.line)
        if self.bad and not skip_bad_rows:
            total = total or len(self.bad) + len(self.examples)
            advice = "Correct them, or " + ("use --skip-bad-rows." if can_skip else "remove them from the file.")
            if len(self.bad) == total > 1:
                advice = "No row can be used: check the file format and the columns."
            if any(NOT_UTF8 in row.reason for row in self.bad):
                advice += " If the file has another encoding, save it as UTF-8 (in Excel: CSV UTF-8)."
            lines = [f"{len(self.bad):,} of {total:,} {unit} cannot be used:", *self._listed(NUM_IN_ERROR), advice]
            raise DataError("\n".join(lines), path=self.bad[0].file, line=self.bad[0].line, value=list(self.bad))
        if not self.examples:
            bad = f"; {number_of(len(self.bad), 'bad row')}, such as {self.bad[0]}" if self.bad else ""
            line = self.bad[0].line if self.bad else None
            raise DataError(f"{path}: no usable {noun}{bad}. Give another file.", path=path, line=line)
        return self

    def notes(self) -> list[str]:
        """Return notes on how the file was read and which rows were skipped."""
        skipped = [f"skipped: {number_of(len(self.bad), 'bad row')}", *self._listed(NUM_IN_NOTES)] if self.bad else []
        return [*self.remarks, *skipped]

    def _listed(self, limit: int) -> list[str]:
        more = [f"  … and {len(self.bad) - limit:,} more"] if len(self.bad) > limit else []
        return [*(f"  {row}" for row in self.bad[:limit]), *more]

    def __repr__(self) -> str:
        return f"ReadResult({len(self.examples)} examples, {len(self.bad)} bad rows)"


@dataclass(frozen=True)
class FileLines:
    """The lines of a file without line ends; `undecodable` maps the numbers of lines that are not UTF-8 to reasons.

    Undecodable bytes stay in the lines as lone surrogates, so that lines and columns are counted correctly.
    """

    lines: list[str]
    undecodable: dict[int, str]

    @classmethod
    def read(cls, path: Path, checksums: dict[str, str] | None = None, data: bytes | None = None) -> FileLines:
        """Read the lines of a file, or split `data` if it is given."""
        data = read_bytes(path, checksums) if data is None else data
        refuse_utf16(data, path)
        if b"\n" not in data:  # old Macintosh files end lines with a carriage return
            data = data.replace(b"\r", b"\n")
        try:
            text, undecodable = data.decode("utf-8"), {}
        except UnicodeDecodeError:
            text, undecodable = data.decode("utf-8", errors="surrogateescape"), _undecodable_lines(data)
        text = text.removeprefix("\ufeff")
        # Only line feeds end a line: splitlines() would also split at U+2028 and miscount the lines.
        return cls(text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else [], undecodable)

    def rows(self, parse: Callable[[str], Any]) -> Iterator[Row]:
        """Return the number of each line and what `parse` makes of it."""
        rows = enumerate(map(parse, self.lines), start=1)
        return ((line, self.undecodable.get(line, row)) for line, row in rows) if self.undecodable else rows


def read_bytes(path: Path, checksums: dict[str, str] | None = None) -> bytes:
    """Return the uncompressed content of a file, and add the sha256 of the file on disk to `checksums`."""
    try:
        data = path.read_bytes()
        if checksums is not None:
            checksums[str(path)] = hashlib.sha256(data).hexdigest()
        return gzip.decompress(data) if path.suffix.lower() == ".gz" else data
    except (OSError, EOFError, zlib.error) as error:
        raise file_error(path, error) from error


def file_error(path: Path, error: Exception) -> DataError | UsageError:
    """Return the error for a file that cannot be opened or decompressed."""
    if isinstance(error, (gzip.BadGzipFile, EOFError, zlib.error)):
        return DataError(f"{path} is not a complete gzip file ({error}). Download or compress it again.", path=path)
    if isinstance(error, FileNotFoundError):
        return UsageError(f"{path} does not exist. Check the path.", path=path)
    if isinstance(error, IsADirectoryError):
        return UsageError(f"{path} is a folder. Give a data file inside it.", path=path)
    return UsageError(f"cannot read {path} ({getattr(error, 'strerror', error)}).", path=path)


def refuse_utf16(data: bytes, path: Path | str) -> None:
    if data.startswith(UTF16_MARKS):
        raise DataError(f"{path} is UTF-16. Save it as UTF-8.", path=path, value="utf-16")


def decode(data: bytes, path: Path | str, line: int = 1) -> str:
    """Decode UTF-8 bytes that begin on `line`, without a byte order mark in line 1."""
    refuse_utf16(data, path)
    try:
        return data.decode("utf-8-sig" if line == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise decode_error(path, line, error) from None


def decode_error(path: Path | str, line: int, error: UnicodeDecodeError) -> DataError:
    """Return the error for invalid UTF-8 in bytes that begin on `line`."""
    line += error.object.count(b"\n", 0, error.start)
    byte = error.object[error.start]
    return DataError(f"{path}:{line}: {NOT_UTF8} (byte 0x{byte:02X}). Save it as UTF-8.", path=path, line=line)


def _undecodable_lines(data: bytes) -> dict[int, str]:
    reasons: dict[int, str] = {}
    offset = 0
    for number, line in enumerate(data.split(b"\n"), start=1):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as error:
            byte = line[error.start]
            reasons[number] = f"{NOT_UTF8} (byte 0x{byte:02X} at byte offset {offset + error.start})"
        offset += len(line) + 1
    return reasons


def type_name(value: object) -> str:
    """Return the type of a JSON value for messages."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def shortened(text: str, limit: int = 60) -> str:
    """Return the first `limit` characters of a text for messages, with undecodable bytes escaped."""
    start = text if len(text) <= limit else text[:limit] + "…"
    return start.encode("utf-8", errors="backslashreplace").decode("utf-8")
