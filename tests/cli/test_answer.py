"""`regard train answer`, `regard answer` and `regard evaluate` on a command line."""

from __future__ import annotations

import csv
import functools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import regard as library
from regard.data.squad import Question
from regard.tasks.answer import reader

Run = Callable[..., Any]
SHAPE = ["--size", "tiny", "--d-model", 32, "--num-heads", 2, "--head-dim", 16, "--d-ff", 48, "--num-layers", 2]
QUICK = ["--max-seq-len", 32, "--vocab-size", 200, "--batch-size", 16, "--learning-rate", 0.01, "--dropout", 0]
VERBS = ("sees", "likes", "knows", "leaves")
NAMES = ("Anna", "Tom", "Paul", "Lea")
PASSAGE = "Anna sees Tom. Paul likes Lea."


def squad(path: Path, questions: list[Question]) -> Path:
    """Write questions to a SQuAD file, each with its own paragraph."""
    paragraphs = [
        {
            "context": one.passage,
            "qas": [
                {
                    "id": one.id,
                    "question": one.question,
                    "answers": [{"answer_start": start, "text": text} for start, text in one.answers],
                    "is_impossible": one.impossible,
                }
            ],
        }
        for one in questions
    ]
    path.write_text(json.dumps({"version": "2", "data": [{"title": "t", "paragraphs": paragraphs}]}), encoding="utf-8")
    return path


