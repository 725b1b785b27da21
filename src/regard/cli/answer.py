"""`regard answer`: the stretch of a passage that answers a question."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from regard.checkpoint.atomic import write_file
from regard.checkpoint.presence import check_folder
from regard.cli.embed import STDIN, is_file
from regard.cli.flags import parse
from regard.cli.output import answer, check_free, note
from regard.data.asked import read_asked, read_piped
from regard.data.files import read_bytes, skipped_rows
from regard.data.squad import Question
from regard.errors import DataError, UsageError
from regard.tasks.settings import SpanConfig

if TYPE_CHECKING:
    from regard.data.files import Reading
    from regard.tasks.answer import Answer, Answerer

SUFFIXES = (".jsonl", ".csv", ".json", ".txt")
PICTURES = (".html", ".svg", ".png")  # of one question


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Answer questions about passages: one line a question, empty where there is no answer.

    TEXTS are a question and a passage, each in quotes; the passage may also be a text file, or come from stdin. Or they
    are a file of questions: SQuAD's JSON, or a table (.jsonl, .csv, .tsv) with the columns question and passage.
    Without TEXTS such rows are read from stdin, as lines of JSON or with a tab between question and passage.
    """

    model: tyro.conf.Positional[Path]  # a model folder
    # a question and a passage, or a file of both; - or nothing reads stdin
    texts: tyro.conf.Positional[tuple[str, ...]] = ()
    # write lines of JSON (.jsonl), a table (.csv), SQuAD's predictions by id (.json) or answers alone (.txt); or show
    # one answer in its passage (.html, .svg, .png), with where the model sees it begin and end
    out: Path | None = None
    skip_bad_rows: bool = False  # leave out questions that cannot be used, and list them
    force: bool = False  # replace a file that is already there
    json: bool = False  # print a line of JSON for each question, with places and probabilities


def main(verb: str, arguments: list[str]) -> int:
    owners: dict[type, str] = {SpanConfig: "(default: as the folder says)"}
    asked: Any = parse(Arguments, arguments, program="regard answer", owners=owners)
    check_folder(asked.model)
    if asked.out is not None:
        if asked.out.suffix not in SUFFIXES + PICTURES:
            endings = " or ".join(SUFFIXES + PICTURES)
            raise UsageError(f"--out {asked.out} must end in {endings}, which says what is written.")
        check_free(asked.out, force=asked.force)
    given = {name: getattr(asked, name) for name in ("stride", "max_answer_tokens", "n_best", "threshold")}
    settings = {name: value for name, value in given.items() if value is not None}
    SpanConfig(**settings)  # what is wrong with it is said before anything is read
    questions = _questions(asked.texts, skip_bad_rows=asked.skip_bad_rows)
    from regard.tasks.folders import load_answerer

    model = load_answerer(asked.model)
    if asked.out is not None and asked.out.suffix in PICTURES:
        return _show(model, questions, asked.out, settings)
    found = model([(one.question, one.passage) for one in questions], **settings)
    if asked.out is None:
        sys.stdout.write(_lines(questions, found, ".jsonl" if asked.json else ".txt"))
    else:
        write_file(asked.out, _lines(questions, found, asked.out.suffix))
        answer(str(asked.out))
    return 0


def _show(model: Answerer, questions: Sequence[Question], out: Path, settings: Mapping[str, Any]) -> int:
    if len(questions) != 1:
        raise UsageError(f"--out {out} shows one question in its passage, and {len(questions):,} were given.")
    from regard.inspection.spans import answer_view

    answer(str(answer_view(model, questions[0].question, questions[0].passage, **settings).save(out)))
    return 0


# --- Questions ---------------------------------------------------------------------------------------------


def _questions(given: Sequence[str], *, skip_bad_rows: bool) -> list[Question]:
    if len(given) > 2:
        raise UsageError(f"{len(given)} texts were given; a question and its passage are two. Put each in quotes.")
    if len(given) == 2:
        return [_question(given[0], _passage(given[1]))]
    if not given or given[0] == STDIN:
        return _told(read_piped(sys.stdin.buffer.read(), skip_bad_rows=skip_bad_rows))
    if is_file(given[0]):
        return _told(read_asked(given[0], skip_bad_rows=skip_bad_rows))
    return [_question(given[0], _passage(STDIN))]


def _question(question: str, passage: str) -> Question:
    for what, text in (("question", question), ("passage", passage)):
        if not text.strip():
            raise UsageError(f"the {what} is empty: give a question and the passage that it is about.")
    return Question("1", question.strip(), passage, ())


def _passage(given: str) -> str:
    """The passage itself, that of a file, or what comes from stdin."""
    if given != STDIN and not is_file(given):
        return given
    data = sys.stdin.buffer.read() if given == STDIN else read_bytes(Path(given), {})
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        where = "<stdin>" if given == STDIN else given
        raise DataError(f"{where}: not UTF-8 ({error.reason} at byte {error.start}). Convert it first.") from None


def _told(reading: Reading[Question]) -> list[Question]:
    for line in skipped_rows(reading.bad):
        note(line)
    return reading.examples


# --- Answers -----------------------------------------------------------------------------------------------


def _lines(questions: Sequence[Question], found: Sequence[Answer], suffix: str) -> str:
    if suffix == ".txt":
        return "".join(f"{' '.join(one.text.split())}\n" for one in found)  # an answer may go over a line's end
    names = [one.id for one in questions]
    if suffix == ".json":
        return json.dumps(dict(zip(names, (one.text for one in found), strict=True)), ensure_ascii=False) + "\n"
    records = [_record(name, one) for name, one in zip(names, found, strict=True)]
    if suffix == ".jsonl":
        return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    table = io.StringIO(newline="")
    writer = csv.DictWriter(table, [name for name in records[0] if name != "best"], extrasaction="ignore")
    writer.writeheader()
    writer.writerows(records)
    return table.getvalue()


def _record(name: str, one: Answer) -> dict[str, Any]:
    return {
        "id": name,
        "question": one.question,
        "answer": one.text,
        "start": one.start,
        "end": one.end,
        "probability": round(one.probability, 6),
        "no_answer": round(one.no_answer, 6),
        "best": [
            {"text": span.text, "start": span.start, "end": span.end, "probability": round(span.probability, 6)}
            for span in one.best
        ],
    }
