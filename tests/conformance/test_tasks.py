"""Every task passes the checks of `regard.testing`: train, save, load, predict, evaluate, look, kill, resume.

It is checked on every architecture that supports it. A model is trained once and shared by the checks of its task, and
by those of tasks that use such models.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from regard.registry import architectures_for, tasks
from regard.tasks.encoder.predictor import Classification
from regard.testing import Check, TaskCase, assert_matches_schema, task_case, task_checks


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tasks")


@cache
def case_of(task: str, model: str, folder: Path) -> TaskCase:
    return task_case(task, folder / model / (tasks[task].uses or task), model=model)


CASES = [
    (task, model, check) for task in tasks for model in architectures_for(tasks[task]) for check in task_checks(task)
]


@pytest.mark.parametrize(
    ("task", "model", "check"),
    [pytest.param(*case, id=f"{case[0]}-{case[1]}-{case[2].__name__}") for case in CASES],
)
def test_task(task: str, model: str, check: Check, folder: Path) -> None:
    check(case_of(task, model, folder))


@pytest.mark.parametrize(
    ("task", "model", "options"),
    [
        ("embed", "bert", {"tokens": True}),
        ("embed", "bert", {"similarity": True}),
        ("score", "gpt", {"per_token": True}),
        ("generate", "gpt", {"num_beams": 2, "num_return_sequences": 2}),
        ("translate", "transformer", {"n_best": 2, "num_beams": 2}),
    ],
)
def test_records_match_the_schema_with_options(task: str, model: str, options: dict[str, Any], folder: Path) -> None:
    case = case_of(task, model, folder)
    (result,) = case.predictor([case.inputs], **options)
    assert_matches_schema(result.record(), case.spec)


def test_records_of_regression_match_the_schema() -> None:
    number = Classification(("One text.", "Another."), (), number=2.5)
    assert_matches_schema(number.record(), tasks["pair"])
    assert repr(number) == "Classification(number=2.5)"


@pytest.mark.parametrize(
    "record",
    [
        {"source": "a", "text": "b", "score": 1.0, "tokens": ["b"], "log_probs": [0.0]},
        {"source": "a", "text": "b", "score": 1.0, "tokens": ["b"], "log_probs": [0.0], "ended": True, "more": 1},
        {"source": "a", "text": "b", "score": 1.0, "tokens": ["b"], "log_probs": ["0"], "ended": True},
        {"source": "a", "text": "b", "score": None, "tokens": ["b"], "log_probs": [0.0], "ended": True},
    ],
    ids=["missing", "undeclared", "wrong type", "null"],
)
def test_records_that_contradict_the_schema_are_found(record: dict[str, Any]) -> None:
    with pytest.raises(AssertionError):
        assert_matches_schema(record, tasks["translate"])