def make(count: int, *, impossible: bool) -> list[Question]:
    """Questions whose answer is the subject of the sentence with the verb of the question."""
    found = []
    for number in range(count):
        names = [NAMES[(number * step + number // 4) % 4] for step in (1, 3, 2, 5)]
        verbs = (VERBS[number % 4], VERBS[(number + 1 + number // 4 % 3) % 4])
        passage = f"{names[0]} {verbs[0]} {names[1]}. {names[2]} {verbs[1]} {names[3]}."
        start = 0 if number % 2 else passage.index(".") + 2
        asked = verbs[0] if number % 2 else verbs[1]
        answer = passage[start:].split()[0]
        if impossible and number % 5 == 0:
            asked = next(verb for verb in VERBS if verb not in verbs)
            found.append(Question(str(number), f"Who {asked}?", passage, (), impossible=True))
        else:
            found.append(Question(str(number), f"Who {asked}?", passage, ((start, answer),)))
    return found


@pytest.fixture(scope="module")
def place(regard: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data of both versions and a model that answers."""
    place = tmp_path_factory.mktemp("answers")
    squad(place / "train.json", make(60, impossible=False))
    squad(place / "v2.json", make(60, impossible=True))
    flags = ["--out", place / "model", *SHAPE, *QUICK, "--epochs", 15, "--json"]
    done = regard("train", "answer", place / "train.json", *flags)
    assert done.code == 0, done.err
    names = [score["name"] for score in json.loads(done.out)["scores"]]
    assert names[:2] == ["exact match", "F1"]
    assert any(name.startswith("F1 of ") for name in names), "a baseline"
    return place


def test_texts_files_and_formats(regard: Run, place: Path, tmp_path: Path) -> None:
    done = regard("answer", place / "model", "Who sees?", PASSAGE)
    assert done.code == 0, done.err
    answer = done.out.strip()
    assert answer and answer in PASSAGE
    assert regard("answer", place / "model", "Who sees?", stdin=PASSAGE.encode()).out == done.out
    assert regard("answer", place / "model", stdin=f"Who sees?\t{PASSAGE}\n".encode()).out == done.out
    (tmp_path / "passage.txt").write_text(PASSAGE, encoding="utf-8")
    assert regard("answer", place / "model", "Who sees?", tmp_path / "passage.txt").out == done.out
    (tmp_path / "rows.csv").write_text(f"question,passage\nWho sees?,{PASSAGE}\n", encoding="utf-8")
    assert regard("answer", place / "model", tmp_path / "rows.csv").out == done.out
    record = json.loads(regard("answer", place / "model", "Who sees?", PASSAGE, "--json", "--n-best", 3).out)
    assert record["text"] == PASSAGE[record["start"] : record["end"]] == answer
    assert len(record["best"]) == 3
    assert record["best"][0]["score"] == record["score"] >= record["best"][1]["score"]
    for suffix in (".jsonl", ".csv", ".json", ".txt"):
        done = regard("answer", place / "model", place / "v2.json", "--out", tmp_path / f"a{suffix}")
        assert done.code == 0, done.err
    predictions = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert list(predictions) == [str(number) for number in range(60)]
    lines = (tmp_path / "a.txt").read_text(encoding="utf-8").splitlines()
    table = list(csv.DictReader((tmp_path / "a.csv").read_text(encoding="utf-8").splitlines()))
    records = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines()]
    assert lines == [row["text"] for row in table] == [row["text"] for row in records] == list(predictions.values())


def test_bad_rows_of_stdin_can_be_skipped(regard: Run, place: Path) -> None:
    stream = f"Who sees?\t{PASSAGE}\nWho?\n".encode()
    done = regard("answer", place / "model", stdin=stream)
    assert (done.code, "<stdin>:2" in done.err) == (1, True), done.err
    done = regard("answer", place / "model", "--skip-bad-rows", stdin=stream)
    assert (done.code, done.out.count("\n"), "<stdin>:2" in done.err) == (0, 1, True), done.err


def test_the_help_names_the_options_of_this_task(regard: Run) -> None:
    done = regard("train", "answer", "--help").out
    assert "384" in done, "its own default of --max-seq-len"
    assert "--no-answer-threshold" in done
    assert "--class-weights" not in done


def test_the_no_answer_threshold(regard: Run, place: Path) -> None:
    asked = ["answer", place / "model", "Who sees?", PASSAGE]
    assert regard(*asked, "--no-answer-threshold=-1000000").out == "\n"
    assert regard(*asked, "--no-answer-threshold", 1000000).out == regard(*asked).out


def test_evaluating(regard: Run, place: Path, tmp_path: Path) -> None:
    done = regard("evaluate", place / "model", place / "train.json")
    assert done.code == 0, done.err
    assert done.out.startswith("exact match ")
    scores = {
        one["name"]: one["value"]
        for one in json.loads(regard("evaluate", place / "model", place / "train.json", "--json").out)
    }
    assert scores["F1"] > scores["F1 of the first sentence"]
    done = regard("evaluate", place / "model", place / "v2.json")
    for name in ("F1, questions with an answer", "F1, questions without one", "best F1", "F1 of never answering 20.00"):
        assert name in done.out
    (tmp_path / "test.tsv").write_text("Who?\tA cat.\n", encoding="utf-8")
    assert regard("evaluate", place / "model", tmp_path / "test.tsv").code == 1, "not JSON"


def test_looking_at_both_texts(regard: Run, place: Path, tmp_path: Path) -> None:
    page = tmp_path / "look.html"
    done = regard("look", place / "model", "Who sees?", PASSAGE, "--view", "attention", "--out", page)
    assert done.code == 0, done.err
    assert "encoder.1.self" in page.read_text(encoding="utf-8")
    asked = ["look", place / "model", "Who sees?", PASSAGE, "--json"]
    numbers = json.loads(regard(*asked, "--view", "attention").out)
    assert numbers["input"] == ["Who sees?", PASSAGE]
    assert numbers["attention"][0]["rows"].count("[SEP]") == 2
    numbers = json.loads(regard(*asked).out)
    assert PASSAGE[numbers["candidates"][0]["start"] :].startswith(numbers["candidates"][0]["text"])
    for view in ("answer", "attention"):
        assert regard("look", place / "model", PASSAGE, "--view", view, "--json").code == 2, "one text"


def test_no_answers_are_learned_from_an_encoder(regard: Run, place: Path, tmp_path: Path) -> None:
    flags = ["--from", place / "model", "--epochs", 2, "--stride", 2, "--validation", place / "v2.json"]
    done = regard("train", "answer", place / "v2.json", "--out", tmp_path / "m", *flags, "--max-seq-len", 10)
    assert done.code == 0, done.err
    found = library.load(tmp_path / "m")
    assert repr(found).startswith("QuestionAnswerer(")
    assert found.config.no_answer_threshold is not None
    assert (found.config.stride, found.max_seq_len) == (2, 10)


def test_mistakes(regard: Run, place: Path, tmp_path: Path) -> None:
    model = place / "model"
    train = ["train", "answer", place / "train.json", "--out", tmp_path / "m"]
    wrong = squad(
        tmp_path / "wrong.json", [Question("a", "Who?", "A cat.", ((0, "A dog"),)), *make(3, impossible=False)]
    )
    (tmp_path / "list.json").write_text("[1, 2]", encoding="utf-8")
    mistakes: list[tuple[list[Any], int]] = [
        ([*train, "--stride", 384], 2),
        ([*train, "--max-seq-len", 3], 2),
        ([*train, "--stride", "-1"], 2),
        ([*train, "--max-answer-tokens", 0], 2),
        ([*train, "--class-weights", "balanced"], 2),
        (["train", "answer", wrong, "--out", tmp_path / "m"], 1),
        (["train", "answer", tmp_path / "list.json", "--out", tmp_path / "m"], 1),
        (["train", "answer", tmp_path / "no.json", "--out", tmp_path / "m"], 2),
        (["train", "answer", wrong, wrong, "--out", tmp_path / "m"], 2),
        (["train", "answer", "--validation", wrong, "--out", tmp_path / "m"], 2),
        (["answer", model, "Who?", " "], 2),
        (["answer", model, "", PASSAGE], 2),
        (["answer", model, "Who?", "a", "b"], 2),
        (["answer", model, "no.json"], 2),
        (["answer", model, "Who?", PASSAGE, "--out", tmp_path / "a.pdf"], 2),
        (["answer", model, "Who?", PASSAGE, "--n-best", 0], 2),
        (["answer", tmp_path / "list.json", "Who?", PASSAGE], 2),
        (["tag", model, "Who?"], 2),
    ]
    for arguments, code in mistakes:
        done = regard(*arguments)
        assert (done.code, done.out) == (code, ""), (arguments, done)
    assert not (tmp_path / "m").exists()


def test_a_passage_of_a_hundred_thousand_words(regard: Run, place: Path, tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("Anna sees Tom. " * 33_334, encoding="utf-8")
    done = regard("answer", place / "model", "Who sees?", tmp_path / "long.txt", "--stride", 2)
    assert done.code == 0, done.err
    assert done.out.strip()


def test_without_a_file_the_built_in_dataset_is_used(
    regard: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "questions", functools.partial(reader.questions, count=20))  # of thousands
    done = regard("train", "answer", "--out", tmp_path / "m", *SHAPE, "--max-seq-len", 48, "--steps", 2)
    assert done.code == 0, done.err
    assert "built-in" in (tmp_path / "m" / "README.md").read_text(encoding="utf-8")


def test_m160_a_page_shows_the_answer_in_its_passage(regard: Run, place: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = regard("answer", place / "model", "Who sees?", PASSAGE, "--out", page, "--no-answer-threshold", 1000)
    assert done.code == 0, done.err
    data = json.loads(
        re.findall(r'<script type="application/json" id="data">(.*?)</script>', page.read_text("utf-8"))[0]
    )
    model = library.load(place / "model", task="answer")
    answer = model("Who sees?", PASSAGE, no_answer_threshold=1000)
    start, end, probability = data["candidates"][0]
    assert (PASSAGE[start:end], round(answer.score, 5)) == (answer.text, probability)
    assert "".join(PASSAGE[a:b] for a, b, *_ in data["marks"]) == PASSAGE.replace(" ", "")
    for side in (2, 3):  # together with "no answer" they sum to 1
        assert 0 < sum(mark[side] for mark in data["marks"]) <= 1.001
    begins = max(data["marks"], key=lambda mark: mark[2])
    assert begins[2] == max(mark[2] for mark in data["marks"]) > 0
    best = model("Who sees?", PASSAGE, n_best=1000).best
    shares = {one.start: 0.0 for one in best}
    for one in best:
        shares[one.start] += one.score
    assert begins[0] == max(shares, key=lambda start: shares[start])
    done = regard("answer", place / "model", place / "train.json", "--out", tmp_path / "all.html")
    assert done.code == 2, "one question at a time"
