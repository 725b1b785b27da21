"""Training settings: invalid values are refused by name; recipes fill the settings that are not given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from regard.checkpoint.probe import d_model_of
from regard.tasks.translate.spec import paper_learning_rate
from regard.training.config import TrainingConfig
from regard.training.environment import choose_device
from regard.training.run import TrainRequest
from regard.utils.errors import UsageError


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("minutes", float("inf")),
        ("max_grad_norm", float("nan")),
        ("weight_decay", float("nan")),
        ("learning_rate", float("inf")),
        ("adam_eps", float("nan")),
        ("adam_eps", -1.0),
        ("seed", -1),
        ("seed", 99999999999999999999),
        ("steps", 0),
        ("batch_tokens", 0),
        ("beta2", 1.0),
    ],
)
def test_invalid_values_are_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(UsageError) as caught:
        TrainingConfig(**{name: value})
    assert caught.value.argument == name


def request(task: str, out: Path, **settings: Any) -> TrainRequest:
    return TrainRequest.parse(task, settings, out=out)


def test_the_papers_rate_follows_width_and_warm_up(tmp_path: Path) -> None:
    # 512^-½ · 4000^-½, worked out by hand.
    base = request("translate", tmp_path / "m", size="transformer-base").config
    assert base.learning_rate == pytest.approx(6.98771e-4)
    narrow = request("translate", tmp_path / "m", size="transformer-base", d_model=128, warmup_steps=1000).config
    assert narrow.learning_rate == pytest.approx(128**-0.5 * 1000**-0.5) == paper_learning_rate(128, 1000)
    assert narrow.warmup_steps == 1000


@pytest.mark.parametrize("device", ["meta", "cpu:3", "gpu", ""])
def test_unknown_devices_are_refused(device: str) -> None:
    with pytest.raises(UsageError) as error:
        choose_device(device)
    assert error.value.allowed == ("auto", "cpu", "cuda", "mps")


@pytest.mark.parametrize(("width", "rate"), [(None, 5e-5), (768, 5e-5), (384, 5e-5), (256, 1.6875e-4), (128, 1e-3)])
def test_narrow_encoders_are_fine_tuned_with_a_higher_learning_rate(
    width: int | None, rate: float, tmp_path: Path
) -> None:
    folder = tmp_path / "bert"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "bert", "hidden_size": width}), encoding="utf-8")
    (folder / "model.safetensors").write_bytes(b"")
    fine_tuned = request("classify", tmp_path / "m", from_=folder).config
    assert fine_tuned.learning_rate == pytest.approx(rate)
    assert request("classify", tmp_path / "m", from_=folder, lora=True).config.learning_rate == 0.001
    assert request("classify", tmp_path / "m").config.learning_rate == 5e-4


def test_the_d_model_of_a_folder_is_read_without_torch(tmp_path: Path) -> None:
    for text, width in (
        ('{"model": {"d_model": 128}}', 128),
        ('{"hidden_size": 384}', 384),
        ('{"model": {"d_model": "wide"}}', None),
        ("[]", None),
        ("{", None),
    ):
        (tmp_path / "config.json").write_text(text, encoding="utf-8")
        assert d_model_of(tmp_path) == width
    assert d_model_of(tmp_path / "nowhere") is None
