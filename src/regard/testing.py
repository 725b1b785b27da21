"""Conformance checks for tasks and architectures, those of regard and those of other packages.

    from regard.testing import check_task, check_architecture

    def test_reverse(tmp_path):
        check_task("reverse", tmp_path)

A check trains the smallest model on a few examples of the task's built-in dataset, so that the suite takes seconds. A
check that cannot hold is declared as an exception with its reason; a declared exception that holds is an error, too.
To get one test for each check, parametrize over `task_checks(name)`.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from regard import api
from regard.checkpoint.folder import is_model_folder, read_model
from regard.nn.state_dict import unique_tensors
from regard.nn.threads import one_thread
from regard.registry import architectures, architectures_for, tasks
from regard.spec import Architecture, TaskSpec
from regard.training.interrupts import InterruptedRunError
from regard.training.progress import NullProgress
from regard.training.request import RunOptions, TrainRequest
from regard.training.run import run_splits
from regard.utils.errors import UsageError

STEPS = 4
NUM_TRAIN, NUM_VALIDATION = 200, 8  # examples of the built-in dataset
DEADLINE = 300.0  # seconds after which a process that makes no progress counts as hanging


@dataclass
class TaskCase:
    """A task on an architecture, with a folder for its runs. The model is trained once and shared by the checks."""

    spec: TaskSpec
    architecture: Architecture
    folder: Path
    settings: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def run(self) -> Path:
        """The folder of an uninterrupted training; tasks that use the same models may share it."""
        out = self.folder / "run"
        return out if out.is_dir() and is_model_folder(out) else self.train("run")

    @cached_property
    def splits(self) -> Any:
        """A few built-in examples to train on."""
        return few_examples(self.trained_task)

    @cached_property
    def predictor(self) -> Any:
        return api.load(self.run, task=self.spec.name)

    @property
    def trained_task(self) -> TaskSpec:
        """The task that is trained: this one, or the one whose models it uses."""
        return self.spec if self.spec.trainable else tasks[self.spec.uses]

    @property
    def all_settings(self) -> dict[str, Any]:
        """Settings of the smallest model and of a short training."""
        return {**self.architecture.test_settings, **self.trained_task.test_settings, "num_evals": 1, **self.settings}

    def train(self, name: str, **options: Any) -> Path:
        """Train for a few steps on one thread, which a forked process has, too."""
        out = self.folder / name
        request = TrainRequest.parse(
            self.trained_task.name,
            {**self.all_settings, "steps": STEPS},
            out=out,
            architecture=self.architecture.name,
            options=RunOptions(**options),
        )
        with one_thread():
            run_splits(request, self.splits)
        return out

    @property
    def inputs(self) -> Any:
        """The example of the task as one input of `predict`."""
        return self.spec.example[0] if len(self.spec.inputs) == 1 else self.spec.example


def few_examples(spec: TaskSpec) -> Any:
    """The first examples of a task's built-in dataset."""
    splits = spec.load("reader")((spec.train_config or spec.read_config)()).builtin()
    return replace(splits, train=splits.train[:NUM_TRAIN], validation=splits.validation[:NUM_VALIDATION])


@dataclass(frozen=True)
class Check:
    """One named check; `holds` raises AssertionError where it does not."""

    name: str
    holds: Callable[[Any], None]

    def __str__(self) -> str:
        return self.name


# --- Checks of tasks ----------------------------------------------------------------------------------------


def spec_needs_no_torch(case: TaskCase) -> None:
    """Importing the spec of the task does not import torch."""
    code = f"import sys; from regard.registry import tasks; tasks[{case.spec.name!r}]; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0, "the spec imports torch"


def schema_is_json(case: TaskCase) -> None:
    """The schema of inputs, outputs and options is plain JSON and names every field."""
    schema = json.loads(json.dumps(case.spec.schema()))
    assert list(schema["inputs"]["properties"]) == [item.name for item in case.spec.inputs]
    assert list(schema["outputs"]["properties"]) == [item.name for item in case.spec.outputs]
    for section in ("options", "training"):
        for name, described in schema.get(section, {}).get("properties", {}).items():
            assert described.get("description"), f"{section}: {name} has no description"


def unknown_settings_raise(case: TaskCase) -> None:
    """A misspelt setting, and a setting of the wrong type, are refused by name."""
    for settings, argument in (({"stepz": 3}, "stepz"), ({"steps": "many"}, "steps")):
        try:
            api.run_training(case.trained_task.name, out=case.folder / "refused", **settings)
        except UsageError as error:
            assert error.value is not None and (error.argument == argument or error.value == argument), vars(error)
        else:
            raise AssertionError(f"{settings} was accepted")
    assert not (case.folder / "refused").exists(), "a refused request leaves nothing behind"


def trained_model_predicts(case: TaskCase) -> None:
    """A trained model gives one result for the example, with a text, a record and a short repr."""
    (result,) = case.predictor.predict([case.inputs])
    assert isinstance(str(result), str)
    json.dumps(result.record(), allow_nan=False)
    assert len(repr(case.predictor)) < 200, "the repr of a predictor is one line"
    assert "\n" not in repr(case.predictor)


