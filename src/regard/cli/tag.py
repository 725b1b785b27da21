"""`regard tag`: a label for every word."""

from __future__ import annotations

import csv
import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from regard.checkpoint.atomic import write_file
from regard.cli.classify import check_request
from regard.cli.embed import read_texts
from regard.cli.flags import parse
from regard.cli.output import answer

if TYPE_CHECKING:
    from regard.tasks.tag import TaggedWords

SUFFIXES = (".jsonl", ".csv", ".conll", ".txt")


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Tag the words of texts: one line a text, each word with its tag behind a slash.

    TEXTS are texts in quotes, or a file: with a text a line, or a table (.csv, .tsv, .jsonl). Without TEXTS lines are
    read from stdin. A text is split into words and marks.
    """

    model: tyro.conf.Positional[Path]  # a model folder
    texts: tyro.conf.Positional[tuple[str, ...]] = ()  # texts, or a file of them; - or nothing reads stdin
    text_column: str | None = None  # of a table: the name or number of the column with the texts, if that is not usual
    out: Path | None = None  # write lines of JSON (.jsonl), a table (.csv), CoNLL columns (.conll) or lines (.txt)
    force: bool = False  # replace a file that is already there
    json: bool = False  # print a line of JSON for each text, with probabilities and entities


def main(verb: str, arguments: list[str]) -> int:
    asked = parse(Arguments, arguments, program="regard tag")
    check_request(asked.model, asked.out, force=asked.force, suffixes=SUFFIXES)
    texts = read_texts(asked.texts, asked.text_column)
    from regard.tasks.folders import load_tagger

    found = load_tagger(asked.model)(texts)
    if asked.out is None:
        sys.stdout.write(_lines(found, ".jsonl" if asked.json else ".txt"))
    else:
        write_file(asked.out, _lines(found, asked.out.suffix))
        answer(str(asked.out))
    return 0


def _lines(found: list[TaggedWords], suffix: str) -> str:
    if suffix == ".txt":
        return "".join(f"{one}\n" for one in found)
    if suffix == ".jsonl":
        return "".join(_json(one) + "\n" for one in found)
    if suffix == ".conll":
        blocks = ("".join(f"{word}\t{tag}\n" for word, tag in zip(one.words, one.tags, strict=True)) for one in found)
        return "\n".join(blocks)
    table = io.StringIO(newline="")
    writer = csv.writer(table)
    writer.writerow(["text", "word", "tag", "probability"])
    for number, one in enumerate(found, start=1):
        for word, tag, share in zip(one.words, one.tags, one.probabilities, strict=True):
            writer.writerow([number, word, tag, f"{share:.6f}"])
    return table.getvalue()


def _json(one: TaggedWords) -> str:
    record = {
        "words": list(one.words),
        "tags": list(one.tags),
        "probabilities": [round(share, 6) for share in one.probabilities],
        "entities": [{"type": type_, "text": text} for type_, text in one.entities],
    }
    return json.dumps(record, ensure_ascii=False)
