"""Conformance checks for tasks and architectures of regard and of other packages.

    from regard.testing import check_task

    def test_reverse(tmp_path):
        check_task("reverse", tmp_path)

The checks train the smallest model on a few examples of the task's built-in dataset, so that they take seconds. Declare
a check that cannot pass as an exception with a reason; an exception that passes is an error. To get one test per check,
parametrize over `task_checks(name)` or `ARCHITECTURE_CHECKS`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import inspect
import json
import math
import multiprocessing
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard import api
from regard.checkpoint.folder import is_model_folder, read_model
from regard.generation.config import SearchConfig
from regard.generation.search import beam_search
from regard.models.heads import HEAD_KINDS, LABELLED, HeadConfig
from regard.nn.hooks import AttentionHook, addresses_of, capture
from regard.nn.state_dict import unique_tensors
from regard.nn.threads import one_thread
from regard.registry import architectures, architectures_for, tasks
from regard.spec import Architecture, TaskSpec, resolve
from regard.training.callbacks import NullProgress, Progress
from regard.training.run import TrainRequest, run_splits
from regard.training.trainer import InterruptedRunError
from regard.utils.errors import UsageError, unknown

STEPS = 4
NUM_TRAIN, NUM_VALIDATION = 200, 8  # examples of the built-in dataset
DEADLINE = 300.0  # seconds after which a process that makes no progress counts as hanging


Check = Callable[[Any], None]


@dataclass
class TaskCase:
    """A task on an architecture. All checks share one trained model."""

    spec: TaskSpec
    architecture: Architecture
    folder: Path
    settings: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def run(self) -> Path:
        """The folder of an uninterrupted run; tasks that use the same models may share it."""
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
            run_splits(TrainRequest.parse(task.name, settings, out=out, progress=progress), self.splits)
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
    """The first examples of a task's built-in dataset."""
    splits = spec.load("reader")((spec.train_config or spec.read_config)()).builtin()
    return replace(splits, train=splits.train[:NUM_TRAIN], validation=splits.validation[:NUM_VALIDATION])


# --- Checks of tasks ----------------------------------------------------------------------------------------


def spec_needs_no_torch(subject: TaskCase | Architecture) -> None:
    """Importing the spec of a task or an architecture does not import torch."""
    registry, spec = ("tasks", subject.spec) if isinstance(subject, TaskCase) else ("architectures", subject)
    lookup = f"from regard.registry import {registry}; {registry}[{spec.name!r}]"
    code = f"import sys; {lookup}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0, f"{spec.name} imports torch"


def schema_is_json(case: TaskCase) -> None:
    """The schema of inputs, outputs and options is plain JSON and names every field."""
    schema = json.loads(json.dumps(case.spec.schema()))
    assert list(schema["inputs"]["properties"]) == [item.name for item in case.spec.inputs]
    assert list(schema["outputs"]["properties"]) == [item.name for item in case.spec.outputs]
    for section in ("options", "training"):
        for name, described in schema.get(section, {}).get("properties", {}).items():
            assert described.get("description"), f"{section}: {name} has no description"


def record_matches_schema(case: TaskCase) -> None:
    """The record of a result has the declared outputs, no others besides the inputs, and the declared JSON types."""
    assert_matches_schema(case.record(), case.spec)


def assert_matches_schema(record: Mapping[str, Any], spec: TaskSpec) -> None:
    """Compare a record with the outputs that a task declares; it may repeat inputs."""
    schema = spec.schema()["outputs"]
    fields = {**spec.schema()["inputs"]["properties"], **schema["properties"]}
    missing, undeclared = set(schema["required"]) - set(record), set(record) - set(fields)
    assert not missing and not undeclared, f"missing: {sorted(missing)}; undeclared: {sorted(undeclared)}"
    assert set(record) & set(schema["properties"]), "there is no output"
    for name, value in record.items():
        assert has_type(value, fields[name]), f"{name}: {value!r} is not {fields[name]['type']}"