def saved_equals_loaded(case: TaskCase) -> None:
    """Saving and loading changes no bit of the weights and of the result."""
    (before,) = case.predictor.predict([case.inputs])
    copy = case.folder / "saved"
    case.predictor.save(copy, force=True)
    again = api.load(copy, task=case.spec.name)
    assert_same_weights(unique_tensors(case.predictor.model), unique_tensors(again.model))
    (after,) = again.predict([case.inputs])
    assert before.record() == after.record()


def batched_equals_single(case: TaskCase) -> None:
    """An input among longer ones gets the result that it gets alone, within rounding; twice the same, bit for bit."""
    (alone,) = case.predictor.predict([case.inputs])
    batch = [longer(case.inputs, 3), case.inputs, longer(case.inputs, 2)]
    among = case.predictor.predict(batch)
    assert len(among) == 3
    assert_close(among[1].record(), alone.record())
    assert_close(case.predictor.predict(batch[::-1])[1].record(), alone.record())
    assert [result.record() for result in case.predictor.predict(batch)] == [result.record() for result in among]
    assert case.predictor.predict([]) == []


def longer(value: Any, times: int) -> Any:
    """An input whose texts are repeated."""
    return " ".join([value] * times) if isinstance(value, str) else tuple(longer(part, times) for part in value)


def evaluates(case: TaskCase) -> None:
    """The scores on built-in examples are finite and carry a signature."""
    splits = case.splits if case.spec.trainable else few_examples(case.spec)
    scores = case.predictor.evaluate(list(splits.validation or splits.train)[:NUM_VALIDATION])
    assert scores, "there are no scores"
    for score in scores:
        assert math.isfinite(score.value) or math.isnan(score.value), score
        assert score.signature, f"{score.name} has no signature"


def looks(case: TaskCase) -> None:
    """Every view that the model offers makes an offline page and plain JSON."""
    offered = api.views_of(case.predictor)
    assert offered, "the model offers no view"
    for name in offered:
        view = api.look(case.predictor, *case.spec.example, view=name)
        assert "<html" in view.html()
        json.dumps(view.numbers(), allow_nan=False)


def captured_equals_plain(case: TaskCase) -> None:
    """Capturing attention changes no bit of the result, and leaves nothing on the model."""
    (before,) = case.predictor.predict([case.inputs])
    trace = case.predictor.trace(*case.spec.example)
    assert trace.captured, "nothing was captured"
    (after,) = case.predictor.predict([case.inputs])
    assert before.record() == after.record()


