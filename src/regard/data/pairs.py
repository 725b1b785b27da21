"""Files of sentence pairs: one table (.tsv, .csv, .jsonl) or two line-aligned texts, each plain or .gz.

Every row that cannot be used is found before anything else happens, and named with file, line and reason.
Nothing here knows about tokens, batches or which language is which.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.errors import DataError, UsageError

MAX_CHARACTERS = 10_000
NUM_SHOWN = 5  # how many bad rows an error lists
HEADERS = (("source", "target"), ("src", "tgt"))
TABLE_SUFFIXES = (".tsv", ".csv", ".jsonl")
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")

Columns = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Pair:
    source: str
    target: str

    def reversed(self) -> Pair:
        """The same pair for the other direction of translation."""
        return Pair(self.target, self.source)


@dataclass(frozen=True, slots=True)
class BadRow:
    file: str
    line: int  # counted from 1; of a row over several lines, the first
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"


# The line a row begins on and its two sides, not yet judged; or what is wrong with it.
Row = tuple[int, str, str] | BadRow


@dataclass
class Reading:
    """What was read: the usable pairs in the order of the file, and the rows that were skipped."""

    pairs: list[Pair] = field(default_factory=list)
    bad: list[BadRow] = field(default_factory=list)
    checksums: dict[str, str] = field(default_factory=dict)  # sha256 of each file, by its path
    remarks: list[str] = field(default_factory=list)  # what was decided about a file that its user should know

    def __repr__(self) -> str:
        return f"Reading({len(self.pairs)} pairs, {len(self.bad)} bad rows)"


def read_pairs(
    paths: Sequence[Path | str] | Path | str,
    *,
    columns: Columns | None = None,
    skip_bad_rows: bool = False,
    max_characters: int = MAX_CHARACTERS,
) -> Reading:
    """Read pairs from one table or from two line-aligned files.

    A table's header is recognised when its first row holds `columns`, or source and target, or src and tgt;
    without a header the first two columns count, or those whose numbers `columns` gives ("1", "3"). A row with more
    columns than its table is a bad one. White space around a sentence is dropped. By default bad rows raise a
    DataError that lists them; with `skip_bad_rows` they are left out and returned in `.bad`.
    What is wrong with a file as a whole (line counts that differ, a missing column) always raises.
    """
    if max_characters < 1:
        raise UsageError(f"max_characters is {max_characters}; it must be 1 or more.")
    files = [Path(paths)] if isinstance(paths, (str, Path)) else [Path(path) for path in paths]
    reading = Reading()
    if len(files) == 1:
        rows, names = _open_table(files[0], columns, reading), (str(files[0]), str(files[0]))
    elif len(files) == 2:
        rows, names = _open_aligned(files[0], files[1], columns, reading), (str(files[0]), str(files[1]))
    else:
        raise UsageError(
            f"{len(files)} data files were given; give one table ({', '.join(TABLE_SUFFIXES)}) or two "
            "line-aligned text files."
        )
    _sort_out(rows, names, max_characters, reading)
    if reading.bad and not skip_bad_rows:
        raise _bad_rows_error(reading)
    if not reading.pairs:
        where = " and ".join(dict.fromkeys(names))
        skipped = f"; all {len(reading.bad)} rows are bad, the first: {reading.bad[0]}" if reading.bad else ""
        raise DataError(f"{where}: no pairs found{skipped}. Give a file with at least one pair.")
    return reading


def write_pairs_tsv(path: Path | str, pairs: Iterable[Pair]) -> None:
    """Write a table with the header source, target; compressed where the name ends with .gz."""
    path = Path(path)
    written = ["source\ttarget\n"]
    for number, pair in enumerate(pairs, start=1):
        for side in (pair.source, pair.target):
            if "\t" in side or "\n" in side or "\r" in side:
                raise DataError(
                    f"pair {number} holds a tab or a line break, which a .tsv cannot: {side[:60]!r}. "
                    "Replace it by a space."
                )
        written.append(f"{pair.source}\t{pair.target}\n")
    data = "".join(written).encode("utf-8")
    # Without a time stamp the same pairs give the same file.
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix.lower() == ".gz" else data)


@dataclass(frozen=True)
class _Text:
    """A file's lines without their ends, and the lines (from 1) that are not UTF-8 with the reason.

    Undecodable bytes stand in the lines as lone surrogates, so that line numbers and columns stay true.
    """

    lines: list[str]
    undecodable: dict[int, str]

    @classmethod
    def read(cls, path: Path, checksums: dict[str, str]) -> _Text:
        data = _read_bytes(path, checksums)
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


def _read_bytes(path: Path, checksums: dict[str, str]) -> bytes:
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
            found[number] = f"not valid UTF-8 (byte 0x{line[problem.start]:02X} at byte offset {where})"
        offset += len(line) + 1
    return found


def _sort_out(rows: Iterable[Row], names: tuple[str, str], max_characters: int, reading: Reading) -> None:
    """Tell usable rows from bad ones."""
    keep = reading.pairs.append
    for row in rows:
        if isinstance(row, BadRow):
            reading.bad.append(row)
            continue
        line, source, target = row
        source, target = source.strip(), target.strip()
        if (
            source
            and target
            and len(source) <= max_characters
            and len(target) <= max_characters
            and "\0" not in source
            and "\0" not in target
        ):
            keep(Pair(source, target))
        else:
            reading.bad.append(_describe(line, source, target, names, max_characters))


def _describe(line: int, source: str, target: str, names: tuple[str, str], max_characters: int) -> BadRow:
    if not source and not target:
        return BadRow(names[0], line, "empty line")
    for side, text, name in (("source", source, names[0]), ("target", target, names[1])):
        if not text:
            return BadRow(name, line, f"the {side} is empty")
        if len(text) > max_characters:
            reason = f"the {side} has {len(text):,} characters; the limit is {max_characters:,}"
            return BadRow(name, line, reason)
        if "\0" in text:
            return BadRow(name, line, f"the {side} holds a NUL byte; the file may not be text")
    raise AssertionError("a row without a fault was called bad")


def _bad_rows_error(reading: Reading) -> DataError:
    count = len(reading.bad)
    shown = [f"  {row}" for row in reading.bad[:NUM_SHOWN]]
    if count > NUM_SHOWN:
        shown.append(f"  … and {count - NUM_SHOWN:,} more")
    total = count + len(reading.pairs)
    title = f"{count:,} of {total:,} rows cannot be used:"
    return DataError("\n".join([title, *shown, "Correct them, or leave them out with --skip-bad-rows."]))


# Two line-aligned files -----------------------------------------------------------------------------------


def _open_aligned(source: Path, target: Path, columns: Columns | None, reading: Reading) -> Iterator[Row]:
    for path in (source, target):
        if _table_suffix(path):
            raise UsageError(
                f"two data files are read as line-aligned texts, but {path} is a table. Give one table, or "
                "two text files."
            )
    if columns is not None:
        raise UsageError(f"columns {columns} were asked for, but line-aligned texts have no columns.")
    texts = _Text.read(source, reading.checksums), _Text.read(target, reading.checksums)
    counts = len(texts[0].lines), len(texts[1].lines)
    if counts[0] != counts[1]:
        longer = 0 if counts[0] > counts[1] else 1
        line = min(counts)
        raise DataError(
            f"{source} has {counts[0]:,} lines and {target} has {counts[1]:,}: they are not line-aligned. "
            f"The first line without a partner is {(source, target)[longer]}:{line + 1}: "
            f"{_shortened(texts[longer].lines[line])!r}. Give two files in which line n of one translates "
            "line n of the other."
        )
    return _aligned_rows(texts, (source, target))


def _aligned_rows(texts: tuple[_Text, _Text], paths: tuple[Path, Path]) -> Iterator[Row]:
    faults: dict[int, BadRow] = {}
    for path, text in zip(reversed(paths), reversed(texts), strict=True):
        faults.update((line, BadRow(str(path), line, why)) for line, why in text.undecodable.items())
    for line, (source, target) in enumerate(zip(texts[0].lines, texts[1].lines, strict=True), start=1):
        if faults and line in faults:
            yield faults[line]
        else:
            yield line, source, target


# Tables ---------------------------------------------------------------------------------------------------


def _open_table(path: Path, columns: Columns | None, reading: Reading) -> Iterator[Row]:
    suffix = _table_suffix(path)
    if not suffix:
        if path.is_dir():
            raise UsageError(f"{path} is a folder; give the data file inside it.")
        known = ", ".join(f"{suffix}, {suffix}.gz" for suffix in TABLE_SUFFIXES)
        raise UsageError(
            f"{path}: a table of pairs ends with {known}. For plain text give two line-aligned files, one "
            "for each language."
        )
    if columns is not None and (len(columns) != 2 or columns[0] == columns[1]):
        raise UsageError(f"columns are {columns}; give two different names, source first.")
    text = _Text.read(path, reading.checksums)
    if not text.lines:
        return iter(())
    if suffix == ".jsonl":
        return _jsonl_rows(path, text, columns)
    read: Callable[[Path, _Text, Columns | None, Reading], Iterator[Row]] = _tsv_rows if suffix == ".tsv" else _csv_rows
    return read(path, text, columns, reading)


def _table_suffix(path: Path) -> str:
    """The suffix of a table without .gz, or nothing."""
    name = path.name.lower().removesuffix(".gz")
    return next((suffix for suffix in TABLE_SUFFIXES if name.endswith(suffix)), "")


@dataclass(frozen=True)
class _Layout:
    """Where source and target stand in the rows of a table, and how many columns those have."""

    source: int
    target: int
    has_header: bool
    width: int
    separator: str

    @classmethod
    def find(
        cls, path: Path, first: list[str], widths: Iterable[int], columns: Columns | None, separator: str
    ) -> _Layout:
        """From the first row and the widths of all rows; without a header most rows tell how many columns there are."""
        places = _places_in_header(path, first, columns)
        if places is not None:
            return cls(*places, has_header=True, width=_width(first), separator=separator)
        counts = Counter(widths)
        _require_two_columns(path, counts, first, separator)
        width = counts.most_common(1)[0][0] if counts else 2
        places = (0, 1) if columns is None else _numbered_places(path, columns, max(counts, default=0))
        has_header = columns is not None and _places_in_header(path, first, None) is not None
        return cls(
            *places, has_header=has_header, width=max(width, *(place + 1 for place in places)), separator=separator
        )

    def row(self, path: Path, line: int, cells: list[str]) -> Row:
        """The two cells that count, or why there are none."""
        if len(cells) > self.width and (width := _width(cells)) > self.width:
            whose = "the header has" if self.has_header else "most rows have"
            return BadRow(
                str(path),
                line,
                f"{width} columns where {whose} {self.width}; {_INSIDE[self.separator]} inside a sentence?",
            )
        needed = max(self.source, self.target) + 1
        return (
            (line, cells[self.source], cells[self.target])
            if len(cells) >= needed
            else _too_short(path, line, cells, needed)
        )

    def remark(self, path: Path, columns: Columns | None) -> list[str]:
        """Which columns were taken, where nobody said so and there are more than two."""
        if self.has_header or columns is not None or self.width == 2:
            return []
        return [
            f"columns: the first two of {self.width} in {path.name} are source and target (it has no header; choose "
            "others by number, such as --columns 1 3)"
        ]


_INSIDE = {"tabs": "is there a tab", "commas": "is there a comma without quotes"}


def _width(cells: Sequence[str]) -> int:
    """How many columns a row has, empty ones at its end not counted."""
    return next((place for place in range(len(cells), 0, -1) if cells[place - 1].strip()), 0)


def _tsv_rows(path: Path, text: _Text, columns: Columns | None, reading: Reading) -> Iterator[Row]:
    widths = (line.rstrip().count("\t") + 1 for line in text.lines if line.strip())
    layout = _Layout.find(path, text.lines[0].split("\t"), widths, columns, "tabs")
    reading.remarks += layout.remark(path, columns)
    start = int(layout.has_header)
    for number, line in enumerate(text.lines[start:], start=start + 1):
        if number in text.undecodable:
            yield BadRow(str(path), number, text.undecodable[number])
        else:
            yield layout.row(path, number, line.split("\t"))


def _csv_rows(path: Path, text: _Text, columns: Columns | None, reading: Reading) -> Iterator[Row]:
    parsed = list(_parsed_csv(text))
    first = parsed[0][2] if isinstance(parsed[0][2], list) else []
    widths = (width for _, _, cells in parsed if isinstance(cells, list) and (width := _width(cells)))
    layout = _Layout.find(path, first, widths, columns, "commas")
    reading.remarks += layout.remark(path, columns)
    for begin, end, cells in parsed[int(layout.has_header) :]:
        fault = _fault_between(text, begin, end)
        if fault:
            yield BadRow(str(path), begin, fault)
        elif isinstance(cells, str):
            yield BadRow(str(path), begin, cells)
        else:
            yield layout.row(path, begin, cells)


def _parsed_csv(text: _Text) -> Iterator[tuple[int, int, list[str] | str]]:
    """First line, last line, and the cells or the reason why there are none."""
    reader = csv.reader((line + "\n" for line in text.lines), strict=True)
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


def _fault_between(text: _Text, begin: int, end: int) -> str | None:
    if not text.undecodable:
        return None
    return next((text.undecodable[n] for n in range(begin, end + 1) if n in text.undecodable), None)


def _too_short(path: Path, line: int, cells: list[str], needed: int) -> BadRow:
    if not any(cell.strip() for cell in cells):
        return BadRow(str(path), line, "empty line")
    return BadRow(str(path), line, f"{len(cells)} column{'' if len(cells) == 1 else 's'}, {needed} needed")


def _places_in_header(path: Path, first: list[str], columns: Columns | None) -> tuple[int, int] | None:
    """Where source and target stand if `first` is a header; None if it is not."""
    names = [cell.strip() for cell in first]
    lowered = [name.lower() for name in names]
    for wanted in HEADERS if columns is None else (columns,):
        if all(name in names for name in wanted):
            return names.index(wanted[0]), names.index(wanted[1])
        if all(name.lower() in lowered for name in wanted):
            return lowered.index(wanted[0].lower()), lowered.index(wanted[1].lower())
    if columns is None or all(name.isdecimal() for name in columns):
        return None
    missing = next(name for name in columns if name.lower() not in lowered)
    raise _missing_column(path, missing, names)


def _numbered_places(path: Path, columns: Columns, widest: int) -> tuple[int, int]:
    """Columns by their numbers, for tables without a header."""
    left, right = (int(number) for number in columns)
    for number in (left, right):
        if not 1 <= number <= widest:
            raise UsageError(f"{path} has no column {number}: its columns are 1 to {widest}.")
    return left - 1, right - 1


def _require_two_columns(path: Path, widths: Iterable[int], first: list[str], separator: str) -> None:
    widest = max(widths, default=0)
    if widest != 1:
        return
    cell = first[0] if first else ""
    hint = " Its cells seem to be separated by semicolons." if separator == "commas" and ";" in cell else ""
    raise DataError(
        f"{path} has one column ({_shortened(cell)!r}); two are needed, source and target, separated by "
        f"{separator}.{hint}"
    )


def _missing_column(path: Path, missing: str, there: Sequence[str]) -> DataError:
    listed = ", ".join(_shortened(name) for name in there[:20])
    return DataError(f"{path}: no column {missing!r}; its columns are: {listed}. Name two of them.")


def _jsonl_rows(path: Path, text: _Text, columns: Columns | None) -> Iterator[Row]:
    keys: Columns | None = None
    for number, line in enumerate(text.lines, start=1):
        if number in text.undecodable:
            yield BadRow(str(path), number, text.undecodable[number])
            continue
        record = _parsed_json(line)
        if isinstance(record, str):
            yield BadRow(str(path), number, record)
            continue
        if keys is None:
            keys = _keys_of(path, record, columns)
        # Only an escape can write half of a character: "\\ud83d" alone is valid JSON but no text.
        fault = _json_fault(record, keys, check_halves="\\u" in line)
        yield BadRow(str(path), number, fault) if fault else (number, record[keys[0]], record[keys[1]])


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
        return f"not a JSON object but {_kind_of(record)}"
    return record


def _keys_of(path: Path, record: dict[str, Any], columns: Columns | None) -> Columns:
    candidates = HEADERS if columns is None else (columns,)
    for wanted in candidates:
        if all(key in record for key in wanted):
            return wanted
    missing = next(key for key in candidates[0] if key not in record)
    raise _missing_column(path, missing, list(record))


def _json_fault(record: dict[str, Any], keys: Columns, *, check_halves: bool) -> str | None:
    for key in keys:
        if key not in record:
            return f"no key {key!r}; its keys are: {', '.join(map(_shortened, record))}"
        if not isinstance(record[key], str):
            return f"{key!r} is {_kind_of(record[key])}, not a text"
        if check_halves and _HALF_CHARACTER.search(record[key]):
            return f"{key!r} holds half of a character (a lone surrogate)"
    return None


def _kind_of(value: object) -> str:
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")


def _shortened(text: str, limit: int = 60) -> str:
    """The beginning of a text, safe to print: undecodable bytes are written out."""
    shown = text if len(text) <= limit else text[:limit] + "…"
    return shown.encode("utf-8", errors="backslashreplace").decode("utf-8")
