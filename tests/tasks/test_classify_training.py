"""What classifiers are trained and scored on: validation splits, known labels, separators; budget and fine-tuning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.models.bert.config import BertConfig
from regard.models.bert.model import Bert
from regard.models.heads import HeadConfig
from regard.nn.init import seeded_init
from regard.registry import architectures, tasks
from regard.tasks.base import LabelledExample, Splits
from regard.tasks.classify.predictor import Classifier
from regard.tasks.classify.reader import ClassifyReader
from regard.tasks.classify.spec import ClassifyReading, ClassifyTraining
from regard.tasks.embed.predictor import Embedder
from regard.tasks.encoder.config import new_model_epochs
from regard.tasks.encoder.objective import SPECIAL_TOKENS, init_encoder
from regard.tasks.pair.reader import PairReader
from regard.tasks.pair.spec import PairTraining
from regard.tokenizers.training import train_tokenizer
from regard.training.run import TrainRequest
from regard.utils.errors import DataError, UsageError

HEAD = HeadConfig(kind="sequence_classification", labels=("bad", "good"))
SEVERAL = HeadConfig(kind="sequence_classification", labels=("long", "sad"), problem_type="multi_label_classification")
SHAPE = dict(num_layers=1, d_model=8, d_ff=8, num_heads=2, head_dim=4, context_length=16)


def table(path: Path, rows: list[tuple[str, str]]) -> Path:
    path.write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows), encoding="utf-8")
    return path


def read(train: Path, validation: Path | None = None) -> Splits[LabelledExample]:
    reader = ClassifyReader(ClassifyTraining(val_fraction=0.4))
    return reader.read([train], None if validation is None else [validation])


def texts_of(splits: Splits[LabelledExample]) -> tuple[list[Any], list[Any]]:
    return [example.text for example in splits.train], [example.text for example in splits.validation]


# --- Splits -------------------------------------------------------------------------------------------------


def test_equal_texts_are_in_one_split(tmp_path: Path) -> None:
    rows = [(f"message {number % 10}", "spam" if number % 10 < 5 else "ham") for number in range(40)]
    splits = read(table(tmp_path / "a.tsv", rows))
    train, validation = texts_of(splits)
    assert train and validation and not set(train) & set(validation)
    assert len(train) + len(validation) == 40
    assert f"validation: {len(validation)} examples" in splits.notes[-1]
    assert splits.head == HeadConfig(kind="sequence_classification", labels=("ham", "spam"))


def test_the_only_example_of_a_label_is_for_training(tmp_path: Path) -> None:
    rows = [(f"text {number}", "common") for number in range(6)] + [("rare text", "rare"), ("another", "seldom")]
    splits = read(table(tmp_path / "a.tsv", rows))
    assert {label for example in splits.train for label in example.gold} == {"common", "rare", "seldom"}  # type: ignore[union-attr]
    assert splits.validation


def test_too_few_examples_for_a_validation_split(tmp_path: Path) -> None:
    path = table(tmp_path / "a.tsv", [("one", "a"), ("two", "b")])
    with pytest.raises(DataError):
        regard.train("classify", path, out=tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_training_texts_in_a_validation_file_are_counted(tmp_path: Path) -> None:
    train = table(tmp_path / "train.tsv", [("one", "a"), ("two", "b"), ("three", "a")])
    validation = table(tmp_path / "validation.tsv", [("one", "b"), ("four", "a"), ("two", "b")])
    assert read(train, validation).notes[-1].startswith("validation: 2 of 3 texts")
    other = table(tmp_path / "other.tsv", [("five", "b"), ("four", "a")])
    assert not any(note.startswith("validation:") for note in read(train, other).notes)


@pytest.mark.parametrize("labels", [[], ["good", "bad"]], ids=["none", "two"])
def test_a_validation_file_of_a_model_with_one_label(labels: list[str], tmp_path: Path) -> None:
    train = table(tmp_path / "train.tsv", [("one", "good"), ("two", "bad")])
    validation = tmp_path / "validation.jsonl"
    records = [{"text": "a", "label": "good"}, {"text": "b", "label": labels}]
    validation.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    with pytest.raises(DataError) as error:
        regard.train("classify", train, validation=validation, out=tmp_path / "m")
    assert (error.value.path, error.value.line) == (validation, 2)
    several = HeadConfig(kind=HEAD.kind, labels=HEAD.labels, problem_type="multi_label_classification")
    found = ClassifyReader(ClassifyReading()).read_known(validation, several)
    assert [example.gold for example in found.examples] == [("good",), tuple(labels)]


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    train = table(tmp_path / "train.tsv", [("one", "a"), ("two", "b")])
    for data, validation, argument in (([train, train], None, "data"), ([train], [train, train], "validation")):
        with pytest.raises(UsageError) as error:
            ClassifyReader(ClassifyTraining()).read(data, validation)
        assert (error.value.argument, error.value.value) == (argument, 2)
    for option in ({"text_column": "x"}, {"label_separator": ";"}, {"skip_bad_rows": True}):
        with pytest.raises(UsageError) as error:
            ClassifyReader(ClassifyTraining(**option)).builtin()
        assert error.value.argument == next(iter(option))


def test_a_pair_is_a_regression_only_if_that_was_said(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text(
        "sentence1\tsentence2\tscore\n" + "".join(f"a{n}\tb\t{1.5 if n % 2 else 2}\n" for n in range(10)),
        encoding="utf-8",
    )
    with pytest.raises(DataError) as error:
        PairReader(PairTraining()).read([path], None)
    assert (error.value.argument, error.value.hint) == ("regression", "--regression")
    numbers = PairReader(PairTraining(regression=True)).read([path], None)
    assert (numbers.head.problem_type, numbers.head.labels) == ("regression", ("number",))
    assert {example.gold for example in numbers.train} <= {1.5, 2.0}


@pytest.mark.parametrize("separator", [",", ";", "|", "/", " "])
def test_the_separator_of_labels_is_found(separator: str, tmp_path: Path) -> None:
    tokenizer = train_tokenizer(["a b c"] * 3, kind="wordpiece", vocab_size=30, special_tokens=SPECIAL_TOKENS)
    shape = BertConfig(vocab_size=tokenizer.vocab_size, **SHAPE)  # type: ignore[arg-type]
    model = Classifier(architectures["bert"].build(shape, SEVERAL), tokenizer, head=SEVERAL)
    path = table(tmp_path / "a.tsv", [("a b", f"sad{separator}long"), ("b", "sad"), ("c", "")])
    assert "n:3" in regard.evaluate(model, path)[0].signature
    with pytest.raises(DataError) as error:
        regard.evaluate(model, path, label_separator="+")
    assert error.value.path == path
    long = table(tmp_path / "b.tsv", [("a b", separator.join(["sad", "long"] * 20))])  # too long for one label
    assert "n:1" in regard.evaluate(model, long)[0].signature
    empty = table(tmp_path / "c.tsv", [("", "sad")])
    with pytest.raises(DataError) as error:
        regard.evaluate(model, empty)
    assert (error.value.path, error.value.line) == (empty, 2)


# --- Requests -----------------------------------------------------------------------------------------------


def request_for(out: Path, *, task: str = "classify", **settings: Any) -> TrainRequest:
    return TrainRequest.parse(task, settings, out=out)


@pytest.mark.parametrize(("steps", "epochs"), [(1, 40), (2, 40), (8, 38), (30, 10), (100, 3), (5000, 3)])
def test_few_examples_are_seen_more_often(steps: int, epochs: int) -> None:
    assert new_model_epochs(steps) == epochs


@pytest.mark.parametrize(
    ("settings", "steps", "keep_weights"),
    [
        ({}, 300, "best"),
        ({"epochs": 2}, 20, "best"),
        ({"steps": 7}, 7, "best"),
        ({"keep_weights": "last"}, 300, "last"),
    ],
)
def test_the_budget_of_a_new_model(tmp_path: Path, settings: dict[str, Any], steps: int, keep_weights: str) -> None:
    from regard.tasks.encoder.config import epoch_settings

    request = request_for(tmp_path / "run", **settings)
    config = request.complete(epoch_settings(request, 320))
    assert (config.steps, config.keep_weights) == (steps, keep_weights)
    assert config.warmup_steps == max(1, steps // 10)


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    """The folder of a small encoder without a head."""
    return encoder_folder(tmp_path / "bert")


def encoder_folder(folder: Path, **changes: Any) -> Path:
    tokenizer = train_tokenizer(["a b c d"] * 3, kind="wordpiece", vocab_size=20, special_tokens=SPECIAL_TOKENS)
    config = BertConfig(vocab_size=tokenizer.vocab_size, **{**SHAPE, **changes})
    Embedder(seeded_init(lambda: Bert(config), seed=0), tokenizer).save(folder)
    return folder


@pytest.mark.parametrize(("given", "keep_weights"), [({}, "best"), ({"keep_weights": "last"}, "last")])
def test_m150_early_stopping_keeps_the_best_weights(
    given: dict[str, str], keep_weights: str, encoder: Path, tmp_path: Path
) -> None:
    for patience, kept in ((0, given.get("keep_weights", "last")), (2, keep_weights)):
        request = request_for(tmp_path / "run", from_=encoder, patience=patience, **given)
        assert request.config.keep_weights == kept


def test_a_narrow_encoder_has_a_higher_learning_rate(encoder: Path, tmp_path: Path) -> None:
    wide = encoder_folder(tmp_path / "wide", d_model=384)
    rates = [request_for(tmp_path / "run", from_=folder).config.learning_rate for folder in (encoder, wide)]
    assert rates == [1e-3, 5e-5]
    assert request_for(tmp_path / "run", from_=wide, lora=True).config.learning_rate == 1e-3
    assert request_for(tmp_path / "run", from_=wide, learning_rate=0.5).config.learning_rate == 0.5


@pytest.mark.parametrize("setting", ["label_smoothing", "batch_tokens", "pooler"])
@pytest.mark.parametrize("task", [name for name in ("classify", "pair") if name in tasks])
def test_settings_of_other_trainings_are_unknown(setting: str, task: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        regard.train(task, out=tmp_path / "run", **{setting: 1})
    assert (error.value.argument, error.value.value) == ("setting", setting)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("pooler", [True, False])
@pytest.mark.parametrize("way", ["freeze", "lora", "lora on all", "whole"])
def test_m149_a_new_pooler_is_trained(way: str, pooler: bool, tmp_path: Path) -> None:
    """It is as random as the head above it, whatever is frozen of the encoder."""
    encoder = encoder_folder(tmp_path / "bert", pooler=pooler)
    settings: dict[str, Any] = {
        "freeze": {"freeze": "encoder"},
        "lora": {"lora": True, "lora_rank": 2},
        "lora on all": {"lora": True, "lora_rank": 2, "lora_targets": "all"},
        "whole": {},
    }[way]
    ready = init_encoder(request_for(tmp_path / "run", from_=encoder, **settings), HEAD, ["a b"])
    model = ready.model
    assert model.head.output.weight.requires_grad
    assert model.bert.pooler is not None
    assert model.bert.pooler.weight.requires_grad is (not pooler or way == "whole")
    assert model.bert.encoder[0].feed_forward.up_proj.weight.requires_grad is (way == "whole")
    assert ready.pretrained is not None
    weights = ready.pretrained.close(model, tmp_path / "run")
    assert {name for name in weights.tensors if "pooler" in name} == {"bert.pooler.weight", "bert.pooler.bias"}
