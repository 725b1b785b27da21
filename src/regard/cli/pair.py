"""`regard pair`: what holds between two texts."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from regard.cli.classify import check_request, judge
from regard.cli.embed import STDIN, is_file, is_table, refuse_files
from regard.cli.flags import parse
from regard.data.texts import read_text_pairs
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.tasks.classify import Text


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Judge pairs of texts: a label, or a number, one line a pair.

    TEXTS are two texts in quotes, or a file: with a pair a line and a tab between the two, or a table (.tsv, .csv,
    .jsonl) whose columns are called sentence1 and sentence2, or the like. Without TEXTS lines are read from stdin.
    """

    model: tyro.conf.Positional[Path]  # a model folder
    texts: tyro.conf.Positional[tuple[str, ...]] = ()  # two texts, or a file of pairs; - or nothing reads stdin
    first_column: str | None = None  # of a table: the name or number of the column with the first texts
    second_column: str | None = None  # and of that with the second ones
    out: Path | None = None  # write lines of JSON (.jsonl), a table (.csv) or labels alone (.txt)
    force: bool = False  # replace a file that is already there
    json: bool = False  # print a line of JSON for each pair, with all probabilities


def main(verb: str, arguments: list[str]) -> int:
    asked = parse(Arguments, arguments, program="regard pair")
    check_request(asked.model, asked.out, force=asked.force)
    return judge(verb, asked.model, _pairs(asked), out=asked.out, as_json=asked.json)


def _pairs(asked: Arguments) -> list[Text]:
    given, columns = asked.texts, _columns(asked)
    if columns is not None and not is_table(given):
        raise UsageError("--first-column and --second-column are for a table: give one file that ends in .csv, .tsv …")
    if len(given) == 2:
        refuse_files(given)
        return [(given[0], given[1])]
    if given in ((), (STDIN,)):
        return [*read_text_pairs("<stdin>", sys.stdin.buffer.read())]
    if len(given) == 1 and is_file(given[0]):
        return [*read_text_pairs(given[0], columns=columns)]
    count = "1 text was" if len(given) == 1 else f"{len(given)} texts were"
    raise UsageError(f"{count} given; a pair has two. For many pairs give a file, a pair a line.")


def _columns(asked: Arguments) -> tuple[str, str] | None:
    """The names of the two columns that were asked for: both, or neither."""
    if asked.first_column is None and asked.second_column is None:
        return None
    if asked.first_column is None or asked.second_column is None:
        raise UsageError("give both --first-column and --second-column, or neither.")
    if asked.first_column == asked.second_column:
        raise UsageError(f"--first-column and --second-column are both {asked.first_column}; a pair has two texts.")
    return asked.first_column, asked.second_column
