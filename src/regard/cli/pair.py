"""`regard pair`: what holds between two texts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from regard.cli.classify import check_request, judge
from regard.cli.embed import read_texts
from regard.cli.flags import parse
from regard.errors import DataError, UsageError

if TYPE_CHECKING:
    from regard.tasks.classify import Text


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Judge pairs of texts: a label, or a number, one line a pair.

    TEXTS are two texts in quotes, or a file with a pair a line and a tab between the two; without them such lines are
    read from stdin.
    """

    model: tyro.conf.Positional[Path]  # a model folder
    texts: tyro.conf.Positional[tuple[str, ...]] = ()  # two texts, or a file of pairs; - or nothing reads stdin
    out: Path | None = None  # write lines of JSON (.jsonl), a table (.csv) or labels alone (.txt)
    force: bool = False  # replace a file that is already there
    json: bool = False  # print a line of JSON for each pair, with all probabilities


def main(verb: str, arguments: list[str]) -> int:
    asked = parse(Arguments, arguments, program="regard pair")
    check_request(asked.model, asked.out, force=asked.force)
    return judge(verb, asked.model, _pairs(asked.texts), out=asked.out, as_json=asked.json)


def _pairs(given: tuple[str, ...]) -> list[Text]:
    if len(given) == 2:
        return [(given[0], given[1])]
    if len(given) > 2:
        raise UsageError(f"{len(given)} texts were given; a pair has two. For many pairs give a file, a pair a line.")
    found: list[Text] = []
    for number, line in enumerate(read_texts(given), start=1):
        first, tab, second = line.partition("\t")
        if not (first.strip() and tab and second.strip()) or "\t" in second:
            raise DataError(
                f"line {number} is no pair: two texts with a tab between them are expected, got {line[:60]!r}."
            )
        found.append((first, second))
    return found
