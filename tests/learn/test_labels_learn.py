"""M204 and M205: spam in text messages and what opinions are like, learned in seconds from a table with labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import regard
from regard.data.labelled import read_labelled
from regard.data.synthetic.labelled import opinions
from regard.metrics.labels import f1


def test_m204_spam_is_found_among_messages(real_data: Path, tmp_path: Path) -> None:
    """A quarter of the collection, in the steps that so few messages are given; those that are judged come after it."""
    messages = read_labelled(real_data / "sms_spam" / "SMSSpamCollection").examples
    table = tmp_path / "messages.csv"
    lines = ('"{}","{}"'.format(one.text.replace('"', '""'), one.labels[0]) for one in messages[:1500])
    table.write_text("\n".join(['"text","label"', *lines]), encoding="utf-8")
    model: Any = regard.train("classify", table, out=tmp_path / "run")
    validation = messages[1500:2100]
    said = [one.label for one in model([one.text for one in validation])]
    gold = [one.labels[0] for one in validation]
    assert f1(said, gold, average="binary", positive="spam").value > 75, "always ham has 0"


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return regard.train("classify", out=tmp_path_factory.mktemp("opinions") / "run", steps=150)


def test_m205_opinions_are_told_apart(judge: Any) -> None:
    validation = opinions("test")
    right = [
        one.label == gold.labels[0]
        for one, gold in zip(judge([one.text for one in validation]), validation, strict=True)
    ]
    assert sum(right) / len(right) > 0.8


def test_m205_what_it_looked_at_can_be_seen(judge: Any) -> None:
    text = opinions("test")[0].text
    trace = judge.trace(text)
    weights = trace["encoder.0.self"].weights()
    assert weights.shape[-1] == len(trace.tokens["encoder"][0])
