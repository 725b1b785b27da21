"""SQuAD files: both versions, and every question that cannot be used."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from regard.data.squad import Question, read_questions
from regard.utils.errors import DataError, UsageError

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
    ("change", "hint"),
    [
        ({"answers": [{"text": "the attic", "answer_start": 18}]}, "the attic"),
        ({"answers": [{"text": "the kitchen", "answer_start": 20}]}, "character 18, not at 20"),
        ({"answers": [{"text": "the kitchen", "answer_start": -4}]}, "character 18, not at -4"),
        ({"answers": [{"text": "the kitchen", "answer_start": 9_999}]}, "character 18"),
        ({"answers": [{"text": "", "answer_start": 0}]}, "empty"),
        ({"answers": [{"text": "the kitchen"}]}, "answer_start"),
        ({"answers": [{"text": "the kitchen", "answer_start": "18"}]}, "answer_start"),
        ({"answers": ["the kitchen"]}, "answer_start"),
        ({"answers": "the kitchen"}, "answers"),
        ({"answers": []}, "is_impossible"),
        ({"is_impossible": True}, "is_impossible"),
        ({"question": "  "}, "empty"),
        ({"question": None}, "empty"),
        ({"id": "one"}, "'one'"),
        ({"id": None}, '"id"'),
    ],
)
def test_questions_that_cannot_be_used(change: dict[str, Any], hint: str, tmp_path: Path) -> None:
    path = _write(tmp_path / "a.json", WHERE, {**WHERE, "id": "two", **change}, {**WHERE, "id": "three"})
    with pytest.raises(DataError) as caught:
        read_questions(path)
    [row] = caught.value.value
    assert (caught.value.path, caught.value.line) == (path, row.line)
    assert hint in row.reason
    assert "paragraph 1, question 2" in row.reason
    result = read_questions(path, skip_bad_rows=True)
    assert [question.id for question in result.examples] == ["one", "three"]
    assert result.bad == [row]


def test_the_line_of_a_bad_question(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.json", WHERE, {**WHERE, "id": "two", "answers": []})
    lines = path.read_text(encoding="utf-8").splitlines()
    [row] = read_questions(path, skip_bad_rows=True).bad
    assert '"two"' in lines[row.line - 1]


def test_the_lines_of_many_bad_questions(tmp_path: Path) -> None:
    """Each entry is written on its own line, so that the line is known."""
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
    for answered in (True, False):
        with pytest.raises(DataError) as caught:
            read_questions(path, answered=answered)
        assert all(f"'{key}'" in row.reason for row in caught.value.value)


@pytest.mark.parametrize(
    ("text", "argument"),
    [
        ("{", None),
        ("[" * 100_000, None),
        ("[]", "data"),
        ('{"questions": []}', "data"),
        ('{"data": [{"title": "x"}]}', "paragraphs"),
        ('{"data": [3]}', "paragraphs"),
        ('{"data": [{"paragraphs": [{"qas": []}]}]}', "context"),
        ('{"data": [{"paragraphs": [{"context": " ", "qas": []}]}]}', "context"),
        ('{"data": [{"paragraphs": [{"context": "a"}]}]}', "qas"),
        ('{"data": [{"paragraphs": [{"context": "a", "qas": [1]}]}]}', "qas"),
        ('{"data": []}', None),
    ],
    ids=range(11),
)
def test_files_of_another_structure(text: str, argument: str | None, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_questions(path, skip_bad_rows=True)
    assert (caught.value.path, caught.value.argument) == (path, argument)


def test_bytes_marks_and_missing_files(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.json", WHERE)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert len(read_questions(path).examples) == 1
    path.write_bytes(b'{\n"data": "\xff"}')
    with pytest.raises(DataError) as caught:
        read_questions(path)
    assert (caught.value.path, caught.value.line) == (path, 2)
    with pytest.raises(UsageError):
        read_questions(tmp_path / "no.json")


@pytest.mark.parametrize(("name", "count"), [("train_slice", 4566), ("new_wiki_v1.0", 7938)])
def test_real_questions(name: str, count: int, real_data: Path) -> None:
    assert len(read_questions(real_data / "squad" / f"{name}.json.gz").examples) == count
