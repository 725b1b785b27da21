"""SQuAD files: both versions, and every question that cannot be used."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from regard.data.squad import Question, read_questions
from regard.errors import DataError, UsageError

PASSAGE = "The cat sleeps in the kitchen. The dog sleeps in the garden."
WHERE = {"id": "one", "question": "Where is the cat?", "answers": [{"text": "the kitchen", "answer_start": 18}]}


def _write(path: Path, *questions: dict[str, Any], **more: Any) -> Path:
    content = {"version": "1.1", "data": [{"title": "Pets", "paragraphs": [{"context": PASSAGE, "qas": questions}]}]}
    text = json.dumps({**content, **more}, indent=1)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_both_versions(name: str, tmp_path: Path) -> None:
    none = {"id": "two", "question": "Where is the cow?", "answers": [], "is_impossible": True, "plausible_answers": []}
    reading = read_questions(_write(tmp_path / name, {**WHERE, "is_impossible": False}, none))
    assert reading.examples == [
        Question("one", "Where is the cat?", PASSAGE, ((18, "the kitchen"),)),
        Question("two", "Where is the cow?", PASSAGE, (), impossible=True),
    ]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"answers": [{"text": "the attic", "answer_start": 18}]}, "the answer 'the attic' is not in the passage"),
        ({"answers": [{"text": "the kitchen", "answer_start": 20}]},
         "'the kitchen' stands at character 18, not at 20, where the passage has 'e kitchen. '"),
        ({"answers": [{"text": "the kitchen", "answer_start": -4}]}, "stands at character 18, not at -4"),
        ({"answers": [{"text": "the kitchen", "answer_start": 9_999}]}, "where the passage has ''"),
        ({"answers": [{"text": "", "answer_start": 0}]}, "an answer is empty"),
        ({"answers": [{"text": "the kitchen"}]}, 'an answer needs a "text" and an "answer_start"'),
        ({"answers": [{"text": "the kitchen", "answer_start": "18"}]}, 'an answer needs a "text"'),
        ({"answers": ["the kitchen"]}, 'an answer needs a "text"'),
        ({"answers": "the kitchen"}, '"answers" are a text, not a list'),
        ({"answers": []}, "it has no answers, and is_impossible does not say"),
        ({"is_impossible": True}, "it is_impossible and has 1 answer"),
        ({"question": "  "}, "question 'two' is empty"),
        ({"question": None}, "question 'two' is empty"),
        ({"id": "one"}, "its id 'one' was there before"),
        ({"id": None}, 'it has no "id"'),
    ],
)  # fmt: skip
def test_questions_that_cannot_be_used(change: dict[str, Any], reason: str, tmp_path: Path) -> None:
    path = _write(tmp_path / "a.json", WHERE, {**WHERE, "id": "two", **change}, {**WHERE, "id": "three"})
    with pytest.raises(DataError, match="1 of 3 questions cannot be used") as caught:
        read_questions(path)
    assert reason in str(caught.value)
    assert "article 1 (Pets), paragraph 1, question 2" in str(caught.value)
    reading = read_questions(path, skip_bad_rows=True)
    assert [question.id for question in reading.examples] == ["one", "three"]
    [row] = reading.bad
    assert reason in row.reason


def test_the_line_of_a_bad_question(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.json", WHERE, {**WHERE, "id": "two", "answers": []})
    lines = path.read_text(encoding="utf-8").splitlines()
    [row] = read_questions(path, skip_bad_rows=True).bad
    assert '"two"' in lines[row.line - 1]


def test_the_lines_of_many_bad_questions(tmp_path: Path) -> None:
    """By another road: each entry is written on a line of its own."""
    entries = [{**WHERE, "id": f"a{n // 2}é", "question": f'Is "id": {n}?'} for n in range(40)]
    entries += [{"question": "No id?"}, {**WHERE, "id": 7}, {**WHERE, "id": 7}]
    rows = ",\n".join(json.dumps(entry) for entry in entries)
    path = tmp_path / "a.json"
    head = f'{{"data": [{{"paragraphs": [{{"context": {json.dumps(PASSAGE)}, "qas": ['
    path.write_text(f"{head}\n{rows}\n]}}]}}]}}", encoding="utf-8")
    reading = read_questions(path, skip_bad_rows=True)
    assert [row.line for row in reading.bad] == [*range(3, 43, 2), 42, 44], "of two with an id, the second"
    assert path.read_text(encoding="utf-8").splitlines()[41] == '{"question": "No id?"},'
    path.write_text(f"{head} {rows} ]}}]}}]}}".replace("\n", " "), encoding="utf-8")
    assert {row.line for row in read_questions(path, skip_bad_rows=True).bad} == {1}


@pytest.mark.parametrize("key", ["id", "question", "context"])
def test_half_of_a_character(key: str, tmp_path: Path) -> None:
    path = _write(tmp_path / "a.json", {**WHERE, "id": "zero"}, {**WHERE, key: "Who \ud83d?"})
    if key == "context":
        path.write_text(path.read_text(encoding="utf-8").replace(PASSAGE, PASSAGE + r"\ud83d"), encoding="utf-8")
    reading_fault = rf"a\.json:\d+: article 1.*'{key}' holds half of a character"
    with pytest.raises(DataError, match=reading_fault):
        read_questions(path)
    with pytest.raises(DataError, match=reading_fault):
        read_questions(path, answered=False)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", r"a\.json:1: not valid JSON"),
        ("[]", "is a list; a SQuAD file is an object"),
        ('{"questions": []}', "is an object with the keys questions; a SQuAD file"),
        ('{"data": [{"title": "x"}]}', r'article 1 \(x\) has no list "paragraphs"'),
        ('{"data": [3]}', 'article 1 has no list "paragraphs"'),
        ('{"data": [{"paragraphs": [{"qas": []}]}]}', 'paragraph 1: its "context" is missing'),
        ('{"data": [{"paragraphs": [{"context": " ", "qas": []}]}]}', 'its "context" is missing'),
        ('{"data": [{"paragraphs": [{"context": "a"}]}]}', 'paragraph 1 has no list "qas"'),
        ('{"data": [{"paragraphs": [{"context": "a", "qas": [1]}]}]}', "question 1 is a number, not an object"),
        ('{"data": []}', "no questions found"),
    ],
)
def test_files_that_are_something_else(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=reason):
        read_questions(path, skip_bad_rows=True)


def test_bytes_marks_and_missing_files(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.json", WHERE)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert len(read_questions(path).examples) == 1
    path.write_bytes(b'{\n"data": "\xff"}')
    with pytest.raises(DataError, match=r"a\.json:2: not valid UTF-8 \(byte 0xFF"):
        read_questions(path)
    with pytest.raises(UsageError, match="does not exist"):
        read_questions(tmp_path / "no.json")


@pytest.mark.parametrize(("name", "count"), [("train_slice", 4566), ("new_wiki_v1.0", 7938)])
def test_real_questions(name: str, count: int, real_data: Path) -> None:
    assert len(read_questions(real_data / "squad" / f"{name}.json.gz").examples) == count
