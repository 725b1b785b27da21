"""Sentence pairs: one table (.tsv, .csv, .jsonl) or two line-aligned texts, each plain or .gz."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from regard.data.files import EMPTY_LINE, FileLines, ReadResult, shortened
from regard.data.tables import TABLE_SUFFIXES, Column, read_table, table_suffix, text_fault
from regard.utils.errors import DataError, UsageError

SOURCE_TARGET = (("source", "target"), ("src", "tgt"))  # usual names of columns
MAX_CHARACTERS = 10_000  # of a sentence


@dataclass(frozen=True, slots=True)
class Pair:
    source: str
    target: str

    def reversed(self) -> Pair:
        """The same pair for the other direction of translation."""
        return Pair(self.target, self.source)


def read_pairs(
    paths: Sequence[Path | str] | Path | str, *, columns: tuple[str, str] | None = None, skip_bad_rows: bool = False
) -> ReadResult[Pair]:
    """Read pairs from one table or from two line-aligned files.

    `columns` gives the names or numbers of the two columns. By default they are `source` and `target`, or `src` and
    `tgt`; in a table without a header, the first two. Bad rows raise an error, or with `skip_bad_rows` are returned in
    `.bad`.
    """
    files = [Path(paths)] if isinstance(paths, (str, Path)) else [Path(path) for path in paths]
    if len(files) == 1:
        result = _read_table(files[0], columns)
    elif len(files) == 2:
        result = _read_aligned(files[0], files[1], columns)
    else:
        suffixes = ", ".join(TABLE_SUFFIXES)
        message = f"{len(files)} data files were given. Give one table ({suffixes}) or two line-aligned text files."
        raise UsageError(message, argument="data", value=len(files))
    return result.finish(" and ".join(map(str, files)), "pairs", skip_bad_rows=skip_bad_rows)


def _pair(cells: Sequence[str]) -> Pair | str:
    source, target = cells[0].strip(), cells[1].strip()
    if source and target and len(source) + len(target) <= MAX_CHARACTERS and "\0" not in source + target:
        return Pair(source, target)  # no further calls in the usual case: files have millions of rows
    if not source and not target:
        return EMPTY_LINE
    fault = text_fault("source", source, MAX_CHARACTERS) or text_fault("target", target, MAX_CHARACTERS)
    return fault or Pair(source, target)


def _read_table(path: Path, columns: tuple[str, str] | None) -> ReadResult[Pair]:
    if not table_suffix(path) and not path.is_dir():
        known = ", ".join(f"{suffix}, {suffix}.gz" for suffix in TABLE_SUFFIXES)
        message = f"{path} is not a table of pairs ({known}). For plain text give two line-aligned files."
        raise UsageError(message, argument="data", path=path, allowed=TABLE_SUFFIXES)
    first, second = columns or (None, None)
    choices = [
        (Column("source", (source,), first, "--columns"), Column("target", (target,), second, "--columns"))
        for source, target in SOURCE_TARGET
    ]
    return read_table(path, choices, _pair)


def _read_aligned(source: Path, target: Path, columns: tuple[str, str] | None) -> ReadResult[Pair]:
    for path in (source, target):
        if table_suffix(path):
            message = f"{path} is a table. Give one table, or two line-aligned text files."
            raise UsageError(message, argument="data", path=path)
    if columns is not None:
        message = "--columns needs a table, because line-aligned texts have no columns. Remove --columns."
        raise UsageError(message, argument="columns", value=columns)
    result: ReadResult[Pair] = ReadResult()
    sources, targets = FileLines.read(source, result.checksums), FileLines.read(target, result.checksums)
    counts = len(sources.lines), len(targets.lines)
    if counts[0] != counts[1]:
        path, text = (source, sources) if counts[0] > counts[1] else (target, targets)
        line = min(counts) + 1
        extra = f"The first extra line is {path}:{line}: {shortened(text.lines[line - 1])!r}."
        rule = "line n of one file must translate line n of the other"
        message = f"{source} has {counts[0]:,} lines and {target} has {counts[1]:,}; {rule}. {extra}"
        raise DataError(message, path=path, line=line, value=counts)

    undecodable = targets.undecodable | sources.undecodable
    rows = enumerate(zip(sources.lines, targets.lines, strict=True), start=1)
    result.collect(source, ((line, undecodable.get(line, pair)) for line, pair in rows), _pair)
    for index, row in enumerate(result.bad):
        is_undecodable = row.line in targets.undecodable and row.line not in sources.undecodable
        if is_undecodable or row.reason.startswith("the target"):
            result.bad[index] = replace(row, file=str(target))
    return result
