"""Training on questions: settings, the validation split, the number of steps, and resuming."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.data.squad import Question
from regard.nn.state_dict import unique_tensors
from regard.tasks.answer.predictor import QuestionAnswerer
from regard.tasks.answer.spec import AnswerTraining
from regard.tasks.encoder.config import RowReading
from regard.tasks.readers import AnswerReader
from regard.utils.errors import DataError, UsageError

SHAPE: dict[str, Any] = dict(size="tiny", num_layers=1, d_model=16, num_heads=2, head_dim=8, d_ff=16, vocab_size=100)


def asked(passages: int, each: int) -> list[Question]:
    return [
        Question(f"{p}-{q}", "Who?", f"Cat {p} sleeps.", ((0, "Cat"),)) for p in range(passages) for q in range(each)
    ]


def hold_out(questions: list[Question], fraction: float) -> tuple[list[Question], list[Question]]:
    return AnswerReader(AnswerTraining(val_fraction=fraction)).hold_out(questions)


def test_whole_passages_are_held_out() -> None:
    everything = asked(20, 3)
    train, validation = hold_out(everything, 0.1)
    assert (len(train), len(validation)) == (54, 6)
    assert sorted(one.id for one in (*train, *validation)) == sorted(one.id for one in everything)
    assert not {one.passage for one in train} & {one.passage for one in validation}
    train, validation = hold_out(asked(1, 10), 0.1)
    assert (len(train), len(validation)) == (9, 1), "questions about a single passage are split"
    assert len({one.passage for one in hold_out(asked(1000, 1), 0.9)[1]}) == 400
    with pytest.raises(DataError):
        hold_out(asked(1, 1), 0.1)


def squad(path: Path, questions: list[Question]) -> Path:
    paragraphs = [
        {"context": one.passage, "qas": [{"id": one.id, "question": one.question,
         "answers": [{"text": text, "answer_start": start} for start, text in one.answers]}]}
        for one in questions
    ]  # fmt: skip
    path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}), encoding="utf-8")
    return path


def train(data: Path, out: Path, **settings: Any) -> QuestionAnswerer:
    return regard.train("answer", data, out=out, **{**SHAPE, "max_seq_len": 16, "stride": 4, **settings})


def test_an_epoch_has_as_many_examples_as_there_are_windows(tmp_path: Path) -> None:
    long = [Question(str(n), "Who?", "cat dog " * 20 + str(n), ((0, "cat"),)) for n in range(4)]
    train(squad(tmp_path / "a.json", long), tmp_path / "m", batch_size=1, epochs=1)
    config = json.loads((tmp_path / "m" / "config.json").read_text(encoding="utf-8"))
    (windows,) = {len(found.windows) for found in _encoded(tmp_path / "m", long[:1])}
    assert windows > 2
    assert config["training"]["steps"] == 3 * windows, "one of four passages is held out"


def _encoded(folder: Path, questions: list[Question]) -> Any:
    model = regard.load(folder, task="answer")
    return model.encode([(one.question, one.passage) for one in questions], stride=model.config.stride)


def test_resumed_is_uninterrupted(tmp_path: Path) -> None:
    data = squad(tmp_path / "a.json", asked(6, 2))
    fixed = {"batch_size": 4, "num_evals": 1, "schedule": "constant", "warmup_steps": 1}
    whole = train(data, tmp_path / "whole", steps=4, **fixed)
    train(data, tmp_path / "parts", steps=2, **fixed)
    again = train(data, tmp_path / "parts", steps=4, resume=True, **fixed)
    for name, tensor in unique_tensors(whole.model).items():
        assert tensor.equal(unique_tensors(again.model)[name]), name
    with pytest.raises(UsageError) as error:
        train(data, tmp_path / "parts", steps=6, resume=True, **{**fixed, "stride": 2, "max_seq_len": 5})
    assert error.value.argument in ("examples", "max_seq_len")


def test_settings(tmp_path: Path) -> None:
    data = squad(tmp_path / "a.json", asked(6, 2))
    found = train(data, tmp_path / "m", steps=1, max_answer_tokens=7, n_best=3, no_answer_threshold=2.5, stride=6)
    assert (found.config.stride, found.config.max_answer_tokens, found.config.n_best) == (6, 7, 3)
    assert (found.config.no_answer_threshold, found.max_seq_len) == (2.5, 16)
    assert len(found("Who?", "Cat 1 sleeps.").best) == 3
    scores = {one.name: one.value for one in regard.evaluate(found, data)}
    assert list(scores) == ["exact match", "F1", "exact match of the first sentence", "F1 of the first sentence"]
    tuned = regard.train("answer", data, out=tmp_path / "n", from_=tmp_path / "m", steps=1)
    assert (tuned.max_seq_len, tuned.config.stride) == (16, 128), "the default stride may exceed the context"
    for wrong, argument in (
        ({"stride": 16}, "stride"),
        ({"strid": 3}, "setting"),
        ({"class_weights": "balanced"}, "setting"),
    ):
        with pytest.raises(UsageError) as error:
            train(data, tmp_path / "w", steps=1, **wrong)
        assert error.value.argument == argument
    assert not (tmp_path / "w").exists()


def test_questions_to_answer_keep_their_ids(tmp_path: Path) -> None:
    reader = AnswerReader(RowReading(skip_bad_rows=True))
    (tmp_path / "a.csv").write_text("id,question,passage\nx,Who?,A cat.\ny,,A dog.\n", encoding="utf-8")
    assert reader.read_inputs(tmp_path / "a.csv") == [("Who?", "A cat.", "x")]
    assert len(reader.notes) == 2, "the row that was skipped"
    assert reader.read_inputs(Path("<stdin>"), b"Who?\tA cat.\n") == [("Who?", "A cat.", "1")]
