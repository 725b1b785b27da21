"""`regard embed`: texts to vectors, and how near they are to each other."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

from regard.checkpoint.atomic import write_file
from regard.checkpoint.presence import check_folder
from regard.cli.flags import parse
from regard.cli.input import decoded
from regard.cli.output import answer, answer_json, check_free, note
from regard.data.files import read_bytes
from regard.data.tables import table_suffix
from regard.data.texts import read_text_column
from regard.errors import DataError, UsageError
from regard.tasks.settings import EmbedConfig

if TYPE_CHECKING:
    from regard.tasks.embed import Embedder, Vectors

STDIN = "-"
SUFFIXES = (".npy", ".csv", ".jsonl")
FILES = (".txt", ".text", ".md", ".csv", ".tsv", ".json", ".jsonl")  # a word that ends so was meant as a file


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Embed texts: a vector for each line of a file or of stdin, for each row of a table, or for each text given.

    A BERT of any kind will do; one that was trained for it, such as all-MiniLM-L6-v2, does it best. Without --out the
    vectors come to stdout, a JSON object a text.
    """

    model: tyro.conf.Positional[Path]  # a model folder
    texts: tyro.conf.Positional[tuple[str, ...]] = ()  # a file with a text a line, or texts; - or nothing reads stdin
    text_column: str | None = None  # of a table: the name or number of the column with the texts, if that is not usual
    out: Path | None = None  # write an array (.npy), a table (.csv) or lines of JSON (.jsonl)
    no_normalise: bool = False  # leave vectors as long as they are instead of scaling them to length 1
    similarity: bool = False  # instead of vectors the cosine of every text with every other, or with those of --with
    with_: str | None = None  # with --similarity: the other texts, a file or a single text
    tokens: bool = False  # instead of one vector a text one for each of its tokens, as JSON
    precision: Literal["fp32", "int8", "int4"] = "fp32"  # of the weights: fewer bits take less memory
    force: bool = False  # replace a file that is already there
    json: bool = False  # print similarities as JSON, too


def main(verb: str, arguments: list[str]) -> int:
    asked: Any = parse(
        Arguments,
        arguments,
        program="regard embed",
        owners={EmbedConfig: "(default: as the folder says)"},
        without=("normalise",),
    )
    check_folder(asked.model)
    _check(asked)
    given = {name: getattr(asked, name) for name in ("pooling", "max_tokens") if getattr(asked, name) is not None}
    settings = given | ({"normalise": False} if asked.no_normalise else {})
    EmbedConfig(**settings)  # what is wrong with it is said before anything is read
    texts = read_texts(asked.texts, asked.text_column)
    others = None
    if asked.with_ is not None:
        others = read_texts((asked.with_,), asked.text_column if is_table((asked.with_,)) else None)
    from regard.tasks.folders import load_embedder

    embedder = load_embedder(asked.model, asked.precision)
    if asked.tokens:
        _deliver(asked.out, _lines_of_tokens(embedder, texts, asked.max_tokens))
    elif asked.similarity:
        _similarities(embedder.similarity(texts, others, say=note, **settings), texts, others, asked)
    else:
        _vectors(embedder.embed(texts, say=note, **settings), texts, asked.out)
    if asked.out is not None:
        answer(str(asked.out))
    return 0


def _check(asked: Any) -> None:
    """Refuse what does not go together before anything is loaded."""
    if asked.tokens and asked.similarity:
        raise UsageError("--tokens gives vectors and --similarity compares texts: ask for one at a time.")
    if asked.with_ is not None and not asked.similarity:
        raise UsageError("--with names the texts to compare with: give --similarity, too.")
    if asked.similarity and asked.no_normalise:
        raise UsageError("--similarity is a cosine, which the length of vectors does not change: no --no-normalise.")
    if asked.tokens and (asked.no_normalise or asked.pooling is not None):
        raise UsageError("--tokens gives the vectors as they are: leave out --pooling and --no-normalise.")
    if asked.out is None:
        return
    allowed = (".jsonl",) if asked.tokens else SUFFIXES
    if asked.out.suffix not in allowed:
        raise UsageError(f"--out {asked.out} must end in {' or '.join(allowed)}, which says what is written.")
    check_free(asked.out, force=asked.force)


# --- Texts -------------------------------------------------------------------------------------------------


def read_texts(given: Sequence[str], column: str | None = None) -> list[str]:
    """The texts that were asked for: those of a table, of a file, of stdin, or the arguments themselves."""
    if is_table(given):
        return read_text_column(given[0], column)
    if column is not None:
        raise UsageError(f"--text-column {column} is for a table: give one file that ends in .csv, .tsv or .jsonl.")
    if not given or list(given) == [STDIN]:
        return _lines(sys.stdin.buffer.read(), "<stdin>")
    if len(given) == 1 and is_file(given[0]):
        return _lines(read_bytes(Path(given[0]), {}), given[0])
    refuse_files(given)
    return list(given)


