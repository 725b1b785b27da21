"""Data files: bytes → lines, and what every reader returns: examples, and the rows that cannot be used.

Readers check a whole file before anything else happens, and name every bad row with file, line and reason.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from regard.utils.errors import DataError, UsageError, number_of

NUM_SHOWN = 5  # bad rows that an error lists
NUM_LISTED = 20  # skipped rows that a note lists
CORRECT_OR_SKIP = "Correct them, or skip them with --skip-bad-rows."
CORRECT = "Correct them, or remove them from the file."  # for readers without --skip-bad-rows
NOT_UTF8 = "not valid UTF-8"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")

E = TypeVar("E")
F = TypeVar("F")


@dataclass(frozen=True, slots=True)
class BadRow:
    file: str
    line: int  # from 1; the first line of a row that spans several
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"


@dataclass
class ReadResult(Generic[E]):
    """The usable examples in the order of the file, and the bad rows."""

    examples: list[E] = field(default_factory=list)
    bad: list[BadRow] = field(default_factory=list)
    checksums: dict[str, str] = field(default_factory=dict)  # sha256 of each file, by path
    remarks: list[str] = field(default_factory=list)  # how the file was read, for the user
    lines: list[int] = field(default_factory=list)  # the first line of each example, if the reader records it

    def add(self, line: int, example: E) -> None:
        self.lines.append(line)
        self.examples.append(example)

    def collect(
        self,
        path: Path,
        rows: Iterable[tuple[int, Sequence[Any]] | BadRow],
        convert: Callable[[Sequence[Any]], E | str],
    ) -> None:
        """Add the examples that `convert` makes of rows of cells. It returns a reason where a row is bad."""
        for row in rows:
            if isinstance(row, BadRow):
                self.bad.append(row)
                continue
            line, cells = row
            example = convert(cells)
            if isinstance(example, str):
                self.bad.append(BadRow(str(path), line, example))
            else:
                self.add(line, example)

    def map(self, convert: Callable[[E], F]) -> ReadResult[F]:
        """The same result with converted examples."""
        examples = [convert(example) for example in self.examples]
        return ReadResult(examples, self.bad, self.checksums, self.remarks, self.lines)

    def without(self, faults: Mapping[int, str], path: Path | str) -> ReadResult[E]:
        """The same result without the examples at these indices; they become bad rows with these reasons."""
        result: ReadResult[E] = ReadResult([], list(self.bad), self.checksums, list(self.remarks))
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
        unit: str = "rows",
        total: int | None = None,
        advice: str = CORRECT_OR_SKIP,
    ) -> Self:
        """This result; raises if it has bad rows that are not to be skipped, or no example at all.

        `noun` is what an example is called, `unit` and `total` are what bad rows are counted in.
        """
        self.bad.sort(key=lambda row: row.line)
        if self.bad and not skip_bad_rows:
            raise bad_rows_error(self.bad, total or len(self.bad) + len(self.examples), unit=unit, advice=advice)
        if not self.examples:
            bad = f"; {number_of(len(self.bad), 'bad row')}, such as {self.bad[0]}" if self.bad else ""
            line = self.bad[0].line if self.bad else None
            raise DataError(f"{path}: no {noun} found{bad}. Give a file with usable rows.", path=path, line=line)
        return self

    def notes(self) -> list[str]:
        """What the user should know: how the file was read, and which rows were skipped."""
        if not self.bad:
            return [*self.remarks]
        more = [f"  … and {len(self.bad) - NUM_LISTED:,} more"] if len(self.bad) > NUM_LISTED else []
        skipped = f"skipped: {number_of(len(self.bad), 'bad row')}"
        return [*self.remarks, skipped, *(f"  {row}" for row in self.bad[:NUM_LISTED]), *more]

    def __repr__(self) -> str:
        return f"ReadResult({len(self.examples)} examples, {len(self.bad)} bad rows)"


def bad_rows_error(
    bad: Sequence[BadRow], total: int, *, unit: str = "rows", advice: str = CORRECT_OR_SKIP
) -> DataError:
    """The error that lists the first bad rows and says what to do about them."""
    shown = [f"  {row}" for row in bad[:NUM_SHOWN]]
    if len(bad) > NUM_SHOWN:
        shown.append(f"  … and {len(bad) - NUM_SHOWN:,} more")
    if len(bad) == total > 1:
        advice = "No row is usable: check the file and the columns."
    if any(NOT_UTF8 in row.reason for row in bad):
        advice = f"{advice} If the file has another encoding, save it as UTF-8 (in Excel: CSV UTF-8)."
    message = "\n".join([f"{len(bad):,} of {total:,} {unit} cannot be used:", *shown, advice])
    return DataError(message, path=bad[0].file, line=bad[0].line, value=list(bad))


@dataclass(frozen=True)
class FileLines:
    """The lines of a file without line ends, and the lines (from 1) that are not UTF-8, with the reason.

    Undecodable bytes stay in the lines as lone surrogates, so that lines and columns are counted correctly.
    """

    lines: list[str]
    undecodable: dict[int, str]

    @classmethod
    def read(cls, path: Path, checksums: dict[str, str]) -> FileLines:
        return cls.of(path, read_bytes(path, checksums))

    @classmethod
    def of(cls, path: Path, data: bytes) -> FileLines:
        """The lines of `data`, which came from `path`."""
        refuse_utf16(data, path)
        if b"\n" not in data:  # line ends of old Macintosh files
            data = data.replace(b"\r", b"\n")
        try:
            text, undecodable = data.decode("utf-8"), {}
        except UnicodeDecodeError:
            text, undecodable = data.decode("utf-8", errors="surrogateescape"), _undecodable_lines(data)
        text = text.removeprefix("\ufeff")
        # Only line feeds end a line: splitlines() would also split at U+2028 and miscount the lines.
        lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []
        return cls(lines, undecodable)


def read_bytes(path: Path, checksums: dict[str, str] | None = None) -> bytes:
    """The unpacked content of a file; `checksums` gets the sha256 of the file as it is on disk."""
    try:
        data = path.read_bytes()
        if checksums is not None:
            checksums[str(path)] = hashlib.sha256(data).hexdigest()
        return gzip.decompress(data) if path.suffix.lower() == ".gz" else data
    except (OSError, EOFError, zlib.error) as problem:
        raise file_error(path, problem) from problem


def file_error(path: Path, problem: Exception) -> DataError | UsageError:
    """The error for a file that cannot be opened or unpacked."""
    if isinstance(problem, (gzip.BadGzipFile, EOFError, zlib.error)):
        return DataError(f"{path} is not a complete gzip file ({problem}). Download or compress it again.", path=path)
    if isinstance(problem, FileNotFoundError):
        return UsageError(f"{path} does not exist. Check the path of the data file.", path=path)
    if isinstance(problem, IsADirectoryError):
        return UsageError(f"{path} is a folder. Give a data file inside it.", path=path)
    return UsageError(f"cannot read {path} ({getattr(problem, 'strerror', problem)}).", path=path)


def refuse_utf16(data: bytes, path: Path | str) -> None:
    if data.startswith(UTF16_MARKS):
        raise DataError(f"{path} is UTF-16. Save it as UTF-8.", path=path)


def decode(data: bytes, path: Path | str, line: int = 1) -> str:
    """UTF-8 bytes as text; `line` is the line that they begin on. A byte order mark in line 1 is dropped."""
    refuse_utf16(data, path)
    try:
        return data.decode("utf-8-sig" if line == 1 else "utf-8")
    except UnicodeDecodeError as problem:
        raise decode_error(path, line, problem) from None


def decode_error(path: Path | str, line: int, problem: UnicodeDecodeError) -> DataError:
    """The error for bytes that begin on `line` and are not UTF-8."""
    line += problem.object.count(b"\n", 0, problem.start)
    byte = problem.object[problem.start]
    return DataError(f"{path}:{line}: {NOT_UTF8} (byte 0x{byte:02X}). Save it as UTF-8.", path=path, line=line)


def _undecodable_lines(data: bytes) -> dict[int, str]:
    reasons: dict[int, str] = {}
    offset = 0
    for number, line in enumerate(data.split(b"\n"), start=1):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as problem:
            where = offset + problem.start
            reasons[number] = f"{NOT_UTF8} (byte 0x{line[problem.start]:02X} at byte offset {where})"
        offset += len(line) + 1
    return reasons


def kind_of(value: object) -> str:
    """What a JSON value is, for messages."""
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")


def shortened(text: str, limit: int = 60) -> str:
    """The start of a text, safe to print: undecodable bytes are escaped."""
    shown = text if len(text) <= limit else text[:limit] + "…"
    return shown.encode("utf-8", errors="backslashreplace").decode("utf-8")
