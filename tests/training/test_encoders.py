"""What trainings on BERT agree on before they begin: how long, and what a folder's dropout becomes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from regard.training.encoders import Request, usual_epochs
from regard.training.options import RunOptions


def request_for(tmp_path: Path, **settings: Any) -> Request:
    return Request.check(settings, tmp_path / "run", size=None, from_=None, lora=False, options=RunOptions())


@pytest.mark.parametrize(("steps", "epochs"), [(1, 40), (2, 40), (8, 38), (30, 10), (100, 3), (5000, 3)])
def test_few_examples_are_seen_more_often(steps: int, epochs: int) -> None:
    assert usual_epochs(steps) == epochs


@pytest.mark.parametrize(
    ("settings", "steps", "keep"),
    [({}, 300, "best"), ({"epochs": 2}, 20, "best"), ({"steps": 7}, 7, "best"), ({"keep": "last"}, 300, "last")],
)
def test_the_budget_of_a_new_model(tmp_path: Path, settings: dict[str, Any], steps: int, keep: str) -> None:
    budget = request_for(tmp_path, **settings).budget(320, tmp_path / "run", resume=False)
    assert (budget.config.steps, budget.config.keep) == (steps, keep)
    assert budget.config.warmup_steps == max(1, steps // 10)
