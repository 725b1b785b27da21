"""Questions that wait for an answer: rows of question and passage (.tsv, .csv, .jsonl), or SQuAD's JSON, or .gz.

Columns are recognised by their usual names; a table of two columns without a header is taken for question and passage.
Gold answers are not needed, and not read. Nothing here knows tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.files import BadRow, Lines, Reading, read_bytes, refuse_bad_rows, refuse_emptiness, shortened
from regard.data.squad import MAX_CHARACTERS, Question, is_squad, read_questions
from regard.data.tables import (
    Cells,
    comma_rows,
    json_rows,
    json_text_fault,
    missing_key,
    tab_rows,
    table_suffix,
    too_long,
    too_short,
    width_of,
)
from regard.errors import DataError

STDIN = "<stdin>"
QUESTIONS = ("question", "query")
PASSAGES = ("passage", "context", "paragraph", "text", "document")
NAMES = ("id", "qid", "question_id")


def read_asked(path: Path | str, *, skip_bad_rows: bool = False) -> Reading[Question]:
    """Read all questions of a file. Bad rows are treated as `read_questions` treats them."""
    path = Path(path)
    if path.name.lower().removesuffix(".gz").endswith(".json"):
        return read_questions(path, answered=False, skip_bad_rows=skip_bad_rows)
    reading: Reading[Question] = Reading()
    return _read(path, read_bytes(path, reading.checksums), table_suffix(path), reading, skip_bad_rows=skip_bad_rows)


def read_piped(data: bytes, *, skip_bad_rows: bool = False) -> Reading[Question]:
    """The questions of a stream: lines of JSON, SQuAD's JSON, or a question, a tab and its passage on each line."""
    path = Path(STDIN)
    if is_squad(data):
        return read_questions(path, answered=False, skip_bad_rows=skip_bad_rows, data=data)
    suffix = ".jsonl" if data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") else ".tsv"
    return _read(path, data, suffix, Reading(), skip_bad_rows=skip_bad_rows)


def _read(
    path: Path, data: bytes, suffix: str, reading: Reading[Question], *, skip_bad_rows: bool
) -> Reading[Question]:
    text = Lines.of(path, data)
    if suffix == ".jsonl":
        _read_records(path, text, reading)
    else:
        _read_cells(path, list(comma_rows(path, text) if suffix == ".csv" else tab_rows(path, text)), suffix, reading)
    reading = _without_repeated_ids(path, reading)
    if not skip_bad_rows:
        refuse_bad_rows(reading.bad, len(reading.bad) + len(reading.examples), what="questions")
    refuse_emptiness(reading, str(path), what="question")
    return reading


def _without_repeated_ids(path: Path, reading: Reading[Question]) -> Reading[Question]:
    """Answers go back by id, so each id may stand once."""
    kept: Reading[Question] = Reading(bad=list(reading.bad), checksums=reading.checksums, remarks=reading.remarks)
    seen: set[str] = set()
    for line, one in zip(reading.lines, reading.examples, strict=True):
        if one.id in seen:
            kept.bad.append(BadRow(str(path), line, f"its id {shortened(one.id)!r} was there before"))
        else:
            seen.add(one.id)
            kept.add(line, one)
    kept.bad.sort(key=lambda row: row.line)
    return kept


@dataclass(frozen=True)
class _Places:
    """Where the question, the passage and, if there is one, the id stand in a row."""

    question: Any
    passage: Any
    id: Any = None


def _keep(path: Path, line: int, name: str, question: str, passage: str, reading: Reading[Question]) -> None:
    fault = json_text_fault("id", name) or _fault("question", question) or _fault("passage", passage)
    if fault:
        reading.bad.append(BadRow(str(path), line, fault))
    else:
        reading.add(line, Question(name, question.strip(), passage, ()))


def _fault(what: str, text: str) -> str | None:
    if not text.strip():
        return f"the {what} is empty"
    return f"the {what} has {len(text):,} characters" if len(text) > MAX_CHARACTERS else None


# --- Tables ------------------------------------------------------------------------------------------------


def _read_cells(path: Path, rows: Sequence[Cells | BadRow], suffix: str, reading: Reading[Question]) -> None:
    first = next((row[1] for row in rows if not isinstance(row, BadRow) and width_of(row[1])), [])
    if not first:
        reading.bad += [row for row in rows if isinstance(row, BadRow)]
        return
    places = _in_header(path, first)
    width = width_of(first)
    if places is None and width != 2:
        listed = ", ".join(shortened(cell.strip()) for cell in first[:20])
        raise DataError(
            f"{path}: which of its columns ({listed}) hold questions and passages cannot be told. Write a header with "
            "`question` and `passage` above them, or give two columns, questions first."
        )
    for row in rows:
        if isinstance(row, BadRow):
            reading.bad.append(row)
            continue
        line, cells = row
        if places is not None and cells is first:
            continue
        found = places or _Places(0, 1)
        needed = max(found.question, found.passage, found.id or 0) + 1
        if len(cells) < needed:
            reading.bad.append(too_short(path, line, cells, needed))
        elif width_of(cells) > width:
            reading.bad.append(too_long(path, line, width_of(cells), width, header=places is not None, suffix=suffix))
        else:
            name = (cells[found.id].strip() if found.id is not None else "") or str(line)
            _keep(path, line, name, cells[found.question], cells[found.passage], reading)


def _in_header(path: Path, header: Sequence[str]) -> _Places | None:
    """Where the columns stand if `header` names both; None if it does not."""
    names = [name.strip().lower() for name in header]
    question, passage, id_ = (
        next((name for name in usual if name in names), None) for usual in (QUESTIONS, PASSAGES, NAMES)
    )
    if question is None or passage is None:
        return None
    for name in (question, passage):
        if names.count(name) > 1:
            raise DataError(f"{path}: {names.count(name)} columns are called {name!r}. Rename all but one of them.")
    return _Places(names.index(question), names.index(passage), None if id_ is None else names.index(id_))


# --- JSON lines --------------------------------------------------------------------------------------------


def _read_records(path: Path, text: Lines, reading: Reading[Question]) -> None:
    for row in json_rows(path, text):
        if isinstance(row, BadRow):
            reading.bad.append(row)
            continue
        line, record = row
        places = _in_record(record)
        wanted = {"question": places.question, "passage": places.passage}
        fault = next((missing_key(role, record) for role, key in wanted.items() if key is None), None)
        fault = fault or next((bad for key in wanted.values() if (bad := json_text_fault(key, record[key]))), None)
        if fault:
            reading.bad.append(BadRow(str(path), line, fault))
        else:
            named = record.get(places.id)
            name = str(line) if named is None else str(named).strip() or str(line)
            _keep(path, line, name, record[places.question], record[places.passage], reading)


def _in_record(record: dict[str, Any]) -> _Places:
    keys = {key.lower(): key for key in record}
    return _Places(
        *(next((keys[name] for name in usual if name in keys), None) for usual in (QUESTIONS, PASSAGES, NAMES))
    )
