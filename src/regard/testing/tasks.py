"""Checks of tasks: train, save, load, predict, evaluate, look, kill and resume."""

from __future__ import annotations

import contextlib
import json
import math
import multiprocessing
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from regard import api
from regard.checkpoint.folder import is_model_folder, read_model
from regard.nn.state_dict import unique_tensors
from regard.nn.threads import one_thread
from regard.registry import architectures, tasks
from regard.spec import Architecture, TaskSpec
from regard.testing.checks import Check, assert_close, assert_matches_schema, assert_same_weights, spec_needs_no_torch
from regard.training.callbacks import NullProgress, Progress
from regard.training.run import TrainRequest, train_on_splits
from regard.training.trainer import InterruptedRunError
from regard.utils.errors import UsageError

STEPS = 4
NUM_TRAIN, NUM_VALIDATION = 200, 8  # examples of the built-in dataset
DEADLINE = 300.0  # seconds after which a process that makes no progress counts as hanging


@dataclass
class TaskCase:
    """A task on an architecture. All checks share one trained model."""

    spec: TaskSpec
    architecture: Architecture
    folder: Path
    settings: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def run(self) -> Path:
        """The folder of an uninterrupted run, which tasks that use the same models may share."""
        out = self.folder / "run"
        return out if out.is_dir() and is_model_folder(out) else self.train("run")

    @cached_property
    def splits(self) -> Any:
        return few_examples(self.trained_task)

    @cached_property
    def predictor(self) -> Any:
        return api.load(self.run, task=self.spec.name)

    @property
    def trained_task(self) -> TaskSpec:
        """This task, or the task that trains its models."""
        return self.spec if self.spec.trainable else tasks[self.spec.uses]

    def train(self, name: str, *, progress: Progress | None = None, **options: Any) -> Path:
        """Train the smallest model for a few steps, on one thread as in a forked process."""
        out, task = self.folder / name, self.trained_task
        smallest = {**self.architecture.test_settings, **task.test_settings, "num_evals": 1}
        settings = {**smallest, **self.settings, **options, "steps": STEPS, "model": self.architecture.name}
        with one_thread():
            train_on_splits(TrainRequest.parse(task.name, settings, out=out, progress=progress), self.splits)
        return out

    @property
    def inputs(self) -> Any:
        """The example of the task as one input of `predict`."""
        return self.spec.example[0] if len(self.spec.inputs) == 1 else self.spec.example

    def record(self) -> dict[str, Any]:
        """The result for the example."""
        (result,) = self.predictor.predict([self.inputs])
        record: dict[str, Any] = result.record()
        return record


def few_examples(spec: TaskSpec) -> Any:
    """Return the first examples of a task's built-in dataset."""
    splits = spec.load("reader")((spec.train_config or spec.read_config)()).builtin()
    return replace(splits, train=splits.train[:NUM_TRAIN], validation=splits.validation[:NUM_VALIDATION])


def schema_is_json(case: TaskCase) -> None:
    """The schema of inputs, outputs and options is plain JSON and contains every field."""
    schema = json.loads(json.dumps(case.spec.schema()))
    assert list(schema["inputs"]["properties"]) == [item.name for item in case.spec.inputs]
    assert list(schema["outputs"]["properties"]) == [item.name for item in case.spec.outputs]
    for section in ("options", "training"):
        for name, described in schema.get(section, {}).get("properties", {}).items():
            assert described.get("description"), f"{section}: {name} has no description"


def record_matches_schema(case: TaskCase) -> None:
    """The record of a result has only the declared outputs and the inputs, with the declared JSON types."""
    assert_matches_schema(case.record(), case.spec)


def unknown_settings_raise(case: TaskCase) -> None:
    """A misspelled setting and a setting of the wrong type raise an error that mentions the setting."""
    for settings, argument in (({"stepz": 3}, "stepz"), ({"steps": "many"}, "steps")):
        try:
            api.run_training(case.trained_task.name, out=case.folder / "refused", **settings)
        except UsageError as error:
            assert error.value is not None and (error.argument == argument or error.value == argument), vars(error)
        else:
            raise AssertionError(f"{settings} was accepted")
    assert not (case.folder / "refused").exists(), "a refused request leaves nothing behind"


def trained_model_predicts(case: TaskCase) -> None:
    """A trained model returns one result for the example, with `str`, `record()` and a repr of one short line."""
    (result,) = case.predictor.predict([case.inputs])
    assert isinstance(str(result), str)
    json.dumps(result.record(), allow_nan=False)
    for shown in (repr(case.predictor), repr(result)):
        assert len(shown) < 250 and "\n" not in shown and " at 0x" not in shown, shown


def saved_equals_loaded(case: TaskCase) -> None:
    """After saving and loading, the weights and the result are bitwise identical."""
    case.predictor.save(case.folder / "saved", force=True)
    loaded = api.load(case.folder / "saved", task=case.spec.name)
    assert_same_weights(unique_tensors(case.predictor.model), unique_tensors(loaded.model))
    (result,) = loaded.predict([case.inputs])
    assert result.record() == case.record()


