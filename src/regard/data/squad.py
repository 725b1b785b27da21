"""Questions about passages, with answers that stand in them: the JSON of SQuAD v1.1 and v2, plain or .gz.

Every answer is checked against its passage: the text must stand at the place that is given. Nothing here knows tokens.
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

from regard.data.files import BadRow, Reading, kind_of, read_bytes, refuse_bad_rows, refuse_emptiness, shortened
from regard.data.tables import json_text_fault
from regard.errors import DataError, number_of

MAX_CHARACTERS = 10_000_000  # of a passage
UNANSWERED = {"answers": [], "is_impossible": True}  # what an entry says of its answers where they do not matter
_NAMED = re.compile(r'"(id|question)"\s*:\s*("[^"\\]*(?:\\.[^"\\]*)*"|-?\d+)')  # what a question is found by


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a passage and its gold answers, each with the character that it begins at."""

    id: str
    question: str
    passage: str
    answers: tuple[tuple[int, str], ...]
    impossible: bool = False  # v2: the passage holds no answer


def read_questions(
    path: Path | str, *, answered: bool = True, skip_bad_rows: bool = False, data: bytes | None = None
) -> Reading[Question]:
    """Read all questions of a file, or of the `data` that came from it.

    By default questions that cannot be used raise a DataError that lists them; with `skip_bad_rows` they are left out
    and returned in `.bad`. A file that is not JSON of this shape always raises. With `answered` False the questions
    are still to be answered: gold answers are neither needed nor read.
    """
    path = Path(path)
    reading: Reading[Question] = Reading()
    text = _decoded(path, read_bytes(path, reading.checksums) if data is None else data)
    seen: set[str] = set()
    met: Counter[str] = Counter()
    faults: list[tuple[dict[str, Any], int, str]] = []
    for place, passage, entry in _entries(path, _parsed(path, text)):
        found = _question(passage, entry if answered else {**entry, **UNANSWERED}, seen)
        name = repr(entry.get("id"))
        if isinstance(found, str):
            faults.append((entry, met[name], f"{place}: {found}"))
        else:
            seen.add(found.id)
            reading.add(0, found if answered else dataclasses.replace(found, impossible=False))
        met[name] += 1
    lines = _lines_of(text) if faults and "\n" in text else {}
    reading.bad += [BadRow(str(path), _line_of(lines, entry, before), fault) for entry, before, fault in faults]
    if not skip_bad_rows:
        refuse_bad_rows(reading.bad, len(reading.bad) + len(reading.examples), what="questions")
    refuse_emptiness(reading, str(path), what="question")
    return reading


def is_squad(data: bytes) -> bool:
    """Whether some bytes are one JSON object with the articles of a SQuAD file."""
    try:
        content = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return False
    return isinstance(content, dict) and isinstance(content.get("data"), list)


