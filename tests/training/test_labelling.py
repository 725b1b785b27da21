"""What classifiers and taggers are trained and scored on: fair splits, labels that fit, separators that are found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regard.data.files import Reading
from regard.data.labelled import Labelled
from regard.errors import DataError
from regard.models.bert_settings import BertConfig, HeadConfig
from regard.tasks.classify import Classifier, make_classifier_model
from regard.tasks.settings import LabelConfig
from regard.text.training import train_tokenizer
from regard.training import labelling, tagging
from regard.training.encoders import SYMBOLS
from regard.training.labelling import LabelFiles, known_only, score_file, train_labels
from regard.training.tagging import TagFiles

SHARE = LabelConfig(validation_share=0.4)


def _table(path: Path, rows: list[tuple[str, str]]) -> Path:
    path.write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows), encoding="utf-8")
    return path


def test_equal_texts_are_not_on_both_sides(tmp_path: Path) -> None:
    rows = [(f"message {number % 10}", "spam" if number % 10 < 5 else "ham") for number in range(40)]
    found = labelling._read("classify", LabelFiles(data=_table(tmp_path / "a.tsv", rows)), SHARE)
    train, held = map(set, found.texts)
    assert train and held and not train & held
    assert sum(map(len, found.texts)) == 40
    assert f"validation: {len(found.texts[1])} examples held out of the training file" in found.remarks[-1]


def test_the_only_example_of_a_label_is_learned(tmp_path: Path) -> None:
    rows = [(f"text {number}", "common") for number in range(6)] + [("rare text", "rare"), ("another", "seldom")]
    found = labelling._read("classify", LabelFiles(data=_table(tmp_path / "a.tsv", rows)), SHARE)
    assert {label for labels in found.gold[0] for label in labels} == {"common", "rare", "seldom"}  # type: ignore[union-attr]
    assert found.texts[1]


def test_nothing_can_be_held_out(tmp_path: Path) -> None:
    path = _table(tmp_path / "a.tsv", [("one", "a"), ("two", "b")])
    with pytest.raises(DataError, match="each is the only one with some label"):
        train_labels("classify", LabelFiles(data=path), tmp_path / "m")


def test_texts_of_training_in_a_validation_file_are_counted(tmp_path: Path) -> None:
    train = _table(tmp_path / "train.tsv", [("one", "a"), ("two", "b"), ("three", "a")])
    held = _table(tmp_path / "held.tsv", [("one", "b"), ("four", "a"), ("two", "b")])
    found = labelling._read("classify", LabelFiles(data=train, validation=held), SHARE)
    assert found.remarks[-1] == ("validation: 2 of 3 texts are in the training file, too, and may be known by heart")
    other = _table(tmp_path / "other.tsv", [("five", "b"), ("four", "a")])
    found = labelling._read("classify", LabelFiles(data=train, validation=other), SHARE)
    assert not any("known by heart" in remark for remark in found.remarks)


def test_equal_sentences_and_lone_tags(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("".join(f"word{n % 6} O\nis B-x\n\n" for n in range(24)) + "Oslo B-loc\n\n", encoding="utf-8")
    found = tagging._read(TagFiles(data=path), SHARE)
    sides = [{one.words for one in side} for side in (found.train, found.validation)]
    assert sides[0] and sides[1] and not sides[0] & sides[1]
    assert ("Oslo",) in sides[0]
    found = tagging._read(TagFiles(data=path, validation=path), SHARE)
    assert found.remarks[-1].startswith("validation: 25 of 25 texts are in the training file, too")


@pytest.mark.parametrize("labels", [[], ["good", "bad"]], ids=["none", "two"])
def test_a_validation_file_of_a_model_with_one_label(labels: list[str], tmp_path: Path) -> None:
    train = _table(tmp_path / "train.tsv", [("one", "good"), ("two", "bad")])
    held = tmp_path / "held.jsonl"
    held.write_text(json.dumps({"text": "a", "label": "good"}) + "\n" + json.dumps({"text": "b", "label": labels}))
    with pytest.raises(DataError, match=r"held\.jsonl:2: (no|2) labels where one is expected"):
        train_labels("classify", LabelFiles(data=train, validation=held), tmp_path / "m")
    several = HeadConfig(kind="sequence", labels=("bad", "good"), answers="several")
    reading = Reading(examples=[Labelled("b", tuple(labels))], lines=[2])
    assert known_only(reading, held, several, skip_bad_rows=False).examples == reading.examples


@pytest.mark.parametrize("mark", [",", ";", "|", "/", " "])
def test_the_separator_of_labels_is_found(mark: str, tmp_path: Path) -> None:
    head = HeadConfig(kind="sequence", labels=("long", "sad"), answers="several")
    tokenizer = train_tokenizer(["a b c"] * 3, kind="wordpiece", vocab_size=30, symbols=SYMBOLS, lowercase=True)
    shape = BertConfig(vocab_size=tokenizer.vocab_size, layers=1, width=8, hidden=8, heads=1, head_width=8, context=8)
    model = Classifier(make_classifier_model(shape, head, seed=0), tokenizer, head=head)
    path = _table(tmp_path / "a.tsv", [("a b", f"sad{mark}long"), ("b", "sad"), ("c", "")])
    scores, _ = score_file(model, LabelFiles(data=path))
    assert "n:3" in scores[0].signature
    with pytest.raises(DataError, match="was not in training"):
        score_file(model, LabelFiles(data=path, separator="+"))
    long = _table(tmp_path / "b.tsv", [("a b", mark.join(["sad", "long"] * 20))])  # as one label it would be too long
    assert "n:1" in score_file(model, LabelFiles(data=long))[0][0].signature
    with pytest.raises(DataError, match=r"c\.tsv:2: the text is empty"):
        score_file(model, LabelFiles(data=_table(tmp_path / "c.tsv", [("", "sad")])))
