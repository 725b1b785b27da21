"""Questions to be answered: tables, JSON lines, SQuAD files and stdin, and every kind of bad row."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from regard.data.squad import Question, read_qa_inputs
from regard.utils.errors import DataError

STDIN = Path("<stdin>")
WHO = Question("1", "Who sleeps?", "The cat sleeps.", ())
SQUAD = {"data": [{"paragraphs": [{"context": "The cat sleeps.", "qas": [{"id": 7, "question": "Who sleeps?"}]}]}]}


@pytest.mark.parametrize(
    ("name", "text", "id_"),
    [
        ("a.tsv", "Who sleeps?\tThe cat sleeps.\n", "1"),
        ("a.txt", "Question\tContext\nWho sleeps?\tThe cat sleeps.\n", "2"),
        ("a.csv", 'context,id,question\n"The cat sleeps.",x,Who sleeps?\n', "x"),
        ("a.jsonl", '{"question": "Who sleeps?", "passage": "The cat sleeps.", "id": 5}\n', "5"),
        ("a.jsonl", '{"Query": "Who sleeps?", "text": "The cat sleeps."}\n', "1"),
        ("a.json", json.dumps(SQUAD), "7"),
    ],
)
def test_all_formats(name: str, text: str, id_: str, tmp_path: Path) -> None:
    wanted = [Question(id_, WHO.question, WHO.passage, ())]
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + text.encode())
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
    assert read_qa_inputs(tmp_path / name).examples == wanted
    assert read_qa_inputs(tmp_path / f"{name}.gz").examples == wanted
    if not name.endswith(".csv"):
        assert read_qa_inputs(STDIN, text.encode()).examples == wanted


def test_the_id_defaults_to_the_line(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,question,passage\n,Who?,A cat.\n ,What?,A dog.\n", encoding="utf-8")
    assert [question.id for question in read_qa_inputs(tmp_path / "a.csv").examples] == ["2", "3"]
    lines = b'{"id": null, "question": "Who?", "passage": "A cat."}\n{"question": "What?", "passage": "A dog."}\n'
    assert [question.id for question in read_qa_inputs(STDIN, lines).examples] == ["1", "2"]


def test_bad_rows_of_tables(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes("Où?\tUn café.\n".encode("latin-1"))
    with pytest.raises(DataError) as caught:
        read_qa_inputs(tmp_path / "a.tsv")
    assert caught.value.line == 1
    (tmp_path / "b.csv").write_text("question,passage,id\nWho?,A cat.\n", encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_qa_inputs(tmp_path / "b.csv")
    assert caught.value.line == 2


def test_quotes_commas_and_line_breaks_in_cells(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('question,passage\n"Who, then?","A ""cat""\nsleeps."\n', encoding="utf-8")
    assert read_qa_inputs(path).examples == [Question("2", "Who, then?", 'A "cat"\nsleeps.', ())]


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("a.tsv", "Who?\tA cat.\nWho?\n", 2),
        ("a.tsv", "Who?\tA cat.\nWho?\tA\tcat.\n", 2),
        ("a.tsv", "Who?\tA cat.\n \tA cat.\n", 2),
        ("a.tsv", "question\tpassage\nWho?\t \nWho?\tA cat.\n", 2),
        ("a.tsv", "id\tquestion\tpassage\n1\tWho?\tA cat.\n1\tWhat?\tA dog.\n", 3),
        ("a.jsonl", '{"question": "Who?"}\n', None),
        ("a.jsonl", '{"question": "Who?", "passage": "A cat."}\n{"question": "Who?"}\n', 2),
        ("a.jsonl", '{"question": "Who?", "passage": 3}\n', 1),
        ("a.jsonl", '{"question": "Who?"\n', 1),
        ("a.csv", "question,passage,question\na,b,c\n", None),
        ("a.csv", "who,what,where\na,b,c\n", None),
        ("a.csv", "", None),
        ("a.json", "[]", None),
        ("a.json", '{"data": [{"paragraphs": [{"context": "A cat.", "qas": [{"id": 1}]}]}]}', 1),
    ],
)
def test_invalid_rows_and_files(name: str, text: str, line: int | None, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_qa_inputs(tmp_path / name)
    assert (caught.value.path, caught.value.line) == (tmp_path / name, line)


@pytest.mark.parametrize(("name", "mark"), [("a.tsv", "\t"), ("a.csv", ",")])
def test_a_blank_line_above_the_header(name: str, mark: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(f"\nquestion{mark}passage\nWho?{mark}A cat.\n", encoding="utf-8")
    assert read_qa_inputs(path).examples == [Question("3", "Who?", "A cat.", ())]


def test_an_undecodable_first_line(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(b"\xff\nquestion\tpassage\nWho?\tA cat.\n")
    reading = read_qa_inputs(path, skip_bad_rows=True)
    assert ([row.line for row in reading.bad], len(reading.examples)) == ([1], 1)


@pytest.mark.parametrize(
    "text",
    [
        "Who sleeps?\tThe cat sleeps.\nWho?\n",
        '{"question": 3}\n{"question": "Who sleeps?", "passage": "The cat sleeps."}\n',
        json.dumps(SQUAD).replace("}]}]}]}", '}, {"id": 8}]}]}]}'),
    ],
    ids=["tabs", "records", "squad"],
)
def test_bad_rows_of_stdin(text: str) -> None:
    with pytest.raises(DataError) as caught:
        read_qa_inputs(STDIN, text.encode())
    assert len(caught.value.value) == 1
    reading = read_qa_inputs(STDIN, text.encode(), skip_bad_rows=True)
    assert [question.question for question in reading.examples] == ["Who sleeps?"]
    assert len(reading.bad) == 1


def test_an_id_with_half_of_a_character(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": "\\ud83d", "question": "Who?", "passage": "A cat."}\n', encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_qa_inputs(tmp_path / "a.jsonl")
    assert caught.value.line == 1


def test_bad_rows_can_be_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(b"Who?\tA cat.\nWho\xff?\tA cat.\nWhat?\tA dog.\n")
    reading = read_qa_inputs(tmp_path / "a.tsv", skip_bad_rows=True)
    assert [question.question for question in reading.examples] == ["Who?", "What?"]
    assert [row.line for row in reading.bad] == [2]
