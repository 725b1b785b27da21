"""`regard translate`: a sentence, or lines from stdin to stdout."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import tyro

from regard.checkpoint.presence import check_folder
from regard.cli.flags import parse
from regard.cli.input import decoded
from regard.cli.output import answer, answer_json, note_if_cut_off
from regard.errors import DataError, UsageError
from regard.generation.settings import SearchConfig

if TYPE_CHECKING:
    from regard.tasks.translate import Translation

LINES = 256  # of stdin that are translated together, if so many wait
READ = 1 << 16  # bytes of stdin at a time
LONGEST = 1 << 24  # bytes without a line break
STDIN = "-"


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Translate a text, or each line of stdin to a line of stdout.

    What is not given of --beams, --length-penalty and --max-new-tokens is taken from the model's folder.
    """

    model: tyro.conf.Positional[Path]  # a model folder
    text: tyro.conf.Positional[str] = STDIN  # what to translate; without it, or for -, lines are read from stdin
    beams: int | None = None  # unfinished translations that are pursued at a time; 1 is greedy
    length_penalty: float | None = None  # more than 1 favours longer translations
    max_new_tokens: int | None = None  # longest translation, in pieces
    n_best: int = 1  # print so many translations of each sentence, with their scores
    stream: bool = False  # write the (greedy) translation as it comes
    precision: Literal["fp32", "int8", "int4"] = "fp32"  # of the weights: fewer bits take less memory
    json: bool = False  # a JSON object a line, with scores and pieces


def main(verb: str, arguments: list[str]) -> int:
    asked = parse(Arguments, arguments, program="regard translate")
    check_folder(asked.model)
    _check(asked)
    from regard.tasks.folders import load_translator

    translator = load_translator(asked.model, asked.precision)
    if asked.stream:
        limit = {} if asked.max_new_tokens is None else {"max_new_tokens": asked.max_new_tokens}
        for line in chain.from_iterable(_groups(asked.text)):
            for piece in translator.stream(line, **limit):
                sys.stdout.write(_one_line(piece))
                sys.stdout.flush()
            sys.stdout.write("\n")
        return 0
    search = _search(asked, usual_beams=translator.search.beams)
    for lines in _groups(asked.text):
        for line, translation in zip(lines, translator(lines, **search), strict=True):
            _print(line, translation, asked)
        sys.stdout.flush()
    return 0


def _check(asked: Arguments) -> None:
    """What is wrong with a command whatever the model is, said before anything is loaded."""
    if asked.stream and (
        asked.json or asked.n_best != 1 or asked.beams not in (None, 1) or asked.length_penalty is not None
    ):
        raise UsageError(
            "--stream writes one greedy translation as text; leave out --json, --n-best, --beams and --length-penalty."
        )
    SearchConfig(**_search(asked, usual_beams=1))
    if asked.text != STDIN:
        _checked(asked.text, "the text")


def _search(asked: Arguments, *, usual_beams: int) -> dict[str, Any]:
    """What was asked of the search. Several translations take as many beams, where none are given."""
    given = {name: getattr(asked, name) for name in ("beams", "length_penalty", "max_new_tokens")}
    search = {name: value for name, value in given.items() if value is not None}
    if asked.n_best != 1:
        search = {"beams": max(asked.n_best, usual_beams), **search, "n_best": asked.n_best}
    return search


def _print(source: str, translation: Translation, asked: Arguments) -> None:
    found = (translation, *translation.alternatives)
    note_if_cut_off(source, translation)
    if asked.json:
        values = [
            {
                "text": one.text,
                "score": one.score,
                "tokens": one.tokens,
                "log_probs": one.log_probs,
                "ended": one.ended,
            }
            for one in found
        ]
        best = {"source": source, **values[0]}
        answer_json({**best, "alternatives": values[1:]} if asked.n_best > 1 else best)
    elif asked.n_best > 1:
        for one in found:
            answer(f"{one.score:.4f}\t{_one_line(one.text)}")
    else:
        answer(_one_line(translation.text))


def _one_line(text: str) -> str:
    """A model may write a line break; a filter that answers each line with one line may not."""
    return text.replace("\r", " ").replace("\n", " ")


def _groups(text: str) -> Iterator[list[str]]:
    """The lines to translate, in groups that are translated together."""
    if text != STDIN:
        yield [_checked(text, "the text")]
        return
    number = 0
    for raw_lines in _as_they_come(sys.stdin.buffer):
        lines = [_decoded(raw, number + place) for place, raw in enumerate(raw_lines, start=1)]
        number += len(lines)
        for start in range(0, len(lines), LINES):
            yield lines[start : start + LINES]


def _as_they_come(stream: BinaryIO) -> Iterator[list[bytes]]:
    """The lines that are there at the moment, so that who sends one and waits is answered."""
    rest = b""
    while chunk := stream.read1(READ):  # type: ignore[attr-defined]
        *lines, rest = (rest + chunk).split(b"\n")
        if lines:
            yield lines
        if len(rest) > LONGEST:
            yield [rest]  # too long for a line of text: to be refused now, not when memory is full
    if rest:
        yield [rest]


def _decoded(raw: bytes, number: int) -> str:
    where = f"<stdin>:{number}"
    return _checked(decoded(raw, where, first=number == 1).rstrip("\r"), where)


def _checked(line: str, where: str) -> str:
    from regard.data.pairs import MAX_CHARACTERS

    if len(line) > MAX_CHARACTERS:
        raise DataError(
            f"{where}: {len(line):,} characters; the limit is {MAX_CHARACTERS:,}. Split it into sentences, one a line."
        )
    return line
