"""From questions to a model that answers: settings, what is held out, how many steps, and going on after a stop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.checkpoint.folder import own_tensors
from regard.data.squad import Question
from regard.errors import DataError, UsageError
from regard.tasks.answer import Answerer
from regard.training.answering import held_out

SHAPE: dict[str, Any] = dict(size="tiny", layers=1, width=16, heads=2, head_width=8, hidden=16, pieces=100)


def asked(passages: int, each: int) -> list[Question]:
    return [
        Question(f"{p}-{q}", "Who?", f"Cat {p} sleeps.", ((0, "Cat"),)) for p in range(passages) for q in range(each)
    ]


def test_questions_about_held_out_passages_are_held_out() -> None:
    everything = asked(20, 3)
    train, held = held_out(everything, share=0.1)
    assert (len(train), len(held)) == (54, 6)
    assert sorted(one.id for one in (*train, *held)) == sorted(one.id for one in everything)
    assert not {one.passage for one in train} & {one.passage for one in held}
    train, held = held_out(asked(1, 10), share=0.1)
    assert (len(train), len(held)) == (9, 1), "about one passage alone, questions are parted"
    assert len({one.passage for one in held_out(asked(1000, 1), share=0.9)[1]}) == 400
    with pytest.raises(DataError, match="cannot be split"):
        held_out(asked(1, 1), share=0.1)


def squad(path: Path, questions: list[Question]) -> Path:
    paragraphs = [
        {"context": one.passage, "qas": [{"id": one.id, "question": one.question,
         "answers": [{"text": text, "answer_start": start} for start, text in one.answers]}]}
        for one in questions
    ]  # fmt: skip
    path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}), encoding="utf-8")
    return path


def train(data: Path, out: Path, **settings: Any) -> Answerer:
    found = regard.train("answer", data, out=out, **{**SHAPE, "max_tokens": 16, "stride": 4, **settings})
    assert isinstance(found, Answerer)
    return found


def test_an_epoch_has_as_many_rows_as_there_are_windows(tmp_path: Path) -> None:
    long = [Question(str(n), "Who?", "cat dog " * 20 + str(n), ((0, "cat"),)) for n in range(4)]
    train(squad(tmp_path / "a.json", long), tmp_path / "m", batch_rows=1, epochs=1)
    config = json.loads((tmp_path / "m" / "config.json").read_text(encoding="utf-8"))
    (windows,) = {len(found.windows) for found in _readings(tmp_path / "m", long[:1])}
    assert windows > 2
    assert config["training"]["steps"] == 3 * windows, "one of four passages is held out"


def _readings(folder: Path, questions: list[Question]) -> Any:
    model = regard.load(folder)
    assert isinstance(model, Answerer)
    return model.readings([(one.question, one.passage) for one in questions], stride=model.config.stride)


def test_resumed_is_uninterrupted(tmp_path: Path) -> None:
    data = squad(tmp_path / "a.json", asked(6, 2))
    fixed = {"batch_rows": 4, "validations": 1, "schedule": "constant", "warmup_steps": 1}
    whole = train(data, tmp_path / "whole", steps=4, **fixed)
    train(data, tmp_path / "parts", steps=2, **fixed)
    again = train(data, tmp_path / "parts", steps=4, resume=True, **fixed)
    for name, tensor in own_tensors(whole.model).items():
        assert tensor.equal(own_tensors(again.model)[name]), name
    with pytest.raises(UsageError, match="examples was"):
        train(data, tmp_path / "parts", steps=6, resume=True, **{**fixed, "stride": 2, "max_tokens": 5})


def test_settings(tmp_path: Path) -> None:
    data = squad(tmp_path / "a.json", asked(6, 2))
    found = train(data, tmp_path / "m", steps=1, max_answer_tokens=7, n_best=3, threshold=2.5, stride=6)
    assert (found.config.stride, found.config.max_answer_tokens, found.config.n_best) == (6, 7, 3)
    assert (found.config.threshold, found.max_tokens) == (2.5, 16)
    assert len(found("Who?", "Cat 1 sleeps.").best) == 3
    scores = {one.name: one.value for one in regard.evaluate(found, data)}
    assert list(scores) == ["exact match", "F1", "exact match of the first sentence", "F1 of the first sentence"]
    begun = regard.train("answer", data, out=tmp_path / "n", from_=tmp_path / "m", steps=1)
    assert isinstance(begun, Answerer)
    assert (begun.max_tokens, begun.config.stride) == (16, 128), "a context below the usual stride is nobody's mistake"
    for wrong, message in (
        ({"stride": 16}, "must be less than --max-tokens 16"),
        ({"strid": 3}, "Did you mean 'stride'"),
        ({"class_weights": "balanced"}, "not for answers"),
    ):
        with pytest.raises(UsageError, match=message):
            train(data, tmp_path / "w", steps=1, **wrong)
    assert not (tmp_path / "w").exists()