def has_type(value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether a JSON value has the type that a schema gives."""
    allowed = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    kinds = {str: "string", bool: "boolean", int: "number", float: "number", list: "array", dict: "object"}
    if (kinds.get(type(value)) if value is not None else "null") not in allowed:
        return False
    if isinstance(value, list):
        return all(has_type(item, schema["items"]) for item in value)
    of_values = schema.get("additionalProperties")
    return not (of_values and isinstance(value, dict)) or all(has_type(item, of_values) for item in value.values())


def unknown_settings_raise(case: TaskCase) -> None:
    """A misspelled setting and a setting of the wrong type raise an error that names them."""
    for settings, argument in (({"stepz": 3}, "stepz"), ({"steps": "many"}, "steps")):
        try:
            api.run_training(case.trained_task.name, out=case.folder / "refused", **settings)
        except UsageError as error:
            assert error.value is not None and (error.argument == argument or error.value == argument), vars(error)
        else:
            raise AssertionError(f"{settings} was accepted")
    assert not (case.folder / "refused").exists(), "a refused request leaves nothing behind"


def trained_model_predicts(case: TaskCase) -> None:
    """A trained model gives one result for the example: `str`, `record()`; its repr is one short line."""
    (result,) = case.predictor.predict([case.inputs])
    assert isinstance(str(result), str)
    json.dumps(result.record(), allow_nan=False)
    for shown in (repr(case.predictor), repr(result)):
        assert len(shown) < 250 and "\n" not in shown and " at 0x" not in shown, shown


def saved_equals_loaded(case: TaskCase) -> None:
    """Saving and loading changes no bit of the weights or the result."""
    case.predictor.save(case.folder / "saved", force=True)
    loaded = api.load(case.folder / "saved", task=case.spec.name)
    assert_same_weights(unique_tensors(case.predictor.model), unique_tensors(loaded.model))
    (result,) = loaded.predict([case.inputs])
    assert result.record() == case.record()


def batched_equals_single(case: TaskCase) -> None:
    """An input in a batch gets the result that it gets alone, up to rounding; the same batch gets the same bits."""
    batch = [longer(case.inputs, 3), case.inputs, longer(case.inputs, 2)]
    records = [result.record() for result in case.predictor.predict(batch)]
    assert len(records) == 3
    assert_close(records[1], case.record())
    assert_close(case.predictor.predict(batch[::-1])[1].record(), case.record())
    assert [result.record() for result in case.predictor.predict(batch)] == records
    assert case.predictor.predict([]) == []


def longer(value: Any, times: int) -> Any:
    """An input with its texts repeated."""
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
    """Capturing attention changes no bit of later results."""
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
    """Train with a checkpoint after each step; half way, wait to be killed."""
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
    """The checks that apply to a task: functions that raise AssertionError if a `TaskCase` fails."""
    training = TRAINING_CHECKS if tasks[name].trainable else []
    return [*STATIC_CHECKS, *PREDICTION_CHECKS, *TRACE_CHECKS, *training]


def check_task(
    name: str, folder: Path, *, model: str | None = None, exceptions: Mapping[str, str] | None = None, **settings: Any
) -> None:
    """Run every check on a task; `exceptions` maps the names of checks that cannot pass to the reason."""
    run_checks(task_case(name, folder, model=model, **settings), task_checks(name), exceptions or {})


def task_case(name: str, folder: Path, *, model: str | None = None, **settings: Any) -> TaskCase:
    """A task to check, on its default architecture or on `model`."""
    spec = tasks[name]
    trained = spec if spec.trainable else tasks[spec.uses]
    return TaskCase(spec, architectures[model or trained.default_architecture], folder, settings)


# --- Checks of architectures --------------------------------------------------------------------------------


def presets_are_valid(architecture: Architecture) -> None:
    """Every preset gives a valid config."""
    for settings in architecture.presets.values():
        architecture.config(**{**required_settings(architecture), **settings})


def costs_count_parameters(architecture: Architecture) -> None:
    """The cost model predicts the number of parameters of a built model."""
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


# --- Checks of models: smallest ones, with random weights --------------------------------------------------


class Tokens(NamedTuple):
    """Token ids: a source and a target, or the two segments of a pair."""

    source: list[int]
    target: list[int]


# Lengths 1 to 13, none a multiple of another.
TEXTS = [
    Tokens([3, 14, 15, 9, 26, 5, 30], [27, 18, 28, 18, 28]),
    Tokens([2], [7, 1, 8, 2, 8, 1, 8, 28, 4, 5, 9, 0, 4]),
    Tokens([16, 18, 0, 3, 3, 9, 8, 8, 7, 4, 9], [1]),
    Tokens([5, 7, 7], [2, 15, 6]),
]
START_ID, END_ID, NUM_NEW = 4, 6, 6  # of generation
DTYPES = (torch.float32, torch.float64)


@dataclass(frozen=True)
class ModelCase:
    """A model with random weights. The capabilities of its architecture say how it is called:

    | capability | call | output |
    |---|---|---|
    | encoder-decoder | `model(source, target, attention_mask=…)` | logits (B, T, V) |
    | decoder | `model(ids)` | logits (B, T, V) |
    | encoder, or a kind of head | `model(ids, lengths, type_ids)` | one or several of (B, T, …) and (B, …) |
    """

    architecture: Architecture
    config: Any
    head: HeadConfig | None = None
    dtype: torch.dtype = torch.float32

    @cached_property
    def model(self) -> Any:
        model = self.architecture.build(self.config, self.head)
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(0)
            for parameter in model.parameters():  # those that start at zero, too
                parameter.normal_(mean=float(parameter.dim() == 1), std=0.3)
        return model.to(self.dtype).eval()

    @property
    def has_source(self) -> bool:
        return "encoder-decoder" in self.architecture.capabilities

    @property
    def generates(self) -> bool:
        return self.architecture.decoder_builder is not None

    def run(self, texts: Sequence[Tokens], padding: int = 0) -> list[Tensor]:
        """The outputs of each text without its padding, flat. The batch has `padding` more columns than it needs."""
        if self.has_source:
            source, lengths = batch([text.source for text in texts], padding)
            is_token = torch.arange(source.shape[1]) < lengths[:, None]
            target, counts = batch([text.target for text in texts], padding)
            found = self.model(source, target, attention_mask=is_token)
        elif "decoder" in self.architecture.capabilities:
            ids, counts = batch([text.target for text in texts], padding)
            found = self.model(ids)
        else:
            ids, counts = batch([text.source + text.target for text in texts], padding)
            types = torch.arange(ids.shape[1]) >= torch.tensor([len(text.source) for text in texts])[:, None]
            found = self.model(ids, counts, types.long())
        parts = [part for part in ([found] if isinstance(found, Tensor) else found) if part is not None]
        return [
            torch.cat([(part[row] if part.dim() == 2 else part[row, :count]).flatten() for part in parts])
            for row, count in enumerate(counts.tolist())
        ]

    @property
    def has_backends(self) -> bool:
        """Whether its decoder can run on the compiled kernels."""
        return "backend" in inspect.signature(resolve(self.architecture.decoder_builder or "")).parameters

    def decoder(self, backend: str = "torch", start_id: int = START_ID) -> Any:
        options: dict[str, Any] = {"start_id": start_id} if self.has_source else {}
        return self.architecture.decoder(self.model, **options, **({"backend": backend} if self.has_backends else {}))

    def decode(self, text: Tokens, backend: str = "torch") -> Tensor:
        """The logits of `run` for one text, computed token by token."""
        first, *rest = text.target
        decoder, prompt = self.decoder(backend, first), text.source if self.has_source else [first]
        parts = [decoder.prefill(torch.tensor([prompt]), torch.tensor([len(prompt)]))]
        return torch.cat(parts + [decoder.step(torch.tensor([id_])) for id_ in rest]).flatten()

    def prompts(self, texts: Sequence[Tokens]) -> tuple[Tensor, Tensor]:
        return batch([text.source if self.has_source else text.target for text in texts], 0)

    def continue_texts(self, texts: Sequence[Tokens], backend: str = "torch") -> list[Tensor]:
        """The logits of the first two new tokens of each text."""
        decoder = self.decoder(backend)
        first = decoder.prefill(*self.prompts(texts))
        return list(torch.cat([first, decoder.step(torch.full((len(texts),), 3))], dim=1))

    def assert_near(self, found: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
        """Equal within 1e-5 (fp32) or 1e-10 (fp64) of the largest value."""
        tolerance = 1e-5 if self.dtype is torch.float32 else 1e-10
        for one, other in zip(found, expected, strict=True):
            assert one.shape == other.shape
            difference, largest = (one - other).abs().max(), other.abs().max()
            assert difference <= tolerance * largest, f"{difference:.2e} of {largest:.2e}"


def batch(rows: Sequence[Sequence[int]], padding: int) -> tuple[Tensor, Tensor]:
    """Padded ids and the lengths of the rows. The padding is an ordinary token, so that it counts if it is read."""
    lengths = torch.tensor([len(row) for row in rows])
    width = int(lengths.max()) + padding
    return torch.tensor([[*row, *[1] * (width - len(row))] for row in rows]), lengths


@torch.no_grad()
def captured_equals_uncaptured(case: ModelCase) -> None:
    """Capturing attention changes no bit of the outputs, and captures every attention."""
    if "attention" not in case.architecture.capabilities:
        return
    plain = case.run(TEXTS)
    with capture(case.model) as trace:
        captured = case.run(TEXTS)
    assert all(torch.equal(one, other) for one, other in zip(plain, captured, strict=True))
    hooks = {at for hook, at in addresses_of(case.model).items() if isinstance(hook, AttentionHook)}
    assert set(trace.captured) == hooks
    for address in hooks:
        sums = trace[address].weights().sum(dim=-1)
        torch.testing.assert_close(sums, torch.ones_like(sums), atol=1e-5, rtol=0)


@torch.no_grad()
def padded_equals_unpadded(case: ModelCase) -> None:
    """Neither padding nor the other texts of a batch change the outputs of a text, up to rounding."""
    alone = [case.run([text])[0] for text in TEXTS]
    for padding in (0, 1, 7):
        case.assert_near(case.run(TEXTS, padding), alone)
    case.assert_near(case.run(TEXTS[::-1])[::-1], alone)
    if case.generates:
        case.assert_near(case.continue_texts(TEXTS), [case.continue_texts([text])[0] for text in TEXTS])


@torch.no_grad()
def later_tokens_change_nothing(case: ModelCase) -> None:
    """The outputs of a generating model up to a position do not depend on later tokens, to the bit."""
    for text in TEXTS if case.generates else ():
        count = len(text.target)
        before = case.run([text])[0].view(count, -1)
        for t in range(count - 1):
            changed = [*text.target[: t + 1], text.target[t + 1] + 1, *text.target[t + 2 :]]
            after = case.run([text._replace(target=changed)])[0].view(count, -1)
            assert torch.equal(before[: t + 1], after[: t + 1]), f"position {t} depends on position {t + 1}"
            assert not torch.equal(before[t + 1], after[t + 1]), f"position {t + 1} does not depend on its token"


@torch.no_grad()
def cached_equals_uncached(case: ModelCase) -> None:
    """The decoder gives the logits of one pass over the whole text, up to rounding."""
    if case.generates:
        case.assert_near([case.decode(text) for text in TEXTS], [case.run([text])[0] for text in TEXTS])


@torch.no_grad()
def compiled_equals_torch(case: ModelCase) -> None:
    """The compiled decoder, if there is one, gives the logits of torch, up to rounding."""
    if case.generates and case.has_backends and case.dtype is torch.float32 and importlib.util.find_spec("numba"):
        case.assert_near([case.decode(text, "kernels") for text in TEXTS], [case.run([text])[0] for text in TEXTS])
        case.assert_near(case.continue_texts(TEXTS, "kernels"), case.continue_texts(TEXTS))


@torch.no_grad()
def beam_1_equals_greedy(case: ModelCase) -> None:
    """Beam search with one beam chooses the most probable token at each step."""
    if not case.generates:
        return
    ids, lengths = case.prompts(TEXTS)
    config = SearchConfig(num_beams=1, max_new_tokens=NUM_NEW)
    found = beam_search(case.decoder(), ids, lengths, end_id=END_ID, config=config)
    decoder = case.decoder()
    chosen = [decoder.prefill(ids, lengths).argmax(dim=-1)]
    while len(chosen) < NUM_NEW:
        chosen.append(decoder.step(chosen[-1]).argmax(dim=-1))
    for (best,), row in zip(found, torch.stack(chosen, dim=1).tolist(), strict=True):
        assert list(best.ids) == row[: row.index(END_ID) if END_ID in row else None]


def every_parameter_has_a_gradient(case: ModelCase) -> None:
    """The outputs depend on every parameter. An encoder without a head may have a pooler that they do not use."""
    if case.head is not None and case.head.kind == "none":
        return
    outputs = torch.cat(case.run(TEXTS))
    parameters = dict(case.model.named_parameters())
    gradients = torch.autograd.grad(outputs.square().sum(), list(parameters.values()), allow_unused=True)
    for name, gradient in zip(parameters, gradients, strict=True):
        assert gradient is not None and gradient.isfinite().all() and gradient.any(), f"{name} has no gradient"


MODEL_CHECKS: list[Check] = [
    captured_equals_uncaptured,
    padded_equals_unpadded,
    later_tokens_change_nothing,
    cached_equals_uncached,
    compiled_equals_torch,
    beam_1_equals_greedy,
    every_parameter_has_a_gradient,
]


def model_cases(architecture: Architecture) -> list[ModelCase]:
    """The smallest model of an architecture with each kind of head that it has, in fp32 and fp64."""
    kinds = [kind for kind in HEAD_KINDS if kind in architecture.capabilities]
    heads: list[HeadConfig | None] = [
        HeadConfig(kind=kind, labels=("a", "b", "c") if kind in LABELLED else ())  # type: ignore[arg-type]
        for kind in (["none", *kinds] if "encoder" in architecture.capabilities else kinds)
    ]
    config = smallest_config(architecture)
    return [ModelCase(architecture, config, head, dtype) for head in heads or [None] for dtype in DTYPES]


def for_all_models(check: Check) -> Check:
    """A check of models as a check of an architecture."""

    @functools.wraps(check)
    def run(architecture: Architecture) -> None:
        for case in model_cases(architecture):
            check(case)

    return run


# Functions that raise AssertionError if an `Architecture` fails.
ARCHITECTURE_CHECKS: list[Check] = [spec_needs_no_torch, presets_are_valid, costs_count_parameters, building_is_seeded]
ARCHITECTURE_CHECKS += [for_all_models(check) for check in MODEL_CHECKS]


def check_architecture(name: str, folder: Path, *, exceptions: Mapping[str, str] | None = None) -> None:
    """Run every check on an architecture, and the checks of every task that it supports.

    `exceptions` maps the name of a check, or "task.check", to the reason why it cannot pass.
    """
    declared = exceptions or {}
    own = {check: why for check, why in declared.items() if "." not in check}
    run_checks(architectures[name], ARCHITECTURE_CHECKS, own)
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


def run_checks(subject: Any, checks: Sequence[Check], exceptions: Mapping[str, str]) -> None:
    """Run checks; those with a declared exception must fail, all others must pass."""
    names = [check.__name__ for check in checks]
    for name in exceptions:
        if name not in names:
            raise unknown("exceptions", name, names)
    for name, check in zip(names, checks, strict=True):
        try:
            check(subject)
        except (AssertionError, UsageError):
            if name not in exceptions:
                raise
        else:
            assert name not in exceptions, f"{name} passes: remove its exception ({exceptions[name]})"


def assert_same_weights(first: Mapping[str, torch.Tensor], second: Mapping[str, torch.Tensor]) -> None:
    assert list(first) == list(second)
    for name in first:
        assert torch.equal(first[name], second[name]), f"{name} differs"


def assert_close(first: Any, second: Any) -> None:
    """Equal, except that floats may differ by 1e-5 of the largest one."""
    (left, left_floats), (right, right_floats) = without_floats(first), without_floats(second)
    assert left == right
    largest = max(map(abs, left_floats), default=0.0)
    for one, other in zip(left_floats, right_floats, strict=True):
        assert abs(one - other) <= 1e-5 * largest, (one, other)


def without_floats(value: Any) -> tuple[Any, list[float]]:
    """A JSON value with "float" instead of each float, and the floats."""
    floats: list[float] = []

    def replaced(part: Any) -> Any:
        if isinstance(part, float):
            floats.append(part)
            return "float"
        if isinstance(part, Mapping):
            return [(name, replaced(item)) for name, item in part.items()]
        return [replaced(item) for item in part] if isinstance(part, list | tuple) else part

    return replaced(value), floats
