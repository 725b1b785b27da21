"""A whole training run, from request to report: the files that it writes and keeps, and invalid requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard import api
from regard.checkpoint.atomic_folders import COMMIT
from regard.registry import tasks
from regard.tasks.encoder.objective import SequenceObjective
from regard.training.callbacks import read_metrics
from regard.training.config import TrainingConfig
from regard.training.optimizers import load_state_tensors, make_optimizers, state_tensors
from regard.training.run import TrainRequest
from regard.utils.errors import UsageError

SMALL: dict[str, Any] = dict(
    d_model=16, num_heads=1, head_dim=16, d_ff=16, num_layers=1, vocab_size=100, max_seq_len=16, batch_size=8
)


@pytest.fixture(scope="module")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "reviews.tsv"
    rows = [f"the {noun}{n} is {word}\t{label}" for n in range(10) for noun in ("car", "dog")
            for word, label in (("fine", "good"), ("bad", "bad"))]  # fmt: skip
    path.write_text("text\tlabel\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return path


def train(reviews: Path, out: Path, **settings: Any) -> Any:
    return regard.train("classify", reviews, out=out, **{"steps": 2, **SMALL, **settings})


# --- Folders ------------------------------------------------------------------------------------------------


def test_a_run_leaves_a_model_a_card_curves_and_a_report(reviews: Path, tmp_path: Path) -> None:
    run = api.run_training("classify", reviews, out=tmp_path / "m", steps=3, log_every=1, **SMALL)
    names = {path.name for path in run.folder.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "README.md", "metrics.jsonl", "report.html"} <= names
    config = json.loads((run.folder / "config.json").read_text(encoding="utf-8"))
    assert config["regard"] == {"format": 2, "task": "classify"}
    assert config["architecture"] == "bert"
    assert config["training"]["steps"] == 3
    assert [row["step"] for row in read_metrics(run.folder)] == [1, 2, 3]
    assert run.report == run.folder / "report.html"
    result = run.to_dict()
    assert json.loads(json.dumps(result)) == result
    assert (result["step"], result["folder"]) == (3, str(run.folder))
    assert [score["name"] for score in result["scores"]][:2] == ["accuracy", "macro F1"]


def test_a_model_is_saved_even_if_it_cannot_be_scored(
    reviews: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = UsageError("no scores")

    def fail(self: SequenceObjective) -> None:
        raise failure

    monkeypatch.setattr(SequenceObjective, "evaluate", fail)
    with pytest.raises(UsageError) as caught:
        train(reviews, tmp_path / "m")
    assert caught.value is failure
    assert regard.load(tmp_path / "m")("the car is fine").label in ("good", "bad")


def test_a_card_that_was_edited_is_kept(reviews: Path, tmp_path: Path) -> None:
    card = tmp_path / "m" / "README.md"
    train(reviews, tmp_path / "m")
    assert "accuracy" in card.read_text(encoding="utf-8")
    for steps in (3, 4):
        card.write_text("my precious notes", encoding="utf-8")
        train(reviews, tmp_path / "m", steps=steps, resume=True)
        assert card.read_text(encoding="utf-8") == "my precious notes"
    assert read_metrics(tmp_path / "m")[-1]["step"] == 4


def test_a_model_whose_files_were_not_yet_renamed_is_loaded(reviews: Path, tmp_path: Path) -> None:
    """The state after a kill between the commit and the last rename."""
    folder = tmp_path / "m"
    expected = train(reviews, folder)("the car is fine")
    (folder / COMMIT).mkdir()
    for name in ("config.json", "tokenizer.json", "regard-manifest.json"):
        (folder / name).rename(folder / COMMIT / name)
    assert regard.load(folder)("the car is fine") == expected


def test_without_out_the_run_is_temporary_and_silent(
    reviews: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    regard.train("classify", reviews, steps=1, **SMALL)
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")
    regard.train("classify", reviews, steps=1, progress=True, **SMALL)
    out, err = capfd.readouterr()
    assert (out, "100%" in err) == ("", True)


# --- Random numbers and devices -----------------------------------------------------------------------------


def test_training_does_not_change_the_global_generator(reviews: Path, tmp_path: Path) -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    train(reviews, tmp_path / "m")
    assert torch.equal(torch.rand(3), expected)


def test_dense_gradients_after_training(reviews: Path, tmp_path: Path) -> None:
    """The trainer uses sparse gradients of the embedding; a user's own loop with any optimizer must not."""
    model = train(reviews, tmp_path / "m").model.train()
    model(torch.tensor([[5, 6, 7]])).sum().backward()
    assert not any(param.grad.is_sparse for param in model.parameters() if param.grad is not None)


