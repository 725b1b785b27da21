"""Files of sentence pairs: one table (.tsv, .csv, .jsonl) or two line-aligned texts, each plain or .gz.

Every row that cannot be used is found before anything else happens, and named with file, line and reason.
Nothing here knows about tokens, batches or which language is which.
"""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.files import BadRow, Lines, refuse_bad_rows, refuse_emptiness, shortened
from regard.data.files import Reading as AnyReading
from regard.data.tables import (
    TABLE_SUFFIXES,
    Cells,
    comma_rows,
    json_rows,
    json_text_fault,
    missing_column,
    missing_key,
    tab_rows,
    table_suffix,
    too_long,
    too_short,
    width_of,
)
from regard.errors import DataError, UsageError

__all__ = ["BadRow", "Pair", "Reading", "read_pairs", "write_pairs_tsv"]

MAX_CHARACTERS = 10_000
HEADERS = (("source", "target"), ("src", "tgt"))

Columns = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Pair:
    source: str
    target: str

    def reversed(self) -> Pair:
        """The same pair for the other direction of translation."""
        return Pair(self.target, self.source)


# The line a row begins on and its two sides, not yet judged; or what is wrong with it.
Row = tuple[int, str, str] | BadRow


class Reading(AnyReading[Pair]):
    """What was read: the usable pairs in the order of the file, and the rows that were skipped."""

    @property
    def pairs(self) -> list[Pair]:
        return self.examples

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
    if not skip_bad_rows:
        refuse_bad_rows(reading.bad, len(reading.bad) + len(reading.pairs))
    refuse_emptiness(reading, " and ".join(dict.fromkeys(names)), what="pair")
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


# Two line-aligned files -----------------------------------------------------------------------------------


def _open_aligned(source: Path, target: Path, columns: Columns | None, reading: Reading) -> Iterator[Row]:
    for path in (source, target):
        if table_suffix(path):
            raise UsageError(
                f"two data files are read as line-aligned texts, but {path} is a table. Give one table, or "
                "two text files."
            )
    if columns is not None:
        raise UsageError(f"columns {columns} were asked for, but line-aligned texts have no columns.")
    texts = Lines.read(source, reading.checksums), Lines.read(target, reading.checksums)
    counts = len(texts[0].lines), len(texts[1].lines)
    if counts[0] != counts[1]:
        longer = 0 if counts[0] > counts[1] else 1
        line = min(counts)
        raise DataError(
            f"{source} has {counts[0]:,} lines and {target} has {counts[1]:,}: they are not line-aligned. "
            f"The first line without a partner is {(source, target)[longer]}:{line + 1}: "
            f"{shortened(texts[longer].lines[line])!r}. Give two files in which line n of one translates "
            "line n of the other."
        )
    return _aligned_rows(texts, (source, target))


def _aligned_rows(texts: tuple[Lines, Lines], paths: tuple[Path, Path]) -> Iterator[Row]:
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
    suffix = table_suffix(path)
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
    text = Lines.read(path, reading.checksums)
    if not text.lines:
        return iter(())
    if suffix == ".jsonl":
        return _json_pairs(path, text, columns)
    return _cell_pairs(path, text, columns, suffix, reading)


@dataclass(frozen=True)
class _Layout:
    """Where source and target stand in the rows of a table, and how many columns those have."""

    source: int
    target: int
    has_header: bool
    width: int
    suffix: str

    @classmethod
    def find(cls, path: Path, first: list[str], widths: Iterable[int], columns: Columns | None, suffix: str) -> _Layout:
        """From the first row and the widths of all rows; without a header most rows tell how many columns there are."""
        places = _places_in_header(path, first, columns)
        if places is not None:
            return cls(*places, has_header=True, width=width_of(first), suffix=suffix)
        counts = Counter(widths)
        _require_two_columns(path, counts, first, suffix)
        width = counts.most_common(1)[0][0] if counts else 2
        places = (0, 1) if columns is None else _numbered_places(path, columns, max(counts, default=0))
        has_header = columns is not None and _places_in_header(path, first, None) is not None
        return cls(*places, has_header=has_header, width=max(width, *(place + 1 for place in places)), suffix=suffix)

    def row(self, path: Path, line: int, cells: list[str]) -> Row:
        """The two cells that count, or why there are none."""
        if len(cells) > self.width and (width := width_of(cells)) > self.width:
            return too_long(path, line, width, self.width, header=self.has_header, suffix=self.suffix)
        needed = max(self.source, self.target) + 1
        return (
            (line, cells[self.source], cells[self.target])
            if len(cells) >= needed
            else too_short(path, line, cells, needed)
        )

    def remark(self, path: Path, columns: Columns | None) -> list[str]:
        """Which columns were taken, where nobody said so and there are more than two."""
        if self.has_header or columns is not None or self.width == 2:
            return []
        return [
            f"columns: the first two of {self.width} in {path.name} are source and target (it has no header; choose "
            "others by number, such as --columns 1 3)"
        ]


