"""Sentence pairs: one table (.tsv, .csv, .jsonl) or two line-aligned texts, each plain or .gz."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.files import BadRow, FileLines, ReadResult, shortened
from regard.data.rows import TABLE_SUFFIXES, table_suffix, text_fault
from regard.data.tables import Column, Row, read_table
from regard.utils.errors import DataError, UsageError

MAX_CHARACTERS = 10_000
HEADERS = (("source", "target"), ("src", "tgt"))


@dataclass(frozen=True, slots=True)
class Pair:
    source: str
    target: str

    def reversed(self) -> Pair:
        """The same pair for the other direction of translation."""
        return Pair(self.target, self.source)


def read_pairs(
    paths: Sequence[Path | str] | Path | str,
    *,
    columns: tuple[str, str] | None = None,
    skip_bad_rows: bool = False,
    max_characters: int = MAX_CHARACTERS,
) -> ReadResult[Pair]:
    """Read pairs from one table or from two line-aligned files.

    The columns of a table are those that `columns` names or numbers, or source and target, or src and tgt; without a
    header the first two. Bad rows raise a DataError that lists them; with `skip_bad_rows` they are left out and
    returned in `.bad`. Files that do not fit together, or lack a column, always raise.
    """
    if max_characters < 1:
        raise UsageError(
            f"max_characters is {max_characters}; it must be 1 or more.",
            argument="max_characters",
            value=max_characters,
        )
    files = [Path(paths)] if isinstance(paths, (str, Path)) else [Path(path) for path in paths]
    result: ReadResult[Pair] = ReadResult()
    if len(files) == 1:
        rows = _open_table(files[0], columns, result)
    elif len(files) == 2:
        rows = _open_aligned(files[0], files[1], columns, result)
    else:
        raise UsageError(
            f"{len(files)} data files were given. Give one table ({', '.join(TABLE_SUFFIXES)}) or two line-aligned "
            "text files.",
            argument="data",
            value=len(files),
        )
    _collect(rows, files, max_characters, result)
    return result.finish(" and ".join(map(str, files)), "pairs", skip_bad_rows=skip_bad_rows)


def write_pairs_tsv(path: Path | str, pairs: Iterable[Pair]) -> None:
    """Write a table with the header source, target; compressed if the name ends with .gz."""
    path = Path(path)
    lines = ["source\ttarget\n"]
    for number, pair in enumerate(pairs, start=1):
        for text in (pair.source, pair.target):
            if "\t" in text or "\n" in text or "\r" in text:
                raise DataError(
                    f"pair {number} contains a tab or a line break, which a .tsv cannot hold: {text[:60]!r}.",
                    path=path,
                    line=number + 1,
                    value=text,
                )
        lines.append(f"{pair.source}\t{pair.target}\n")
    data = "".join(lines).encode("utf-8")
    # Without a time stamp the same pairs give the same file.
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix.lower() == ".gz" else data)


def _collect(
    rows: Iterable[Row | BadRow], files: Sequence[Path], max_characters: int, result: ReadResult[Pair]
) -> None:
    """Add the usable rows to the examples. Written out for speed: files have millions of rows."""
    add = result.examples.append
    for row in rows:
        if isinstance(row, BadRow):
            result.bad.append(row)
            continue
        line, (source, target) = row
        source, target = source.strip(), target.strip()
        if (
            source
            and target
            and len(source) <= max_characters
            and len(target) <= max_characters
            and "\0" not in source
            and "\0" not in target
        ):
            add(Pair(source, target))
        elif not source and not target:
            result.bad.append(BadRow(str(files[0]), line, "empty line"))
        elif fault := text_fault("source", source, max_characters):
            result.bad.append(BadRow(str(files[0]), line, fault))
        else:
            result.bad.append(BadRow(str(files[-1]), line, str(text_fault("target", target, max_characters))))


def _open_aligned(
    source: Path, target: Path, columns: tuple[str, str] | None, result: ReadResult[Pair]
) -> Iterator[Row | BadRow]:
    for path in (source, target):
        if table_suffix(path):
            raise UsageError(
                f"{path} is a table, and two files must be line-aligned texts. Give one table or two text files.",
                argument="data",
                path=path,
            )
    if columns is not None:
        raise UsageError(
            "--columns needs a table; line-aligned texts have no columns.", argument="columns", value=columns
        )
    texts = FileLines.read(source, result.checksums), FileLines.read(target, result.checksums)
    counts = len(texts[0].lines), len(texts[1].lines)
    if counts[0] != counts[1]:
        longer, line = int(counts[1] > counts[0]), min(counts)
        path = (source, target)[longer]
        raise DataError(
            f"{source} has {counts[0]:,} lines and {target} has {counts[1]:,}. Line-aligned files need the same "
            f"number: line n of one translates line n of the other. The first extra line is {path}:{line + 1}: "
            f"{shortened(texts[longer].lines[line])!r}.",
            path=path,
            line=line + 1,
            value=counts,
        )
    return _aligned_rows(texts, (source, target))


def _aligned_rows(texts: Sequence[FileLines], paths: Sequence[Path]) -> Iterator[Row | BadRow]:
    faults: dict[int, BadRow] = {}
    for path, text in zip(reversed(paths), reversed(texts), strict=True):
        faults.update((line, BadRow(str(path), line, reason)) for line, reason in text.undecodable.items())
    for line, pair in enumerate(zip(texts[0].lines, texts[1].lines, strict=True), start=1):
        yield faults[line] if faults and line in faults else (line, pair)


def _open_table(path: Path, columns: tuple[str, str] | None, result: ReadResult[Pair]) -> Iterable[Row | BadRow]:
    if not table_suffix(path) and not path.is_dir():
        known = ", ".join(f"{suffix}, {suffix}.gz" for suffix in TABLE_SUFFIXES)
        raise UsageError(
            f"{path} is not a table of pairs ({known}). For plain text give two line-aligned files, one per language.",
            argument="data",
            path=path,
            allowed=TABLE_SUFFIXES,
        )
    given = columns or (None, None)
    choices = [
        (Column("source", (source,), given[0], "--columns"), Column("target", (target,), given[1], "--columns"))
        for source, target in HEADERS
    ]
    table = read_table(path, FileLines.read(path, result.checksums), choices)
    result.remarks += table.notes
    return table.rows
