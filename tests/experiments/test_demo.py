"""The demo may replace its own earlier runs, and no other model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from regard.checkpoint.folder import write_model
from regard.checkpoint.training_state import write_checkpoint
from regard.experiments.demo import SETTINGS, is_demo

OTHER = {**SETTINGS, "learning_rate": 0.1}


def config(settings: dict[str, Any]) -> dict[str, Any]:
    """A config.json with these settings where a training puts them."""
    return {
        "model": {"num_heads_by_layer": settings["num_heads_by_layer"]},
        "training": {"learning_rate": settings["learning_rate"]},
    }


def test_an_empty_or_missing_folder_may_be_replaced(tmp_path: Path) -> None:
    assert is_demo(tmp_path)
    assert is_demo(tmp_path / "missing")


@pytest.mark.parametrize(("settings", "expected"), [(SETTINGS, True), (OTHER, False)])
def test_a_model_with_the_settings_of_the_demo_is_a_demo(
    settings: dict[str, Any], expected: bool, tmp_path: Path
) -> None:
    write_model(tmp_path, config=config(settings), tensors={"a": torch.ones(2)}, texts={})
    assert is_demo(tmp_path) is expected


@pytest.mark.parametrize(("settings", "expected"), [(SETTINGS, True), (OTHER, False)])
def test_a_stopped_training_with_the_settings_of_the_demo_is_a_demo(
    settings: dict[str, Any], expected: bool, tmp_path: Path
) -> None:
    write_checkpoint(tmp_path, 3, tensors={"a": torch.ones(2)}, state={"identity": settings})
    assert is_demo(tmp_path) is expected