def batched_equals_single(case: TaskCase) -> None:
    """An input has the same result in a batch and alone, up to rounding; the same batch gives the same bits."""
    batch = [longer(case.inputs, 3), case.inputs, longer(case.inputs, 2)]
    records = [result.record() for result in case.predictor.predict(batch)]
    assert len(records) == 3
    assert_close(records[1], case.record())
    assert_close(case.predictor.predict(batch[::-1])[1].record(), case.record())
    assert [result.record() for result in case.predictor.predict(batch)] == records
    assert case.predictor.predict([]) == []


def longer(value: Any, times: int) -> Any:
    """Return an input with its texts repeated."""
    return " ".join([value] * times) if isinstance(value, str) else tuple(longer(part, times) for part in value)


def evaluates(case: TaskCase) -> None:
    """The scores on built-in examples are not infinite and have a signature."""
    splits = case.splits if case.spec.trainable else few_examples(case.spec)
    scores = case.predictor.evaluate(list(splits.validation or splits.train)[:NUM_VALIDATION])
    assert scores, "there are no scores"
    for score in scores:
        assert not math.isinf(score.value), score
        assert score.signature, f"{score.name} has no signature"


def looks(case: TaskCase) -> None:
    """Every view of the model gives a page and plain JSON."""
    names = api.views_of(case.predictor)
    assert names, "the model has no views"
    for name in names:
        view = api.look(case.predictor, *case.spec.example, view=name)
        assert "<html" in view.html()
        json.dumps(view.numbers(), allow_nan=False)


def captured_equals_plain(case: TaskCase) -> None:
    """After capturing attention, results are bitwise identical."""
    before = case.record()
    assert case.predictor.trace(*case.spec.example).captured, "nothing was captured"
    assert case.record() == before


def resumed_equals_uninterrupted(case: TaskCase) -> None:
    """A run that is interrupted by Ctrl-C and resumed ends with the weights of an uninterrupted run."""
    with contextlib.suppress(InterruptedRunError):
        case.train("resumed", progress=AtStep(STEPS // 2, lambda: signal.raise_signal(signal.SIGINT)))
        raise AssertionError("the run was not interrupted")
    resumed = case.train("resumed", resume=True)
    assert_same_weights(read_model(case.run).tensors, read_model(resumed).tensors)


@dataclass
class AtStep(NullProgress):
    """Calls a function at a step."""

    step: int
    action: Callable[[], None]

    def update(self, **values: Any) -> None:
        if values["step"] == self.step:
            self.action()


def killed_and_resumed_equals_uninterrupted(case: TaskCase) -> None:
    """A run that is killed after a checkpoint and resumed ends with the weights of an uninterrupted run."""
    _ = case.splits  # read before the process is forked
    start = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
    process = multiprocessing.get_context(start).Process(target=train_and_wait, args=(case,))  # type: ignore[attr-defined]
    process.start()
    try:
        checkpoint = case.folder / "killed" / f"checkpoint-{STEPS // 2}"
        deadline = time.monotonic() + DEADLINE
        while not checkpoint.is_dir() and process.is_alive():
            assert time.monotonic() < deadline, "there is no checkpoint"
            time.sleep(0.01)
        assert process.is_alive(), "the run ended before it was killed"
    finally:
        process.kill()
        process.join()
    killed = case.train("killed", resume=True)
    assert_same_weights(read_model(case.run).tensors, read_model(killed).tensors)


def train_and_wait(case: TaskCase) -> None:
    """Train with a checkpoint after each step; after half of the steps, wait to be killed."""
    case.train("killed", save_every=1e-9, progress=AtStep(STEPS // 2 + 1, lambda: time.sleep(DEADLINE)))


STATIC_CHECKS: list[Check] = [spec_needs_no_torch, schema_is_json]
PREDICTION_CHECKS = [
    trained_model_predicts,
    record_matches_schema,
    saved_equals_loaded,
    batched_equals_single,
    evaluates,
]
TRACE_CHECKS = [looks, captured_equals_plain]
TRAINING_CHECKS = [unknown_settings_raise, resumed_equals_uninterrupted, killed_and_resumed_equals_uninterrupted]


def task_checks(name: str) -> list[Check]:
    """Return the checks that apply to a task: functions that raise AssertionError if a `TaskCase` fails."""
    training = TRAINING_CHECKS if tasks[name].trainable else []
    return [*STATIC_CHECKS, *PREDICTION_CHECKS, *TRACE_CHECKS, *training]


def task_case(name: str, folder: Path, *, model: str | None = None, **settings: Any) -> TaskCase:
    """Return a task to check, with its default architecture or with `model`."""
    spec = tasks[name]
    trained = spec if spec.trainable else tasks[spec.uses]
    return TaskCase(spec, architectures[model or trained.default_architecture], folder, settings)