def refuse_files(given: Sequence[str]) -> None:
    """Where several words are given they are texts: the name of a file among them is a mistake."""
    if files := [word for word in given if _lies_there(word)]:
        raise UsageError(f"{files[0]} is a file among {len(given)} texts. Give one file at a time, or texts in quotes.")


def is_table(given: Sequence[str]) -> bool:
    """Whether one file was given, which is a table by its name."""
    return len(given) == 1 and is_file(given[0]) and table_suffix(Path(given[0])) != ""


def _lies_there(word: str) -> bool:
    try:
        return Path(word).is_file()
    except OSError:  # too long for the name of a file
        return False


def is_file(word: str) -> bool:
    """Whether a word is a file, and not a text; one that was meant to be a file and is not there raises."""
    try:
        if Path(word).is_file():
            return True
        if word and Path(word).is_dir():
            raise UsageError(f"{word} is a folder; give a file with a text a line.")
    except OSError:  # too long for the name of a file: a text
        return False
    if word.endswith(FILES) and not any(map(str.isspace, word)):
        raise UsageError(f"there is no file {word}. Give a file with a text a line, or texts in quotes.")
    return False


def _lines(raw: bytes, where: str) -> list[str]:
    """A text a line. The break behind the last line begins no other."""
    lines = raw.split(b"\n")
    if not lines[-1]:
        lines.pop()
    if not lines:
        raise DataError(f"{where} is empty; a text a line is expected.")
    return [
        decoded(line, f"{where}:{number}", first=number == 1).rstrip("\r") for number, line in enumerate(lines, start=1)
    ]


# --- Answers -----------------------------------------------------------------------------------------------


def _vectors(vectors: Vectors, texts: Sequence[str], out: Path | None) -> None:
    if out is not None and out.suffix == ".npy":
        write_file(out, _array(vectors))
    elif out is not None and out.suffix == ".csv":
        write_file(out, _table(["text", *map(str, range(vectors.shape[1]))], texts, vectors))
    else:
        _deliver(out, _lines_of_json("vector", texts, vectors))


def _similarities(cosines: Vectors, texts: Sequence[str], others: Sequence[str] | None, asked: Arguments) -> None:
    columns = texts if others is None else others
    if asked.out is not None and asked.out.suffix == ".npy":
        write_file(asked.out, _array(cosines))
    elif asked.out is not None and asked.out.suffix == ".csv":
        write_file(asked.out, _table(["text", *columns], texts, cosines))
    elif asked.out is not None:
        _deliver(asked.out, _lines_of_json("similarity", texts, cosines))
    elif asked.json:
        answer_json({"texts": list(texts), "others": list(columns), "similarity": cosines.tolist()})
    elif others is None and len(texts) == 2:
        answer(f"{cosines[0, 1]:.4f}")
    else:
        answer("\n".join("\t".join(f"{value:.4f}" for value in row) for row in cosines))


def _lines_of_tokens(embedder: Embedder, texts: Sequence[str], max_tokens: int | None) -> Iterator[str]:
    for text in texts:
        found = embedder.tokens(text, max_tokens=max_tokens, say=note)
        vectors = [_numbers(vector) for vector in found.vectors]
        yield _json({"text": text, "tokens": found.tokens, "pieces": found.pieces, "vectors": vectors})


def _lines_of_json(name: str, texts: Sequence[str], rows: Vectors) -> Iterator[str]:
    return (_json({"text": text, name: _numbers(row)}) for text, row in zip(texts, rows, strict=True))


def _json(values: dict[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False) + "\n"


def _table(header: Sequence[str], texts: Sequence[str], rows: Vectors) -> str:
    table = io.StringIO(newline="")
    writer = csv.writer(table)
    writer.writerow(header)
    writer.writerows([text, *map(_short, row)] for text, row in zip(texts, rows.tolist(), strict=True))
    return table.getvalue()


def _array(values: Vectors) -> bytes:
    import numpy as np

    array = io.BytesIO()
    np.save(array, values)
    return array.getvalue()


def _short(value: float) -> str:
    return f"{value:.9g}"  # as many digits as a float32 has


def _numbers(vector: Vectors) -> list[float]:
    return [float(_short(value)) for value in vector.tolist()]


def _deliver(out: Path | None, lines: Iterable[str]) -> None:
    if out is None:
        sys.stdout.writelines(lines)
    else:
        write_file(out, "".join(lines))
