"""Inputs of predictions: words of a command line, files, tables and stdin → one value for each input.

An input is a str, or a tuple with a value for each field of the task. Words are texts, except for a single word that
names a file with inputs. A field that is a document may be given as a file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from regard.data.files import decode, read_bytes
from regard.spec import Field
from regard.utils.errors import DataError, UsageError, number_of

STDIN = "-"
STDIN_NAME = "<stdin>"
GROUP_LINES = 256  # lines of stdin that are predicted together, if so many are waiting
READ_SIZE = 1 << 16  # bytes of stdin that are read at a time
MAX_LINE = 1 << 24  # bytes without a line break
FILE_SUFFIXES = (".txt", ".text", ".md", ".csv", ".tsv", ".json", ".jsonl")  # a word that ends so means a file

# Reads the inputs of a file, or of bytes that came from stdin.
ReadFile = Callable[[Path, bytes | None], Sequence[Any]]


def read_inputs(words: Sequence[str], fields: Sequence[Field], read_file: ReadFile) -> Iterable[Sequence[Any]]:
    """The inputs that a command line asks for, in groups that can be predicted together."""
    if len(fields) == 1 and fields[0].type == "document":
        return [_documents(words, read_file)]
    if not words or list(words) == [STDIN]:
        if len(fields) == 1:
            return stdin_lines(sys.stdin.buffer)
        return [read_file(Path(STDIN_NAME), sys.stdin.buffer.read())]
    if len(words) == 1 and is_file(words[0]):
        return [read_file(Path(words[0]), None)]
    if len(fields) == 1:
        refuse_files(words)
        return [list(words)]
    return [[one_input(words, fields)]]


def is_read_from_file(words: Sequence[str], fields: Sequence[Field]) -> bool:
    """Whether options of reading apply: to a file, and to stdin where an input has several fields."""
    if not words or list(words) == [STDIN]:
        return len(fields) > 1
    return len(words) == 1 and is_file(words[0])


def one_input(words: Sequence[str], fields: Sequence[Field]) -> tuple[Any, ...]:
    """The fields of one input; a document may be a file or stdin, and the last field may take several words."""
    given = list(words)
    if len(given) == len(fields) - 1 and fields[-1].type == "document":
        given.append(STDIN)
    many = fields[-1].type == "texts"
    if len(given) < len(fields) or (len(given) > len(fields) and not many):
        names = " and ".join(field.name for field in fields)
        raise UsageError(
            f"{number_of(len(words), 'text')} given, {len(fields)} needed: {names}. Quote each, or give a file.",
            argument="inputs",
            value=len(words),
        )
    refuse_files([word for word, field in zip(given, fields, strict=False) if field.type != "document"])
    values: list[Any] = [
        _document(word) if field.type == "document" else word for word, field in zip(given, fields, strict=False)
    ]
    if many:
        values[-1] = tuple(given[len(fields) - 1 :])
    return tuple(values)


def _documents(words: Sequence[str], read_file: ReadFile) -> list[str]:
    """One text for each word, or those of the file that it names."""
    given = words or [STDIN]
    texts = [read_file(Path(word), None) if is_file(word) else [_document(word)] for word in given]
    return [text for part in texts for text in part]


def _document(word: str) -> str:
    """A text that may span lines: the word itself, the file that it names, or stdin."""
    if word == STDIN:
        # The line break at the end belongs to the command that wrote it.
        return decode(sys.stdin.buffer.read(), STDIN_NAME).replace("\r\n", "\n").removesuffix("\n")
    return decode(read_bytes(Path(word)), word) if is_file(word) else word


def text_lines(data: bytes, path: Path | str) -> list[str]:
    """One text for each line; a line break at the end starts no other text."""
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    if not lines:
        raise DataError(f"{path} is empty; one text per line is expected.", path=str(path))
    return [decode(line, path, number).rstrip("\r") for number, line in enumerate(lines, start=1)]


def stdin_lines(stream: BinaryIO) -> Iterator[list[str]]:
    """Lines of stdin as they arrive, so that a program that sends one line and waits gets its result."""
    number, rest = 0, b""
    while chunk := stream.read1(READ_SIZE):  # type: ignore[attr-defined]
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > MAX_LINE:
            raise DataError(
                f"{STDIN_NAME}:{number + len(lines) + 1}: a line of more than {MAX_LINE:,} bytes. Split it.",
                path=STDIN_NAME,
                line=number + len(lines) + 1,
            )
        yield from _groups(lines, number)
        number += len(lines)
    if rest:
        yield from _groups([rest], number)


def _groups(lines: Sequence[bytes], before: int) -> Iterator[list[str]]:
    texts = [decode(line, STDIN_NAME, before + place).rstrip("\r") for place, line in enumerate(lines, start=1)]
    for start in range(0, len(texts), GROUP_LINES):
        yield texts[start : start + GROUP_LINES]


def is_file(word: str) -> bool:
    """Whether a word is a file and not a text; a word that looks like a file name and is none raises."""
    try:
        if Path(word).is_file():
            return True
        if word and Path(word).is_dir():
            raise UsageError(f"{word} is a folder; give a file.", argument="inputs", value=word)
    except OSError:  # too long for a file name
        return False
    if word.endswith(FILE_SUFFIXES) and not any(map(str.isspace, word)):
        raise UsageError(f"{word} does not exist. Give a file, or texts in quotes.", argument="inputs", value=word)
    return False


def refuse_files(words: Sequence[str]) -> None:
    """Several words are texts: a file name among them is a mistake."""
    for word in words:
        try:
            if Path(word).is_file():
                raise UsageError(
                    f"{word} is a file among {len(words)} texts. Give one file, or texts in quotes.",
                    argument="inputs",
                    value=word,
                )
        except OSError:
            continue
