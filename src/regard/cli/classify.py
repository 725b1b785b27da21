"""`regard classify`: what a text is. How answers are written is shared with `regard pair`."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import tyro

from regard.checkpoint.atomic import write_file
from regard.checkpoint.presence import check_folder
from regard.cli.embed import read_texts
from regard.cli.flags import parse
from regard.cli.output import answer, check_free, note
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.tasks.classify import Classified, Text

SUFFIXES = (".jsonl", ".csv", ".txt")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Say what texts are: a label for each, or several, one line a text.

    TEXTS are texts in quotes, or a file: with a text a line, or a table (.csv, .tsv, .jsonl) with a column called text,
    sentence, review or the like. Without TEXTS lines are read from stdin.
    """

    model: tyro.conf.Positional[Path]  # a model folder
    texts: tyro.conf.Positional[tuple[str, ...]] = ()  # texts, or a file of them; - or nothing reads stdin
    text_column: str | None = None  # of a table: the name or number of the column with the texts, if that is not usual
    out: Path | None = None  # write lines of JSON (.jsonl), a table (.csv) or labels alone (.txt)
    force: bool = False  # replace a file that is already there
    json: bool = False  # print a line of JSON for each text, with all probabilities


def main(verb: str, arguments: list[str]) -> int:
    asked = parse(Arguments, arguments, program="regard classify")
    check_request(asked.model, asked.out, force=asked.force)
    return judge(verb, asked.model, list(read_texts(asked.texts, asked.text_column)), out=asked.out, as_json=asked.json)


def check_request(model: Path, out: Path | None, *, force: bool, suffixes: Sequence[str] = SUFFIXES) -> None:
    """What can be wrong before anything is read."""
    check_folder(model)
    if out is not None:
        if out.suffix not in suffixes:
            raise UsageError(f"--out {out} must end in {' or '.join(suffixes)}, which says what is written.")
        check_free(out, force=force)


def judge(task: str, model: Path, texts: list[Text], *, out: Path | None, as_json: bool) -> int:
    """Print, or write, what the model says to each text or pair."""
    from regard.tasks.folders import load_classifier

    found = load_classifier(model, task)(texts, say=note)
    tell(found, _record, _row, out=out, as_json=as_json)
    return 0


def tell(
    found: Sequence[T],
    record: Callable[[T], dict[str, Any]],
    row: Callable[[T], dict[str, Any]],
    *,
    out: Path | None,
    as_json: bool,
) -> None:
    """Print, or write, what was found: as it calls itself, as JSON, or as rows of a table."""
    if out is None:
        sys.stdout.write(_lines(found, record, row, ".jsonl" if as_json else ".txt"))
    else:
        write_file(out, _lines(found, record, row, out.suffix))
        answer(str(out))


def label_columns(asked: Any, task: str) -> dict[str, str]:
    """The columns that were asked for, by what stands in them."""
    roles = ("text", "label") if task == "classify" else ("first", "second", "label")
    given = {role: getattr(asked, f"{role}_column") for role in roles}
    return {role: name for role, name in given.items() if name is not None}


def _lines(
    found: Sequence[T],
    record: Callable[[T], dict[str, Any]],
    row: Callable[[T], dict[str, Any]],
    suffix: str,
) -> str:
    if suffix == ".txt":
        return "".join(f"{one}\n" for one in found)
    if suffix == ".jsonl":
        return "".join(json.dumps(record(one), ensure_ascii=False) + "\n" for one in found)
    table = io.StringIO(newline="")
    rows = [row(one) for one in found]
    names = dict.fromkeys(name for cells in rows for name in cells)  # some rows may have more than others
    writer = csv.DictWriter(table, list(names), restval="")
    writer.writeheader()
    writer.writerows(rows)
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
