"""The registries: lazy, open to other packages, with suggestions for unknown names; broken plug-ins stay apart."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import EntryPoint
from typing import Any

import pytest

import regard
from regard import registry
from regard.cli.main import main
from regard.registry import (
    Registry,
    architecture_of,
    architectures,
    architectures_for,
    task_for_model,
    task_summaries,
    tasks,
    views,
)
from regard.spec import Architecture, TaskSpec, ViewSpec
from regard.utils.errors import RegardError, UsageError

NAMES = {"answer": "regard.views.specs:ANSWER", "steps": "regard.views.specs:STEPS"}
PLUGINS = [
    EntryPoint("mirror", "regard.views.specs:ATTENTION", "group"),
    EntryPoint("absent", "no_such_package.spec:SPEC", "group"),
    EntryPoint("no-spec", "regard.views.specs:Config", "group"),
    EntryPoint("steps", "no_such_package.spec:SPEC", "group"),
]


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Registry[ViewSpec]:
    """A registry with a good plug-in, two broken ones, and one that has the name of a built-in entry."""
    monkeypatch.setattr(registry, "entry_points", lambda group: PLUGINS if group == "group" else [])
    return Registry("view", ViewSpec, NAMES, group="group")


def test_built_in_entries() -> None:
    for table, kind in ((tasks, TaskSpec), (architectures, Architecture), (views, ViewSpec)):
        assert len(table) == len(list(table)) > 2
        for name, entry in table.items():
            assert isinstance(entry, kind)
            assert entry.name == name
            assert table.origin(name) == "regard"
            assert entry.summary.endswith(".")


def test_names_are_known_without_importing_entries() -> None:
    code = (
        "import sys; from regard.registry import tasks; list(tasks), 'fill' in tasks, len(tasks), repr(tasks); "
        "print([name for name in sys.modules if name.startswith(('regard.tasks.', 'torch', 'pydantic'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    assert done.stdout.strip() == "[]"


def test_help_lists_tasks_without_importing_configs() -> None:
    assert task_summaries() == {name: spec.summary for name, spec in tasks.items()}
    code = (
        "import sys; from regard.cli.main import main; main(['--help']); "
        "sys.exit(any(name in sys.modules for name in ('pydantic', 'tyro', 'torch', 'numpy')))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


@pytest.mark.parametrize(
    ("table", "given", "meant"),
    [(tasks, "clasify", "classify"), (architectures, "berd", "bert"), (views, "atention", "attention")],
)
def test_unknown_names_get_a_suggestion(table: Any, given: str, meant: str) -> None:
    assert given not in table
    with pytest.raises(UsageError) as error:
        table[given]
    assert (error.value.argument, error.value.value, error.value.hint) == (table.kind, given, meant)
    assert error.value.allowed == tuple(sorted(table))


def test_entry_points_add_entries(table: Registry[ViewSpec]) -> None:
    assert list(table) == ["answer", "steps", "absent", "mirror", "no-spec"]
    assert len(table) == 5
    assert table["mirror"].name == "attention"
    assert table.origin("mirror") == "regard"  # an entry point without a distribution: the package of its module
    assert table["steps"].name == "steps", "a built-in entry is not replaced"


@pytest.mark.parametrize("name", ["absent", "no-spec"])
def test_a_broken_plug_in_is_named(name: str, table: Registry[ViewSpec]) -> None:
    assert name in table
    with pytest.raises(RegardError) as error:
        table[name]
    assert (error.value.argument, error.value.value) == ("view", name)
    assert not isinstance(error.value, UsageError)


def test_a_broken_plug_in_does_not_stop_the_others(table: Registry[ViewSpec]) -> None:
    assert list(table.usable()) == ["answer", "steps", "mirror"]


def test_commands_work_beside_a_broken_plug_in(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for table in (tasks, architectures, views):
        monkeypatch.setitem(table._plugins, "broken", EntryPoint("broken", "no_such_package:SPEC", table.group))
    for command in (["--help"], ["train"], ["train", "classify", "--help"], ["models"], ["look", "--help"]):
        assert main(command) == 0
    capsys.readouterr()
    assert main(["tasks", "--json"]) == 0
    listed = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert listed["broken"]["error"] is True and "error" not in listed["classify"]
    assert main(["broken", "model", "text"]) == 1
    assert architectures_for(tasks["classify"]) == ["bert"]


def test_which_architecture_and_task_fit() -> None:
    for task in tasks.values():
        able = architectures_for(task)
        assert able[0] == (task.default_architecture or able[0])
        assert all(task.needs <= architectures[name].capabilities for name in able)
    bert = architectures["bert"]
    model = bert.build(bert.config(vocab_size=9, **bert.test_settings))
    assert architecture_of(model) is bert
    found = task_for_model("bert", "token_classification")
    assert found is not None and found.name == "tag"
    assert task_for_model("gpt", "token_classification") is None


def test_the_public_functions_are_the_registries() -> None:
    assert regard.tasks() is tasks
    assert regard.models() is architectures


def test_specs_have_a_short_repr() -> None:
    assert repr(tasks["pair"]) == "TaskSpec(pair: first, second → label, labels, score, scores, number)"
    for table in (tasks, architectures):
        for name, entry in table.items():
            assert name in repr(entry) and len(repr(entry)) < 250


def test_optional_outputs_may_be_missing_or_null() -> None:
    outputs = tasks["generate"].schema()["outputs"]
    assert "ended" in outputs["required"] and "score" not in outputs["required"]
    assert outputs["properties"]["score"]["type"] == ["number", "null"]