def resumed_equals_uninterrupted(case: TaskCase) -> None:
    """A training that Ctrl-C stops half way and that is resumed ends with the weights of an uninterrupted one."""
    try:
        case.train("resumed", progress=InterruptAt(STEPS // 2))
    except InterruptedRunError:
        pass
    else:
        raise AssertionError("the training was not interrupted")
    resumed = case.train("resumed", resume=True)
    assert_same_weights(read_model(case.run).tensors, read_model(resumed).tensors)


class InterruptAt(NullProgress):
    """Sends Ctrl-C to this process when a step is reached."""

    def __init__(self, step: int) -> None:
        self.step = step

    def update(self, **values: Any) -> None:
        if values["step"] == self.step:
            signal.raise_signal(signal.SIGINT)


def killed_and_resumed_equals_uninterrupted(case: TaskCase) -> None:
    """A training that is killed after a checkpoint and resumed ends with the weights of an uninterrupted one."""
    _ = case.splits  # read before the process is forked
    start = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
    process = multiprocessing.get_context(start).Process(target=train_and_wait, args=(case,))  # type: ignore[attr-defined]
    process.start()
    try:
        checkpoint = case.folder / "killed" / f"checkpoint-{STEPS // 2}"
        wait_until(lambda: checkpoint.is_dir() or not process.is_alive())
        assert process.is_alive(), "the training ended before it was killed"
    finally:
        process.kill()
        process.join()
    killed = case.train("killed", resume=True)
    assert_same_weights(read_model(case.run).tensors, read_model(killed).tensors)


def train_and_wait(case: TaskCase) -> None:
    """Train with a checkpoint after each step; half way, wait to be killed."""
    case.train("killed", save_every=1e-9, progress=WaitAt(STEPS // 2 + 1))


class WaitAt(NullProgress):
    """Stops this process for good when a step is reached."""

    def __init__(self, step: int) -> None:
        self.step = step

    def update(self, **values: Any) -> None:
        while values["step"] == self.step:
            time.sleep(1)


TASK_CHECKS = tuple(
    Check(check.__name__, check)
    for check in (
        spec_needs_no_torch,
        schema_is_json,
        unknown_settings_raise,
        trained_model_predicts,
        saved_equals_loaded,
        batched_equals_single,
        evaluates,
        looks,
        captured_equals_plain,
        resumed_equals_uninterrupted,
        killed_and_resumed_equals_uninterrupted,
    )
)
TRAINING_CHECKS = ("unknown_settings_raise", "resumed_equals_uninterrupted", "killed_and_resumed_equals_uninterrupted")


def task_checks(name: str) -> list[Check]:
    """The checks that apply to a task."""
    trainable = tasks[name].trainable
    return [check for check in TASK_CHECKS if trainable or check.name not in TRAINING_CHECKS]


def check_task(
    name: str, folder: Path, *, model: str | None = None, exceptions: Mapping[str, str] | None = None, **settings: Any
) -> None:
    """Run every check on a task; `exceptions` maps the names of checks that cannot hold to the reason."""
    case = task_case(name, folder, model=model, **settings)
    run_checks(case, task_checks(name), exceptions or {})


def task_case(name: str, folder: Path, *, model: str | None = None, **settings: Any) -> TaskCase:
    """A task to be checked, on its default architecture or on `model`."""
    spec = tasks[name]
    trained = spec if spec.trainable else tasks[spec.uses]
    return TaskCase(spec, architectures[model or trained.default_architecture], folder, settings)


# --- Checks of architectures --------------------------------------------------------------------------------


def config_needs_no_torch(architecture: Architecture) -> None:
    """Importing the architecture's entry and config does not import torch."""
    name = architecture.name
    lookup = f"from regard.registry import architectures; architectures[{name!r}]"
    code = f"import sys; {lookup}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0, "the entry imports torch"


def presets_are_valid(architecture: Architecture) -> None:
    """Every preset makes a config."""
    for settings in architecture.presets.values():
        architecture.config(**{**required_settings(architecture), **settings})


def costs_count_parameters(architecture: Architecture) -> None:
    """The number of parameters that the cost model predicts is the number that a built model has."""
    if architecture.cost_model is None:
        return
    config = smallest_config(architecture)
    built = sum(param.numel() for param in architecture.build(config).parameters())
    assert architecture.costs(config).parameters == built


def building_is_seeded(architecture: Architecture) -> None:
    """The same seed gives the same weights."""
    config = smallest_config(architecture)
    models = []
    for _ in range(2):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(5)
            models.append(architecture.build(config))
    assert_same_weights(*(unique_tensors(model) for model in models))


ARCHITECTURE_CHECKS = tuple(
    Check(check.__name__, check)
    for check in (config_needs_no_torch, presets_are_valid, costs_count_parameters, building_is_seeded)
)


def check_architecture(name: str, folder: Path, *, exceptions: Mapping[str, str] | None = None) -> None:
    """Run every check on an architecture, and those of every task that it can do.

    `exceptions` maps the name of a check, or "task.check", to the reason why it cannot hold.
    """
    declared = exceptions or {}
    architecture = architectures[name]
    run_checks(architecture, ARCHITECTURE_CHECKS, {k: v for k, v in declared.items() if "." not in k})
    for task, spec in tasks.usable().items():
        if spec.trainable and name in architectures_for(spec):
            own = {key.partition(".")[2]: why for key, why in declared.items() if key.startswith(f"{task}.")}
            check_task(task, folder / task, model=name, exceptions=own)


def required_settings(architecture: Architecture) -> dict[str, Any]:
    fields = architecture.config.model_fields
    return {name: 59 for name, info in fields.items() if info.is_required()}


def smallest_config(architecture: Architecture) -> Any:
    own = {key: value for key, value in architecture.test_settings.items() if key in architecture.config.model_fields}
    return architecture.config(**{**required_settings(architecture), **own})


# --- Running them -------------------------------------------------------------------------------------------


def run_checks(subject: Any, checks: Any, exceptions: Mapping[str, str]) -> None:
    """Run checks; those with a declared exception must fail, all others must hold."""
    names = {check.name for check in checks}
    if strange := set(exceptions) - names:
        raise UsageError(f"no check is called {min(strange)!r}.", argument="exceptions", allowed=sorted(names))
    for check in checks:
        if check.name not in exceptions:
            check.holds(subject)
            continue
        try:
            check.holds(subject)
        except (AssertionError, UsageError):
            continue
        raise AssertionError(f"{check.name} holds: remove its exception ({exceptions[check.name]})")


def wait_until(happened: Callable[[], bool]) -> None:
    """Wait for an event; a process that hangs ends the wait after a long time."""
    deadline = time.monotonic() + DEADLINE
    while not happened():
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.01)


def assert_same_weights(first: Mapping[str, torch.Tensor], second: Mapping[str, torch.Tensor]) -> None:
    assert list(first) == list(second)
    for name in first:
        assert torch.equal(first[name], second[name]), f"{name} differs"


def assert_close(first: Any, second: Any) -> None:
    """Equal, but for the last digits of numbers."""
    if isinstance(first, float):
        assert math.isclose(first, second, rel_tol=1e-4, abs_tol=1e-4), (first, second)
    elif isinstance(first, Mapping):
        assert first.keys() == second.keys()
        for key in first:
            assert_close(first[key], second[key])
    elif isinstance(first, list | tuple):
        assert len(first) == len(second)
        for one, other in zip(first, second, strict=True):
            assert_close(one, other)
    else:
        assert first == second, (first, second)
