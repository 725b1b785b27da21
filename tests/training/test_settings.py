"""Settings of a training: values that cannot be are refused with their name; recipes follow what was given."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.checkpoint.presence import width_of
from regard.errors import UsageError
from regard.training.choices import choose_device
from regard.training.recipes import labelling_recipe, paper_learning_rate, translation_recipe
from regard.training.settings import TrainingConfig


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("minutes", float("inf")),
        ("clip", float("nan")),
        ("weight_decay", float("nan")),
        ("learning_rate", float("inf")),
        ("epsilon", float("nan")),
        ("epsilon", -1.0),
        ("seed", -1),
        ("seed", 99999999999999999999),
        ("steps", 0),
        ("batch_tokens", 0),
        ("beta2", 1.0),
    ],
)
def test_values_that_cannot_be_are_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(UsageError, match=name):
        TrainingConfig(**{name: value})  # type: ignore[arg-type]


def test_the_papers_rate_follows_width_and_warm_up() -> None:
    # 512^-½ · 4000^-½, worked out by hand.
    assert translation_recipe("paper", "transformer-base").training["learning_rate"] == pytest.approx(6.98771e-4)
    narrow = translation_recipe("paper", "transformer-base", width=128, warmup_steps=1000)
    assert narrow.training["learning_rate"] == pytest.approx(128**-0.5 * 1000**-0.5) == paper_learning_rate(128, 1000)
    assert narrow.training["warmup_steps"] == 1000


@pytest.mark.parametrize("device", ["meta", "cpu:3", "gpu", ""])
def test_devices_that_are_none_are_refused(device: str) -> None:
    with pytest.raises(UsageError, match="auto, cpu, cuda, mps"):
        choose_device(device)


@pytest.mark.parametrize(("width", "rate"), [(None, 5e-5), (768, 5e-5), (384, 5e-5), (256, 1.6875e-4), (128, 1e-3)])
def test_narrow_encoders_are_fine_tuned_by_longer_steps(width: int | None, rate: float) -> None:
    assert labelling_recipe(begins=True, lora=False, width=width).training["learning_rate"] == pytest.approx(rate)
    assert labelling_recipe(begins=True, lora=True, width=width).training["learning_rate"] == 0.001
    assert labelling_recipe(begins=False, lora=False, width=width).training["learning_rate"] == 5e-4


def test_the_width_of_a_folder_is_asked_without_torch(tmp_path: Path) -> None:
    for text, width in (
        ('{"model": {"width": 128}}', 128),
        ('{"hidden_size": 384}', 384),
        ('{"model": {"width": "wide"}}', None),
        ("[]", None),
        ("{", None),
    ):
        (tmp_path / "config.json").write_text(text, encoding="utf-8")
        assert width_of(tmp_path) == width
    assert width_of(tmp_path / "nowhere") is None
