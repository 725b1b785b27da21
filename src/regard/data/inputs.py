"""Read the inputs for predictions from the command line, a file or stdin.

An input is a str, or a tuple with a value for each field of the task. Command-line arguments (`words`) are texts, but a
single argument may be the name of a file with inputs. A document may also be a file. Rows keep their order, and empty
texts stay, so that predictions line up with their rows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from regard.data.files import EMPTY_LINE, decode, read_bytes
from regard.data.tables import (
    LABELS,
    TEXT_PAIRS,
    TEXTS,
    Column,
    json_text_fault,
    pair_columns,
    read_table,
    table_suffix,
)
from regard.spec import Field
from regard.utils.errors import DataError, UsageError, number_of

STDIN = "-"
STDIN_NAME = "<stdin>"
GROUP_LINES = 256  # maximum number of stdin lines that are predicted together
READ_SIZE = 1 << 16  # maximum number of bytes of stdin per read
MAX_LINE = 1 << 24  # maximum length of a stdin line in bytes
FILE_SUFFIXES = (".txt", ".text", ".md", ".csv", ".tsv", ".json", ".jsonl")  # arguments with these endings are files

# Reads inputs from a file, or from the given bytes of stdin.
ReadFile = Callable[[Path, bytes | None], Sequence[Any]]
TextPair = tuple[str, str]


class TableInputs(list[Any]):
    """The inputs of a table, with the line of each row and the line of the header, if there is one."""

    def __init__(self, inputs: Iterable[Any], lines: Sequence[int], header: int | None) -> None:
        super().__init__(inputs)
        self.lines, self.header = lines, header


def read_inputs(words: Sequence[str], fields: Sequence[Field], read_file: ReadFile) -> Iterable[Sequence[Any]]:
    """Return the inputs of a command in groups that are predicted together."""
    if len(fields) == 1 and fields[0].type == "document":
        texts = [read_file(Path(word), None) if is_file(word) else [_document(word)] for word in words or [STDIN]]
        return [[text for part in texts for text in part]]
    if not words or list(words) == [STDIN]:
        if len(fields) == 1:
            return stdin_lines(sys.stdin.buffer)
        return [read_file(Path(STDIN_NAME), sys.stdin.buffer.read())]
    if len(words) == 1 and is_file(words[0]):
        return [read_file(Path(words[0]), None)]
    if len(fields) == 1:
        _refuse_files(words)
        return [list(words)]
    return [[one_input(words, fields)]]


def is_read_from_file(words: Sequence[str], fields: Sequence[Field]) -> bool:
    """Return whether file options such as columns apply: to a file, or to stdin if an input has several fields."""
    if not words or list(words) == [STDIN]:
        return len(fields) > 1
    return len(words) == 1 and is_file(words[0])


def one_input(words: Sequence[str], fields: Sequence[Field]) -> tuple[Any, ...]:
    """Return the fields of one input. A document may be a file or stdin; the last field may take several words."""
    values: list[Any] = list(words)
    if len(values) == len(fields) - 1 and fields[-1].type == "document":
        values.append(STDIN)
    if len(values) < len(fields) or (len(values) > len(fields) and fields[-1].type != "texts"):
        names = " and ".join(field.name for field in fields)
        message = (
            f"give {len(fields)} texts ({names}), got {number_of(len(words), 'text')}. Quote them, or give a file."
        )
        raise UsageError(message, argument="inputs", value=len(words))
    _refuse_files([word for word, field in zip(values, fields, strict=False) if field.type != "document"])
    if fields[-1].type == "texts":
        values = [*values[: len(fields) - 1], tuple(values[len(fields) - 1 :])]
    pairs = zip(values, fields, strict=True)
    return tuple(_document(value) if field.type == "document" else value for value, field in pairs)


def _document(word: str) -> str:
    """Return the text of a document, which may be the word itself, the content of a file, or stdin."""
    if word == STDIN:
        # The final line break comes from the command that wrote the text.
        return decode(sys.stdin.buffer.read(), STDIN_NAME).replace("\r\n", "\n").removesuffix("\n")
    return decode(read_bytes(Path(word)), word) if is_file(word) else word


def stdin_lines(stream: BinaryIO) -> Iterator[list[str]]:
    """Yield lines of stdin as they arrive, so a program can send one line and wait for its result."""
    number, rest = 0, b""
    while chunk := stream.read1(READ_SIZE):  # type: ignore[attr-defined]
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > MAX_LINE:
            line = number + len(lines) + 1
            message = f"{STDIN_NAME}:{line}: a line must have at most {MAX_LINE:,} bytes. Split it."
            raise DataError(message, path=STDIN_NAME, line=line)
        yield from _groups(lines, number)
        number += len(lines)
    if rest:
        yield from _groups([rest], number)


def _groups(lines: Sequence[bytes], num_before: int) -> Iterator[list[str]]:
    texts = [decode(line, STDIN_NAME, number).rstrip("\r") for number, line in enumerate(lines, start=num_before + 1)]
    for start in range(0, len(texts), GROUP_LINES):
        yield texts[start : start + GROUP_LINES]


def is_file(word: str) -> bool:
    """Return whether a word is a file and not a text; raise an error for a folder or a missing file."""
    try:
        if Path(word).is_file():
            return True
        if word and Path(word).is_dir():
            raise UsageError(f"{word} is a folder. Give a file.", argument="inputs", value=word)
    except OSError:  # too long for a file name
        return False
    if word.endswith(FILE_SUFFIXES) and not any(map(str.isspace, word)):
        raise UsageError(f"{word} does not exist. Give a file, or texts in quotes.", argument="inputs", value=word)
    return False


def _refuse_files(words: Sequence[str]) -> None:
    """Raise an error if one of several texts is the name of a file."""
    for word in words:
        try:
            exists = Path(word).is_file()
        except OSError:  # too long for a file name
            continue
        if exists:
            message = f"each of {len(words)} inputs must be a text, but {word} is a file. Give one file, or texts."
            raise UsageError(message, argument="inputs", value=word)


def read_texts(path: Path, data: bytes | None = None, *, text_column: str | None = None) -> list[str]:
    """The texts in a column of a table, or the lines of any other file or of `data` (from stdin)."""
    if data is None and table_suffix(path):
        return read_text_column(path, text_column)
    if text_column is not None:
        raise UsageError(f"--text-column needs a table, but {path} is plain text.", argument="text_column", path=path)
    return text_lines(read_bytes(path) if data is None else data, path)


def text_lines(data: bytes, path: Path | str) -> list[str]:
    """One text for each line."""
    if not data:
        raise DataError(f"{path} is empty. Write one text per line.", path=path)
    lines = data.removesuffix(b"\n").split(b"\n")
    return [decode(line, path, number).rstrip("\r") for number, line in enumerate(lines, start=1)]


def read_text_column(
    path: Path | str, column: str | None = None, *, names: Sequence[str] = TEXTS, flag: str = "--text-column"
) -> list[str]:
    """Return all texts in a column of a table, given by name or number; raise an error if a row is unreadable.

    `names` are the usual names of the column, `flag` is the command-line option that sets `column`.
    """
    path = Path(path)
    others = (*LABELS, *(name for pair in TEXT_PAIRS for name in pair)) if column else ()
    choices = [[Column("text", names, column, flag, is_text=False)]]
    result = read_table(path, choices, _text, other_names=others, exact=True)
    empty = [(row.line, [""]) for row in result.bad if row.reason == EMPTY_LINE]
    result.bad = [row for row in result.bad if row.reason != EMPTY_LINE]
    result.finish(path, "texts", can_skip=False)
    rows = sorted([*zip(result.lines, result.examples, strict=True), *empty])
    return TableInputs((text for _, [text] in rows), [line for line, _ in rows], result.header)


def _text(cells: Sequence[Any]) -> list[str] | str:
    """Return the text in a list, because a str is the reason why a row is bad. In JSON, null means no text."""
    (text,) = cells
    return json_text_fault("text", text) or [text] if text is not None else [""]


def read_text_pairs(
    path: Path | str, data: bytes | None = None, *, first_column: str | None = None, second_column: str | None = None
) -> list[TextPair]:
    """Return all pairs of texts in a table, or in plain text with a tab between two texts.

    `data` is the content if it has been read already. Raise an error if a row is unreadable or lacks one of its texts.
    """
    path = Path(path)
    choices = pair_columns(first_column, second_column)
    if not (table_suffix(path) or first_column or second_column):
        # Plain text has no header: a first line with "first" and "second" is a pair of texts.
        choices = [(replace(first, names=()), replace(second, names=())) for first, second in choices[:1]]
    result = read_table(path, choices, _pair, data=data, other_names=LABELS, exact=True)
    result.finish(path, "pairs", unit="pairs", can_skip=False)
    return TableInputs(result.examples, result.lines, result.header)


def _pair(cells: Sequence[str]) -> TextPair | str:
    first, second = cells
    if not first.strip() or not second.strip():
        return f"the {'second' if first.strip() else 'first'} text is empty"
    return first, second
