"""The public functions: train, load, predict, evaluate, look, views_of, import_model, export_model, plan.

They find tasks and architectures in the registry and use only the interfaces of `regard.spec` and `regard.tasks.base`.
Each function imports what it needs when it is called.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.utils.errors import UsageError, number_of, unknown

if TYPE_CHECKING:
    from regard.metrics.score import Scores
    from regard.nn.quantized import Precision
    from regard.tasks.base import Notify, Predictor
    from regard.training.callbacks import Progress
    from regard.training.plan import Plan
    from regard.training.run import ResumeCommand, Run
    from regard.views.view import View

PathLike = str | Path


def train(
    task: str,
    data: PathLike | Sequence[PathLike] | None = None,
    *,
    out: PathLike | None = None,
    validation: PathLike | Sequence[PathLike] | None = None,
    progress: bool = False,
    **settings: Any,
) -> Predictor[Any]:
    """Train a model for `task` and return its predictor.

    `data` are files in one of the task's formats; by default the built-in dataset is used. `settings` are the options
    of `regard train TASK --help`: `model`, `size`, `from_`, `lora`, `minutes`, `steps`, `learning_rate`, `d_model` …
    Without `out` the run folder is temporary.
    """
    from regard.training.callbacks import NullProgress, default_progress

    reporter = default_progress() if progress else NullProgress()
    folder = Path(out) if out is not None else Path(tempfile.mkdtemp(prefix="regard-"))
    try:
        run = run_training(task, data, out=folder, validation=validation, progress=reporter, **settings)
    finally:
        reporter.close()
    predictor: Predictor[Any] = run.predictor
    return predictor


def run_training(
    task: str,
    data: PathLike | Sequence[PathLike] | None = None,
    *,
    out: PathLike,
    validation: PathLike | Sequence[PathLike] | None = None,
    progress: Progress | None = None,
    resume_command: ResumeCommand | None = None,
    **settings: Any,
) -> Run:
    """Like `train`, but also return the scores, samples, folder and report.

    `progress` shows the state of the run. `resume_command` returns the command that errors suggest for resuming.
    """
    from regard.training.run import TrainRequest, train_on_files

    request = TrainRequest.parse(task, settings, out=Path(out), progress=progress, resume_command=resume_command)
    return train_on_files(request, _paths(data), _paths(validation))


def load(folder: PathLike, *, task: str | None = None, precision: Precision = "fp32") -> Predictor[Any]:
    """Load the predictor of a model folder that regard or `transformers` wrote.

    `task` selects a task other than the one the model was trained for; any encoder supports "embed". `precision`
    "int8" or "int4" quantizes the weight matrices: a quarter or an eighth of the memory, and faster generation.
    """
    from regard.checkpoint.predictors import load_predictor

    predictor: Predictor[Any] = load_predictor(Path(folder), task=task, precision=precision)
    return predictor


def predict(model: Predictor[Any] | PathLike, *inputs: Any, notify: Notify | None = None, **options: Any) -> Any:
    """Return the result for one input, or a list of results for a list of inputs."""
    return _predictor(model)(*inputs, notify=notify, **options)


def evaluate(
    model: Predictor[Any] | PathLike,
    data: PathLike | Sequence[PathLike],
    *,
    notify: Notify | None = None,
    **options: Any,
) -> Scores:
    """Return the official scores of a model on files in the formats of `train`, each with its signature and baseline.

    `options` are those of `regard evaluate MODEL --help`. `notify` receives notes on the files, such as skipped rows.
    """
    from regard.utils.config import split_settings

    predictor = _predictor(model)
    spec, paths = predictor.spec, _paths(data)
    if not paths:
        raise UsageError("data is empty. Add a test file.", argument="data")
    read_options, predict_options = split_settings(options, (spec.read_config, spec.predict_config))
    test = spec.load("reader")(spec.read_config(**read_options)).read_test(paths, predictor)
    if notify is not None:
        for line in test.notes():
            notify(line)
    return predictor.evaluate(test.examples, predictor.config.replace(**predict_options))


def look(model: Predictor[Any] | PathLike, *inputs: Any, view: str | None = None, **options: Any) -> View:
    """Return a view of what a model does with an input: a page to show, save or serve.

    `view` is one of `views_of(model)`, by default the first one, usually attention. `options` are those of the view.
    """
    from regard.registry import views as registry
    from regard.spec import resolve

    predictor = _predictor(model)
    available, limit = views_of(predictor), predictor.max_inputs
    if not inputs or (limit is not None and len(inputs) > limit):
        names = " and ".join(field.name for field in predictor.spec.inputs)
        message = f"{predictor.spec.noun} takes {names}, got {number_of(len(inputs), 'input')}."
        raise UsageError(message, argument="inputs", value=len(inputs))
    if not available:
        raise UsageError(f"no view supports {predictor.spec.noun} of this architecture.", argument="view")
    name = view or next(iter(available))
    if name not in available:
        raise unknown("view", name, available)
    spec = registry[name]
    config = spec.config(**options) if spec.config is not None else None
    if options and config is None:
        raise UsageError(f"the view {name!r} takes no options. Remove {', '.join(options)}.", argument=min(options))
    drawn: View = resolve(spec.build)(predictor, inputs, config)
    return drawn


def views_of(model: Predictor[Any] | PathLike) -> dict[str, str]:
    """Return the views that a model supports, with their summaries; the views listed by its task come first."""
    from regard.registry import views as registry

    predictor = _predictor(model)
    supported = {name: view for name, view in registry.usable().items() if view.needs <= predictor.capabilities}
    first = [name for name in predictor.spec.views if name in supported]
    return {name: supported[name].summary for name in dict.fromkeys([*first, *supported])}


def import_model(folder: PathLike, out: PathLike, *, force: bool = False) -> Predictor[Any]:
    """Convert a Hugging Face folder into a regard folder, and return its predictor."""
    from regard.checkpoint.predictors import import_folder

    predictor: Predictor[Any] = import_folder(Path(folder), Path(out), force=force)
    return predictor


def export_model(folder: PathLike, out: PathLike, *, force: bool = False) -> list[str]:
    """Write a folder that `transformers` loads with the same logits. Return its class, then notes for the user."""
    from regard.checkpoint.predictors import export_folder

    return list(export_folder(Path(folder), Path(out), force=force))


def plan(preset: str, **options: Any) -> Plan:
    """Count parameters, memory and compute of a preset without building it; `options` as in `regard plan --help`."""
    from regard.training.plan import plan as plan_preset

    return plan_preset(preset, **options)


def _predictor(model: Predictor[Any] | PathLike) -> Predictor[Any]:
    return load(model) if isinstance(model, str | Path) else model


def _paths(data: PathLike | Sequence[PathLike] | None) -> list[Path]:
    paths = [data] if isinstance(data, str | Path) else data or []
    return [Path(path) for path in paths]