def _decoded(path: Path, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = data[: problem.start].count(b"\n") + 1
        raise DataError(
            f"{path}:{line}: not valid UTF-8 (byte 0x{data[problem.start]:02X} at byte offset {problem.start}). Save "
            "the file again as UTF-8."
        ) from problem


def _parsed(path: Path, text: str) -> list[Any]:
    """The articles of the file."""
    try:
        content = json.loads(text)
    except RecursionError as problem:
        raise DataError(f"{path} is not JSON that can be read (nested too deeply).") from problem
    except json.JSONDecodeError as problem:
        raise DataError(
            f"{path}:{problem.lineno}: not valid JSON ({problem.msg}, column {problem.colno}). Questions with passages "
            "are read from the JSON of SQuAD v1.1 or v2."
        ) from problem
    if not isinstance(content, dict) or not isinstance(content.get("data"), list):
        keys = f" with the keys {', '.join(map(shortened, content))}" if isinstance(content, dict) else ""
        raise DataError(
            f'{path} is {kind_of(content)}{keys}; a SQuAD file is an object whose "data" is a list of articles with '
            '"paragraphs", each with a "context" and "qas".'
        )
    articles: list[Any] = content["data"]
    return articles


def _entries(path: Path, articles: list[Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Where each question stands, its passage and its entry."""
    for number, article in enumerate(articles, start=1):
        title = article.get("title") if isinstance(article, dict) else None
        name = f"article {number}{f' ({shortened(title, 30)})' if isinstance(title, str) and title else ''}"
        for count, paragraph in enumerate(_list(path, name, article, "paragraphs"), start=1):
            place = f"{name}, paragraph {count}"
            passage = paragraph.get("context") if isinstance(paragraph, dict) else None
            if not isinstance(passage, str) or not passage.strip() or len(passage) > MAX_CHARACTERS:
                what = (
                    f"{len(passage):,} characters long" if isinstance(passage, str) and passage.strip() else "missing"
                )
                raise DataError(f'{path}: {place}: its "context" is {what}; it must be a text with the passage.')
            for which, entry in enumerate(_list(path, place, paragraph, "qas"), start=1):
                if not isinstance(entry, dict):
                    raise DataError(f"{path}: {place}: question {which} is {kind_of(entry)}, not an object.")
                yield f"{place}, question {which}", passage, entry


def _list(path: Path, place: str, holder: object, key: str) -> list[Any]:
    found = holder.get(key) if isinstance(holder, dict) else None
    if not isinstance(found, list):
        raise DataError(f'{path}: {place} has no list "{key}". Is this a SQuAD file?')
    return found


def _question(passage: str, entry: dict[str, Any], seen: set[str]) -> Question | str:
    """The question of an entry, or what is wrong with it."""
    name, question = entry.get("id"), entry.get("question")
    if not isinstance(name, (str, int)) or isinstance(name, bool) or name == "":
        return 'it has no "id"'
    if str(name) in seen:
        return f"its id {shortened(str(name))!r} was there before"
    if not isinstance(question, str) or not question.strip():
        return f"question {shortened(str(name))!r} is empty"
    texts = {"id": str(name), "question": question, "context": passage}
    if fault := next((bad for key, text in texts.items() if (bad := json_text_fault(key, text))), None):
        return f"{shortened(str(name))!r}: {fault}"
    answers = _answers(passage, entry)
    if isinstance(answers, str):
        return f"{shortened(str(name))!r}: {answers}"
    impossible = bool(entry.get("is_impossible", False))
    if impossible and answers:
        return f"{shortened(str(name))!r}: it is_impossible and has {number_of(len(answers), 'answer')}"
    if not impossible and not answers:
        return f"{shortened(str(name))!r}: it has no answers, and is_impossible does not say that this is meant"
    return Question(str(name), question.strip(), passage, answers, impossible)


def _answers(passage: str, entry: dict[str, Any]) -> tuple[tuple[int, str], ...] | str:
    given = entry.get("answers", [])
    if not isinstance(given, list):
        return f'its "answers" are {kind_of(given)}, not a list'
    answers = []
    for answer in given:
        start = answer.get("answer_start") if isinstance(answer, dict) else None
        text = answer.get("text") if isinstance(answer, dict) else None
        if not isinstance(text, str) or not isinstance(start, int) or isinstance(start, bool):
            return 'an answer needs a "text" and an "answer_start"'
        fault = _misplaced(passage, start, text)
        if fault:
            return fault
        answers.append((start, text))
    return tuple(answers)


def _misplaced(passage: str, start: int, text: str) -> str | None:
    """Why an answer does not stand where it should; None if it does."""
    if not text.strip():
        return "an answer is empty"
    if start >= 0 and passage.startswith(text, start):
        return None
    shown = shortened(text, 40)
    where = passage.find(text)
    if where < 0:
        return f"the answer {shown!r} is not in the passage"
    there = shortened(passage[max(0, start) : max(0, start) + len(text)], 40)
    return f"the answer {shown!r} stands at character {where}, not at {start}, where the passage has {there!r}"


def _lines_of(text: str) -> dict[tuple[str, str], list[int]]:
    """The lines on which ids and questions stand, by key and value, in one walk through a file.

    Quotes inside of a JSON string are escaped, so that what looks like a key is one.
    """
    found: dict[tuple[str, str], list[int]] = {}
    line, place = 1, 0
    for match in _NAMED.finditer(text):
        line, place = line + text.count("\n", place, match.start()), match.start()
        found.setdefault((match[1], json.dumps(json.loads(match[2], strict=False))), []).append(line)
    return found


def _line_of(lines: Mapping[tuple[str, str], Sequence[int]], entry: dict[str, Any], before: int) -> int:
    """The line of an entry whose id `before` others had; most SQuAD files are a single line."""
    for key in ("id", "question"):
        if there := lines.get((key, json.dumps(entry.get(key)))):
            return there[min(before, len(there) - 1)]
    return 1