def _cell_pairs(path: Path, text: Lines, columns: Columns | None, suffix: str, reading: Reading) -> Iterator[Row]:
    rows = list(tab_rows(path, text) if suffix == ".tsv" else comma_rows(path, text))
    top = next((place for place, row in enumerate(rows) if isinstance(row, BadRow) or any(map(str.strip, row[1]))), 0)
    first = _first_cells(text, rows, top, suffix)
    widths = (width for row in rows if not isinstance(row, BadRow) and (width := width_of(row[1])))
    layout = _Layout.find(path, first, widths, columns, suffix)
    reading.remarks += layout.remark(path, columns)
    for row in rows[:top] + rows[top + layout.has_header :]:
        yield row if isinstance(row, BadRow) else layout.row(path, *row)


def _first_cells(text: Lines, rows: Sequence[Cells | BadRow], top: int, suffix: str) -> list[str]:
    """What may be a header; also one that is not valid UTF-8, so that its columns can be named."""
    first = rows[top]
    if not isinstance(first, BadRow):
        return first[1]
    return text.lines[top].split("\t") if suffix == ".tsv" else []


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
    raise missing_column(path, missing, names)


def _numbered_places(path: Path, columns: Columns, widest: int) -> tuple[int, int]:
    """Columns by their numbers, for tables without a header."""
    left, right = (int(number) for number in columns)
    for number in (left, right):
        if not 1 <= number <= widest:
            raise UsageError(f"{path} has no column {number}: its columns are 1 to {widest}.")
    return left - 1, right - 1


def _require_two_columns(path: Path, widths: Iterable[int], first: list[str], suffix: str) -> None:
    widest = max(widths, default=0)
    if widest != 1:
        return
    cell = first[0] if first else ""
    separator = "commas" if suffix == ".csv" else "tabs"
    hint = " Its cells seem to be separated by semicolons." if suffix == ".csv" and ";" in cell else ""
    raise DataError(
        f"{path} has one column ({shortened(cell)!r}); two are needed, source and target, separated by "
        f"{separator}.{hint}"
    )


def _json_pairs(path: Path, text: Lines, columns: Columns | None) -> Iterator[Row]:
    keys: Columns | None = None
    for row in json_rows(path, text):
        if isinstance(row, BadRow):
            yield row
            continue
        line, record = row
        keys = keys or _keys_of(path, record, columns)
        fault = _json_fault(record, keys)
        yield BadRow(str(path), line, fault) if fault else (line, record[keys[0]], record[keys[1]])


def _keys_of(path: Path, record: dict[str, Any], columns: Columns | None) -> Columns:
    candidates = HEADERS if columns is None else (columns,)
    for wanted in candidates:
        if all(key in record for key in wanted):
            return wanted
    missing = next(key for key in candidates[0] if key not in record)
    if columns is None:
        listed = ", ".join(map(shortened, list(record)[:20]))
        raise DataError(f"{path}: no column {missing!r}; its columns are: {listed}. Name two of them with --columns.")
    raise missing_column(path, missing, list(record))


def _json_fault(record: dict[str, Any], keys: Columns) -> str | None:
    for key in keys:
        fault = json_text_fault(key, record[key]) if key in record else missing_key(key, record)
        if fault:
            return fault
    return None
