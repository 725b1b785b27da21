"""Read questions about passages: with gold answers (the JSON of SQuAD v1.1 and v2), or for prediction.

The passage must contain the text of every gold answer at `answer_start`. Questions for prediction may also come from
tables with the columns question and passage.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.files import BadRow, ReadResult, decode, read_bytes, shortened, type_name
from regard.data.tables import MAX_CHARACTERS, Column, json_text_fault, read_table, text_fault
from regard.utils.errors import DataError, number_of

QUESTIONS = ("question", "query")  # usual names of columns
PASSAGES = ("passage", "context", "paragraph", "text", "document")
COLUMNS = (
    Column("question", QUESTIONS),
    Column("passage", PASSAGES),
    Column("id", ("id", "qid", "question_id"), required=False, is_text=False),
)
_ID_OR_QUESTION = re.compile(r'"(id|question)"\s*:\s*("[^"\\]*(?:\\.[^"\\]*)*"|-?\d+)')


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a passage and its gold answers: (index of the first character, text)."""

    id: str
    question: str
    passage: str
    answers: tuple[tuple[int, str], ...] = ()
    impossible: bool = False  # v2: the passage has no answer


def read_questions(
    path: Path | str, *, answered: bool = True, skip_bad_rows: bool = False, data: bytes | None = None
) -> ReadResult[Question]:
    """Read all questions of a SQuAD file; `data` is its content if it has been read already.

    Unless `answered`, gold answers are ignored. Bad questions raise an error, or with `skip_bad_rows` are returned in
    `.bad`.
    """
    path = Path(path)
    result: ReadResult[Question] = ReadResult()
    text = decode(read_bytes(path, result.checksums) if data is None else data, path)
    seen: set[str] = set()
    counts: Counter[str] = Counter()
    faults: list[tuple[dict[str, Any], int, str]] = []
    for place, passage, entry in _entries(path, _articles(path, text)):
        question = _question(passage, entry, seen, answered=answered)
        key = repr(entry.get("id"))
        if isinstance(question, str):
            faults.append((entry, counts[key], f"{place}: {question}"))
        else:
            seen.add(question.id)
            result.add(0, question)
        counts[key] += 1
    lines = _lines_of(text) if faults and "\n" in text else {}
    result.bad += [BadRow(str(path), _line_of(lines, entry, before), fault) for entry, before, fault in faults]
    return result.finish(path, "questions", skip_bad_rows=skip_bad_rows, unit="questions")


def read_qa_inputs(path: Path | str, data: bytes | None = None, *, skip_bad_rows: bool = False) -> ReadResult[Question]:
    """Read questions for prediction from SQuAD's JSON, a table, or `data`, which may also be tab-separated lines.

    Columns are found by their usual names; a table without a header must have two columns, question and passage. Gold
    answers are ignored. Bad rows are handled as in `read_questions`.
    """
    path, suffix = Path(path), ""
    is_squad = path.name.lower().removesuffix(".gz").endswith(".json") if data is None else _is_squad(data)
    if is_squad:
        return read_questions(path, answered=False, skip_bad_rows=skip_bad_rows, data=data)
    if data is not None:
        suffix = ".jsonl" if data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") else ".tsv"
    result = read_table(path, [COLUMNS], _question_of_row, data=data, suffix=suffix, exact=True)
    seen: set[str] = set()
    faults = {}
    for index, (line, question) in enumerate(zip(result.lines, result.examples, strict=True)):
        name = question.id or str(line)
        result.examples[index] = dataclasses.replace(question, id=name)
        if name in seen:
            faults[index] = f"repeated id {shortened(name)!r}"
        seen.add(name)
    return result.without(faults, path).finish(path, "questions", skip_bad_rows=skip_bad_rows, unit="questions")


def _question_of_row(cells: Sequence[Any]) -> Question | str:
    question, passage, id_ = cells
    name = "" if id_ is None else str(id_).strip()
    fault = text_fault("question", question) or text_fault("passage", passage) or json_text_fault("id", name)
    return fault or Question(name, question.strip(), passage)


def _is_squad(data: bytes) -> bool:
    """Return whether bytes are a JSON object with a list "data", as in a SQuAD file."""
    try:
        content = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return False
    return isinstance(content, dict) and isinstance(content.get("data"), list)


def _articles(path: Path, text: str) -> list[Any]:
    try:
        content = json.loads(text)
    except RecursionError as error:
        raise DataError(f"{path}: not valid JSON (nested too deeply).", path=path) from error
    except json.JSONDecodeError as error:
        detail = f"{error.msg}, column {error.colno}"
        message = f"{path}:{error.lineno}: not valid JSON ({detail}). Give a SQuAD file (v1.1 or v2)."
        raise DataError(message, path=path, line=error.lineno) from error
    articles = content.get("data") if isinstance(content, dict) else None
    if not isinstance(articles, list):
        keys = f" with the keys {', '.join(map(shortened, content))}" if isinstance(content, dict) else ""
        wanted = 'an object whose "data" is a list of articles with "paragraphs", each with a "context" and "qas"'
        message = f"{path} is {type_name(content)}{keys}. A SQuAD file is {wanted}."
        raise DataError(message, path=path, argument="data")
    return articles


