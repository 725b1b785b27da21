"""Questions to answer: rows of question and passage (.tsv, .csv, .jsonl), or SQuAD's JSON, plain or .gz.

Columns are found by their usual names; without a header there must be two, question and passage. Gold answers are
ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.data.files import FileLines, ReadResult, read_bytes, shortened
from regard.data.rows import json_text_fault, text_fault
from regard.data.squad import MAX_CHARACTERS, Question, is_squad, read_questions
from regard.data.tables import Column, read_table

STDIN = Path("<stdin>")
QUESTIONS = ("question", "query")
PASSAGES = ("passage", "context", "paragraph", "text", "document")
COLUMNS = (
    Column("question", QUESTIONS),
    Column("passage", PASSAGES),
    Column("id", ("id", "qid", "question_id"), required=False, is_text=False),
)


def read_asked(path: Path | str, *, skip_bad_rows: bool = False) -> ReadResult[Question]:
    """Read all questions of a file. Bad rows are treated as in `read_questions`."""
    path = Path(path)
    if path.name.lower().removesuffix(".gz").endswith(".json"):
        return read_questions(path, answered=False, skip_bad_rows=skip_bad_rows)
    result: ReadResult[Question] = ReadResult()
    return _read(path, read_bytes(path, result.checksums), "", result, skip_bad_rows=skip_bad_rows)


def read_piped(data: bytes, *, skip_bad_rows: bool = False) -> ReadResult[Question]:
    """Read questions from stdin: JSON lines, SQuAD's JSON, or lines of question, tab, passage."""
    if is_squad(data):
        return read_questions(STDIN, answered=False, skip_bad_rows=skip_bad_rows, data=data)
    suffix = ".jsonl" if data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") else ".tsv"
    return _read(STDIN, data, suffix, ReadResult(), skip_bad_rows=skip_bad_rows)


def _read(
    path: Path, data: bytes, suffix: str, result: ReadResult[Question], *, skip_bad_rows: bool
) -> ReadResult[Question]:
    table = read_table(path, FileLines.of(path, data), [COLUMNS], suffix=suffix, exact=True)
    result.remarks += table.notes
    result.collect(path, table.rows, _question)
    seen: set[str] = set()
    faults = {}
    for index, question in enumerate(result.examples):
        name = question.id or str(result.lines[index])  # questions without an id get their line
        result.examples[index] = Question(name, question.question, question.passage, ())
        if name in seen:
            faults[index] = f"repeated id {shortened(name)!r}"
        seen.add(name)
    return result.without(faults, path).finish(path, "questions", skip_bad_rows=skip_bad_rows, unit="questions")


def _question(cells: Sequence[Any]) -> Question | str:
    question, passage, id_ = cells
    name = "" if id_ is None else str(id_).strip()
    fault = text_fault("question", question, MAX_CHARACTERS) or text_fault("passage", passage, MAX_CHARACTERS)
    return fault or json_text_fault("id", name) or Question(name, question.strip(), passage, ())
