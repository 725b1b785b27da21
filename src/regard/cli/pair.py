"""`regard pair`: what holds between two texts, or which of several endings fits."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from regard.checkpoint.presence import chooses
from regard.cli.classify import check_request, judge, tell
from regard.cli.embed import STDIN, is_file, is_table, refuse_files
from regard.cli.flags import parse
from regard.cli.output import note
from regard.data.endings import Choice, names_endings, read_ending_lines, read_endings
from regard.data.files import read_bytes
from regard.data.tables import table_suffix
from regard.data.texts import read_text_pairs
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.tasks.choose import Chosen
    from regard.tasks.classify import Text


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Judge pairs of texts: a label, or a number, one line a pair; or choose among endings.

    TEXTS are two texts in quotes, or a file: with a pair a line and a tab between the two, or a table (.tsv, .csv,
    .jsonl) whose columns are called sentence1 and sentence2, or the like. Without TEXTS lines are read from stdin.
    A model that was trained on endings takes a text and two endings or more, or a table of them, and says which fits.
    """

    model: tyro.conf.Positional[Path]  # a model folder
    texts: tyro.conf.Positional[tuple[str, ...]] = ()  # texts, or a file of them; - or nothing reads stdin
    first_column: str | None = None  # of a table: the name or number of the column with the first texts
    second_column: str | None = None  # and of that with the second ones
    out: Path | None = None  # write lines of JSON (.jsonl), a table (.csv) or answers alone (.txt)
    force: bool = False  # replace a file that is already there
    json: bool = False  # print a line of JSON for each pair or choice, with all probabilities


def main(verb: str, arguments: list[str]) -> int:
    asked = parse(Arguments, arguments, program="regard pair")
    check_request(asked.model, asked.out, force=asked.force)
    if chooses(asked.model):
        return _choose(asked)
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


def _choose(asked: Arguments) -> int:
    """Print, or write, which ending fits best."""
    choices = _choices(asked)
    from regard.tasks.folders import load_chooser

    tell(load_chooser(asked.model)(choices, say=note), _record, _row, out=asked.out, as_json=asked.json)
    return 0


def _choices(asked: Arguments) -> list[tuple[str, Sequence[str]]]:
    given = asked.texts
    if _columns(asked) is not None:
        raise UsageError("this model chooses among endings, whose columns have their own names: sent1, ending0 …")
    if given in ((), (STDIN,)):
        return _as_asked(read_ending_lines("<stdin>", sys.stdin.buffer.read()).examples)
    if len(given) == 1 and is_file(given[0]):
        path = Path(given[0])
        if table_suffix(path) or names_endings(path):
            return _as_asked(read_endings(path, labelled=False).examples)
        return _as_asked(read_ending_lines(path, read_bytes(path, {})).examples)
    if len(given) < 3:
        raise UsageError("this model chooses among endings: give a text and two endings or more, or a table of them.")
    refuse_files(given)
    return [(given[0], given[1:])]


def _as_asked(choices: Sequence[Choice]) -> list[tuple[str, Sequence[str]]]:
    return [(one.first, one.endings) for one in choices]


def _record(one: Chosen) -> dict[str, Any]:
    chances = [round(chance, 6) for chance in one.probabilities]
    return {"first": one.first, "endings": list(one.endings), "chosen": one.place, "probabilities": chances}


def _row(one: Chosen) -> dict[str, Any]:
    """A record as a row of a table: a column for each probability."""
    chances = {f"probability of ending{place}": round(chance, 6) for place, chance in enumerate(one.probabilities)}
    return {"first": one.first, "chosen": one.place, "ending": one.text, **chances}


def _columns(asked: Arguments) -> tuple[str, str] | None:
    """The names of the two columns that were asked for: both, or neither."""
    if asked.first_column is None and asked.second_column is None:
        return None
    if asked.first_column is None or asked.second_column is None:
        raise UsageError("give both --first-column and --second-column, or neither.")
    if asked.first_column == asked.second_column:
        raise UsageError(f"--first-column and --second-column are both {asked.first_column}; a pair has two texts.")
    return asked.first_column, asked.second_column
