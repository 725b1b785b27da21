"""`regard classify` and `regard pair`: what a text, or two, is."""

from __future__ import annotations

import csv
import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from regard.checkpoint.atomic import write_file
from regard.checkpoint.presence import check_folder
from regard.cli.embed import read_texts
from regard.cli.flags import parse
from regard.cli.output import answer, check_free, note
from regard.errors import DataError, UsageError

if TYPE_CHECKING:
    from regard.tasks.classify import Classified, Text

SUFFIXES = (".jsonl", ".csv", ".txt")


@dataclass(frozen=True, kw_only=True)
class Classify:
    """Say what texts are: a label for each, or several, one line a text.

    TEXTS are texts in quotes, or a file with a text a line; without them lines are read from stdin.
    """

    model: tyro.conf.Positional[Path]  # a model folder
    texts: tyro.conf.Positional[tuple[str, ...]] = ()  # texts, or a file with a text a line; - or nothing reads stdin
    out: Path | None = None  # write lines of JSON (.jsonl), a table (.csv) or labels alone (.txt)
    force: bool = False  # replace a file that is already there
    json: bool = False  # print a line of JSON for each text, with all probabilities


@dataclass(frozen=True, kw_only=True)
class Pair:
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
    asked: Any = parse(Classify if verb == "classify" else Pair, arguments, program=f"regard {verb}")
    check_folder(asked.model)
    if asked.out is not None:
        if asked.out.suffix not in SUFFIXES:
            raise UsageError(f"--out {asked.out} must end in {' or '.join(SUFFIXES)}, which says what is written.")
        check_free(asked.out, force=asked.force)
    texts = _pairs(asked.texts) if verb == "pair" else list(read_texts(asked.texts))
    from regard.tasks.folders import load_classifier

    found = load_classifier(asked.model, verb)(list(texts), say=note)
    if asked.out is None:
        sys.stdout.write(_lines(found, ".jsonl" if asked.json else ".txt"))
    else:
        write_file(asked.out, _lines(found, asked.out.suffix))
        answer(str(asked.out))
    return 0


def label_columns(asked: Any, task: str) -> dict[str, str]:
    """The columns that were asked for, by what stands in them."""
    roles = ("text", "label") if task == "classify" else ("first", "second", "label")
    given = {role: getattr(asked, f"{role}_column") for role in roles}
    return {role: name for role, name in given.items() if name is not None}


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


def _lines(found: list[Classified], suffix: str) -> str:
    if suffix == ".txt":
        return "".join(f"{one}\n" for one in found)
    if suffix == ".jsonl":
        return "".join(json.dumps(_record(one), ensure_ascii=False) + "\n" for one in found)
    table = io.StringIO(newline="")
    writer = csv.writer(table)
    records = [_row(one) for one in found]
    writer.writerow(list(records[0]) if records else [])
    writer.writerows(record.values() for record in records)
    return table.getvalue()


def _record(one: Classified) -> dict[str, Any]:
    texts = {"text": one.text} if isinstance(one.text, str) else dict(zip(("first", "second"), one.text, strict=True))
    if one.number is not None:
        return {**texts, "number": round(one.number, 6)}
    return {
        **texts,
        "labels": list(one.labels),
        "probabilities": {k: round(p, 6) for k, p in one.probabilities.items()},
    }


def _row(one: Classified) -> dict[str, Any]:
    """A record as a row of a table: a column for each probability."""
    record = _record(one)
    chances = record.pop("probabilities", {})
    if "labels" in record:
        record["label"] = one.label
        del record["labels"]
    return {**record, **{f"probability of {label}": chance for label, chance in chances.items()}}