def _entries(path: Path, articles: list[Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield for each question a description of its position in the file, its passage and its JSON entry."""
    for article_number, article in enumerate(articles, start=1):
        title = article.get("title") if isinstance(article, dict) else None
        title = f" ({shortened(title, 30)})" if isinstance(title, str) and title else ""
        article_place = f"article {article_number}{title}"
        for number, paragraph in enumerate(_list(path, article_place, article, "paragraphs"), start=1):
            place = f"{article_place}, paragraph {number}"
            passage = paragraph.get("context") if isinstance(paragraph, dict) else None
            if not isinstance(passage, str) or not passage.strip():
                raise DataError(f'{path}: {place} must have a text "context".', path=path, argument="context")
            if len(passage) > MAX_CHARACTERS:
                message = f"{path}: {place} has {len(passage):,} characters; the limit is {MAX_CHARACTERS:,}. Split it."
                raise DataError(message, path=path, value=len(passage))
            for index, entry in enumerate(_list(path, place, paragraph, "qas"), start=1):
                if not isinstance(entry, dict):
                    message = f"{path}: {place}: question {index} is {type_name(entry)}, not an object."
                    raise DataError(message, path=path, argument="qas")
                yield f"{place}, question {index}", passage, entry


def _list(path: Path, place: str, parent: object, key: str) -> list[Any]:
    value = parent.get(key) if isinstance(parent, dict) else None
    if not isinstance(value, list):
        raise DataError(f'{path}: {place} has no list "{key}". Is this a SQuAD file?', path=path, argument=key)
    return value


def _question(passage: str, entry: dict[str, Any], seen: set[str], *, answered: bool) -> Question | str:
    """Return the question of an entry, or the reason why the entry is invalid."""
    id_, question = entry.get("id"), entry.get("question")
    if not isinstance(id_, (str, int)) or isinstance(id_, bool) or id_ == "":
        return 'no "id"'
    name = shortened(str(id_))
    if str(id_) in seen:
        return f"repeated id {name!r}"
    if not isinstance(question, str) or not question.strip():
        return f"question {name!r} is empty"
    fault = json_text_fault("id", str(id_)) or json_text_fault("question", question)
    fault = fault or json_text_fault("context", passage)
    answers = _answers(passage, entry) if answered else ()
    impossible = answered and bool(entry.get("is_impossible", False))
    if fault or isinstance(answers, str):
        return f"{name!r}: {fault or answers}"
    if impossible and answers:
        return f"{name!r}: marked as is_impossible, but has {number_of(len(answers), 'answer')}"
    if answered and not impossible and not answers:
        return f"{name!r}: has no answers, but is not marked as is_impossible"
    return Question(str(id_), question.strip(), passage, answers, impossible)


def _answers(passage: str, entry: dict[str, Any]) -> tuple[tuple[int, str], ...] | str:
    entries = entry.get("answers", [])
    if not isinstance(entries, list):
        return f'"answers" is {type_name(entries)}, not a list'
    answers = []
    for answer in entries:
        start = answer.get("answer_start") if isinstance(answer, dict) else None
        text = answer.get("text") if isinstance(answer, dict) else None
        if not isinstance(text, str) or not isinstance(start, int) or isinstance(start, bool):
            return 'an answer needs a "text" and an "answer_start"'
        if fault := _span_fault(passage, start, text):
            return fault
        answers.append((start, text))
    return tuple(answers)


def _span_fault(passage: str, start: int, text: str) -> str | None:
    """Return the reason why an answer does not match its passage, or None."""
    if not text.strip():
        return "an answer is empty"
    if start >= 0 and passage.startswith(text, start):
        return None
    answer, place = shortened(text, 40), passage.find(text)
    if place < 0:
        return f"the answer {answer!r} is not in the passage"
    other = shortened(passage[max(0, start) : max(0, start) + len(text)], 40)
    return f"the answer {answer!r} is at character {place}, not at {start}, where the passage has {other!r}"


def _lines_of(text: str) -> dict[tuple[str, str], list[int]]:
    """Return the line numbers of all ids and questions, by key and value.

    Quotes in a JSON string are escaped, so the pattern matches only keys.
    """
    lines: dict[tuple[str, str], list[int]] = {}
    line, place = 1, 0
    for match in _ID_OR_QUESTION.finditer(text):
        line, place = line + text.count("\n", place, match.start()), match.start()
        lines.setdefault((match[1], json.dumps(json.loads(match[2], strict=False))), []).append(line)
    return lines


def _line_of(lines: Mapping[tuple[str, str], Sequence[int]], entry: dict[str, Any], before: int) -> int:
    """Return the line of an entry; `before` is the number of earlier entries with the same id."""
    for key in ("id", "question"):
        if places := lines.get((key, json.dumps(entry.get(key)))):
            return places[min(before, len(places) - 1)]
    return 1