def test_ids_and_optimizer_states_go_to_the_device_of_the_model(reviews: Path, tmp_path: Path) -> None:
    """Tested without an accelerator: on the device `meta`, a tensor on another device raises an error."""
    request = TrainRequest.parse("classify", {"steps": 1, **SMALL}, out=tmp_path / "m")
    task = SequenceObjective.prepare(tasks["classify"].load("reader")(request.config).read([reviews], None), request)
    config = TrainingConfig(learning_rate=0.1, muon_learning_rate=0.1, weight_decay=0.0)
    optimizers = make_optimizers(task.model, config)
    task.loss(range(5)).train.backward()
    for optimizer in optimizers:
        optimizer.step()
    states = state_tensors(optimizers, task.model)
    moved = task.model.to("meta")
    there = make_optimizers(moved, config)
    load_state_tensors(there, moved, states)
    restored = [value for optimizer in there for state in optimizer.state.values() for value in state.values()]
    assert restored
    assert {value.device.type for value in restored} == {"meta"}
    trace = task.predictor().trace("the car is fine")
    assert {captured.q.device.type for captured in trace.captured.values()} == {"meta"}


# --- Requests -----------------------------------------------------------------------------------------------


def parse(tmp_path: Path, task: str = "classify", **settings: Any) -> TrainRequest:
    return TrainRequest.parse(task, settings, out=tmp_path / "m")


def test_settings_go_to_the_config_that_has_them(tmp_path: Path) -> None:
    request = parse(tmp_path, steps="3", learning_rate=0.5, d_model="16", num_heads=2, head_dim=8, threshold=0.25)
    assert (request.config.steps, request.config.learning_rate) == (3, 0.5)
    assert request.model_config(vocab_size=10).to_dict()["d_model"] == 16
    assert request.predict_config().to_dict() == {"threshold": 0.25}
    assert request.lora is None


@pytest.mark.parametrize(
    ("settings", "argument", "value"),
    [
        ({"steps": "many"}, "steps", "many"),
        ({"steps": 0}, "steps", 0),
        ({"stepz": 3}, "setting", "stepz"),
        ({"lr": 3}, "setting", "lr"),
        ({"size": "hugge"}, "size", "hugge"),
        ({"model": "berd"}, "architecture", "berd"),
        ({"model": "gpt"}, "model", "gpt"),
        ({"d_model": -1}, "d_model", -1),
        ({"schedule": "cosin"}, "schedule", "cosin"),
        ({"threshold": 2}, "threshold", 2),
        ({"steps": 3, "minutes": 3}, "minutes", 3.0),
        ({"lora": True}, "lora", True),
        ({"lora_rank": 3}, "lora_rank", 3),
        ({"task": "translat"}, "task", "translat"),
        ({"task": "embed"}, "task", "embed"),
        ({"vocab_size": 0}, "vocab_size", 0),
    ],
    ids=str,
)
def test_wrong_settings_are_refused_by_name(
    settings: dict[str, Any], argument: str, value: Any, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as error:
        parse(tmp_path, **settings)
    assert (error.value.argument, error.value.value) == (argument, value)
    assert not (tmp_path / "m").exists()


def test_suggestions(tmp_path: Path) -> None:
    for given, meant in (
        ("lr", "learning_rate"),
        ("hidden_size", "d_model"),
        ("d_modle", "d_model"),
        ("bs", "batch_size"),
        ("save_evry", "save_every"),
        ("sizee", "size"),
    ):
        with pytest.raises(UsageError) as error:
            parse(tmp_path, **{given: 1})
        assert error.value.hint == meant
        assert meant in (error.value.allowed or ())
        assert given not in (error.value.allowed or ()), "a synonym is suggested and never accepted"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("save_every", 0), ("save_every", "soon"), ("device", "gpu"), ("device", 3), ("resume", "maybe"), ("size", 3),
        ("lora", "maybe"), ("from_", 3), ("model", 3),
    ],
)  # fmt: skip
def test_wrong_run_options(name: str, value: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        parse(tmp_path, **{name: value})
    assert (error.value.argument, error.value.value) == (name, value)


def test_validation_files_need_training_files(reviews: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        regard.train("classify", validation=reviews, out=tmp_path / "m")
    assert error.value.argument == "validation"
