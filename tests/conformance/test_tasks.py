"""Run the checks of `regard.testing` for every task: train, save, load, predict, evaluate, look, kill, resume.

A model is trained once. The checks of its task and of tasks that use its models share it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from regard.registry import tasks
from regard.testing import Check, TaskCase, task_case, task_checks


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tasks")


@cache
def case_of(task: str, folder: Path) -> TaskCase:
    return task_case(task, folder / (tasks[task].uses or task))


@pytest.mark.parametrize(
    ("task", "check"),
    [pytest.param(task, check, id=f"{task}-{check.__name__}") for task in tasks for check in task_checks(task)],
)
def test_task(task: str, check: Check, folder: Path) -> None:
    check(case_of(task, folder))
