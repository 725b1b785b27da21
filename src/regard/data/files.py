"""Data files, before anything is known of what they hold: bytes → lines, and rows that cannot be used.

Every reader of data finds all bad rows before anything else happens and names each with file, line and reason. Nothing
here knows what a row means.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from regard.errors import DataError, UsageError, number_of

NUM_SHOWN = 5  # how many bad rows an error lists
NUM_LISTED = 20  # how many of those that were left out are named
# What to do about bad rows: for those who may say --skip-bad-rows, and for those who may not.
CORRECT_OR_SKIP = "Correct them, or leave them out with --skip-bad-rows."
NOT_UTF8 = "not valid UTF-8"
CORRECT = "Correct them, or take them out of the file."

E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class BadRow:
    file: str
    line: int  # counted from 1; of a row over several lines, the first
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"


@dataclass
class Reading(Generic[E]):
    """What was read: the usable examples in the order of the file, and the rows that were skipped."""

    examples: list[E] = field(default_factory=list)
    bad: list[BadRow] = field(default_factory=list)
    checksums: dict[str, str] = field(default_factory=dict)  # sha256 of each file, by its path
    remarks: list[str] = field(default_factory=list)  # what was decided about a file that its user should know
    lines: list[int] = field(default_factory=list)  # where each example begins, for readers that keep it

    def add(self, line: int, example: E) -> None:
        self.lines.append(line)
        self.examples.append(example)

    def __repr__(self) -> str:
        return f"Reading({len(self.examples)} examples, {len(self.bad)} bad rows)"


def refuse_bad_rows(bad: Sequence[BadRow], total: int, *, what: str = "rows", advice: str = CORRECT_OR_SKIP) -> None:
    """Raise if there are bad rows among `total`, with the first of them listed and what to do about them."""
    if not bad:
        return
    shown = [f"  {row}" for row in bad[:NUM_SHOWN]]
    if len(bad) > NUM_SHOWN:
        shown.append(f"  … and {len(bad) - NUM_SHOWN:,} more")
    if any(NOT_UTF8 in row.reason for row in bad):  # to leave out every row with an é is no advice either
        advice = f"{advice} Where the file is in another encoding, save it again as UTF-8 (in Excel: CSV UTF-8)."
    title = f"{len(bad):,} of {total:,} {what} cannot be used:"
    if len(bad) == total > 1:  # to leave out all of them is no advice
        advice = "That is all there are: is this the right file, and are these the right columns?"
    raise DataError("\n".join([title, *shown, advice]))


def skipped_rows(bad: Sequence[BadRow]) -> list[str]:
    """How many rows were left out, and which."""
    if not bad:
        return []
    more = [f"  … and {len(bad) - NUM_LISTED:,} more"] if len(bad) > NUM_LISTED else []
    return [f"skipped: {number_of(len(bad), 'bad row')}", *(f"  {row}" for row in bad[:NUM_LISTED]), *more]


def refuse_emptiness(reading: Reading[E], where: str, *, what: str, plural: str = "") -> None:
    """Raise if nothing usable was read."""
    if not reading.examples:
        rows = "the only row is bad" if len(reading.bad) == 1 else f"all {len(reading.bad)} rows are bad, the first"
        skipped = f"; {rows}: {reading.bad[0]}" if reading.bad else ""
        raise DataError(f"{where}: no {plural or what + 's'} found{skipped}. Give a file with at least one {what}.")


@dataclass(frozen=True)
class Lines:
    """A file's lines without their ends, and the lines (from 1) that are not UTF-8 with the reason.

    Undecodable bytes stand in the lines as lone surrogates, so that line numbers and columns stay true.
    """

    lines: list[str]
    undecodable: dict[int, str]

    @classmethod
    def read(cls, path: Path, checksums: dict[str, str]) -> Lines:
        return cls.of(path, read_bytes(path, checksums))

    @classmethod
    def of(cls, path: Path, data: bytes) -> Lines:
        """The lines of `data`, which came from `path`."""
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise DataError(f"{path} is UTF-16, not UTF-8. Save it again as UTF-8.")
        if b"\n" not in data:  # as old Macintoshes wrote it
            data = data.replace(b"\r", b"\n")
        try:
            text, undecodable = data.decode("utf-8"), {}
        except UnicodeDecodeError:
            text, undecodable = data.decode("utf-8", errors="surrogateescape"), _undecodable_lines(data)
        text = text.removeprefix("\ufeff")
        # Only line feeds end a line: splitlines() would also cut at U+2028 and shift all that follows.
        lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []
        return cls(lines, undecodable)


def read_bytes(path: Path, checksums: dict[str, str]) -> bytes:
    """What is in a file, unpacked; the checksum is that of the file as it lies there."""
    try:
        data = path.read_bytes()
        checksums[str(path)] = hashlib.sha256(data).hexdigest()
        return gzip.decompress(data) if path.suffix.lower() == ".gz" else data
    except (gzip.BadGzipFile, EOFError, zlib.error) as problem:
        raise DataError(f"{path} is not a complete gzip file ({problem}). Fetch or compress it again.") from problem
    except FileNotFoundError as problem:
        raise UsageError(f"{path} does not exist. Check the path of the data file.") from problem
    except IsADirectoryError as problem:
        raise UsageError(f"{path} is a folder; give the data file inside it.") from problem
    except OSError as problem:
        raise UsageError(f"{path} cannot be read ({problem.strerror}).") from problem


def _undecodable_lines(data: bytes) -> dict[int, str]:
    found: dict[int, str] = {}
    offset = 0
    for number, line in enumerate(data.split(b"\n"), start=1):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as problem:
            where = offset + problem.start
            found[number] = f"{NOT_UTF8} (byte 0x{line[problem.start]:02X} at byte offset {where})"
        offset += len(line) + 1
    return found


def kind_of(value: object) -> str:
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")


def shortened(text: str, limit: int = 60) -> str:
    """The beginning of a text, safe to print: undecodable bytes are written out."""
    shown = text if len(text) <= limit else text[:limit] + "…"
    return shown.encode("utf-8", errors="backslashreplace").decode("utf-8")
