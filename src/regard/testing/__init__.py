"""Conformance checks for tasks and architectures of regard and of other packages.

    from regard.testing import check_task

    def test_reverse(tmp_path):
        check_task("reverse", tmp_path)

The checks train the smallest model on a few examples of the task's built-in dataset, so that they take seconds. Declare
a check that cannot pass as an exception, with a reason; if a declared exception passes, that is an error. To get one
test per check, parametrize over `task_checks(name)` or `ARCHITECTURE_CHECKS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard import registry
from regard.testing.checks import Check, assert_matches_schema, run_checks
from regard.testing.models import ARCHITECTURE_CHECKS, MODEL_CHECKS, ModelCase
from regard.testing.tasks import TaskCase, task_case, task_checks

__all__ = [
    "ARCHITECTURE_CHECKS",
    "MODEL_CHECKS",
    "Check",
    "ModelCase",
    "TaskCase",
    "assert_matches_schema",
    "check_architecture",
    "check_task",
    "task_case",
    "task_checks",
]


def check_task(
    name: str, folder: Path, *, model: str | None = None, exceptions: Mapping[str, str] | None = None, **settings: Any
) -> None:
    """Run every check on a task; `exceptions` maps the names of checks that cannot pass to the reason."""
    run_checks(task_case(name, folder, model=model, **settings), task_checks(name), exceptions or {})


def check_architecture(name: str, folder: Path, *, exceptions: Mapping[str, str] | None = None) -> None:
    """Run every check on an architecture, and the checks of every task that it supports.

    `exceptions` maps the name of a check, or "task.check", to the reason why it cannot pass.
    """
    declared = exceptions or {}
    own = {check: why for check, why in declared.items() if "." not in check}
    run_checks(registry.architectures[name], ARCHITECTURE_CHECKS, own)
    for task, spec in registry.tasks.usable().items():
        if spec.trainable and name in registry.architectures_for(spec):
            own = {key.partition(".")[2]: why for key, why in declared.items() if key.startswith(f"{task}.")}
            check_task(task, folder / task, model=name, exceptions=own)
