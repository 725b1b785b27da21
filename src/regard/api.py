"""The public functions: train, load, predict, evaluate, look, tasks, models.

They work through the registry and the contracts of `regard.spec` and `regard.tasks.base`; no task or architecture is
named here. Each function imports what it needs when it is called.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.utils.errors import UsageError, number_of, unknown

if TYPE_CHECKING:
    from regard.metrics.score import Scores
    from regard.nn.quantized import Precision
    from regard.spec import Architecture, TaskSpec
    from regard.tasks.base import Notify, Predictor
    from regard.training.progress import Progress
    from regard.training.request import ResumeCommand
    from regard.training.run import Run
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

    `data` are files in one of the task's formats; without them the built-in dataset is used. `settings` are the
    options of `regard train TASK --help`: `model`, `size`, `from_`, `lora`, `minutes`, `steps`, `learning_rate`,
    `d_model` … Without `out` the run folder is a temporary one.
    """
    from regard.training.progress import NullProgress, for_terminal

    shown = for_terminal() if progress else NullProgress()
    folder = Path(out) if out is not None else Path(tempfile.mkdtemp(prefix="regard-"))
    try:
        run = run_training(task, data, out=folder, validation=validation, progress=shown, **settings)
    finally:
        shown.close()
    predictor: Predictor[Any] = run.predictor
    return predictor


def run_training(
    task: str,
    data: PathLike | Sequence[PathLike] | None = None,
    *,
    out: PathLike,
    validation: PathLike | Sequence[PathLike] | None = None,
    model: str | None = None,
    size: str | None = None,
    from_: PathLike | None = None,
    lora: bool = False,
    device: str = "auto",
    save_every: float = 60.0,
    resume: bool = False,
    force: bool = False,
    progress: Progress | None = None,
    resume_command: ResumeCommand | None = None,
    **settings: Any,
) -> Run:
    """`train`, with everything that came out of it: predictor, scores, samples, folder and report."""
    from regard.training.progress import NullProgress
    from regard.training.request import RunOptions, resume_in_python
    from regard.training.run import run_task

    options = RunOptions(
        device=device,
        save_every=save_every,
        resume=resume,
        force=force,
        progress=progress or NullProgress(),
        resume_command=resume_command or resume_in_python,
    )
    return run_task(
        task,
        _paths(data),
        out=Path(out),
        validation=_paths(validation),
        model=model,
        size=size,
        from_=from_,
        lora=lora,
        options=options,
        **settings,
    )


def load(folder: PathLike, *, task: str | None = None, precision: Precision = "fp32") -> Predictor[Any]:
    """The predictor in a model folder: one that regard wrote, or one that `transformers` wrote.

    With `task` the model does another task than the one it was trained for, if it can: any encoder embeds. With
    `precision` "int8" or "int4" the weight matrices are quantized: a quarter or an eighth of the memory, and faster
    generation.
    """
    from regard.checkpoint.predictors import load_predictor

    predictor: Predictor[Any] = load_predictor(Path(folder), task=task, precision=precision)
    return predictor


def predict(model: Predictor[Any] | PathLike, *inputs: Any, notify: Notify | None = None, **options: Any) -> Any:
    """The result of one input, or of a list of inputs a list of results."""
    return _predictor(model)(*inputs, notify=notify, **options)


def evaluate(
    model: Predictor[Any] | PathLike,
    data: PathLike | Sequence[PathLike],
    *,
    notify: Notify | None = None,
    **options: Any,
) -> Scores:
    """The official scores of a model on files, read as `train` reads them, each with its signature and baseline.

    `options` are those of `regard evaluate MODEL --help`: how the files are read, and how predictions are made.
    `notify` takes remarks on the files, such as rows that were skipped.
    """
    from regard.utils.config import split_settings

    predictor = _predictor(model)
    spec, paths = predictor.spec, _paths(data)
    if not paths:
        raise UsageError("evaluate needs a test file.", argument="data")
    reading, given = split_settings(options, (spec.read_config, spec.predict_config))
    reader = spec.load("reader")(spec.read_config(**reading))
    test = reader.read_test(paths, predictor)
    if notify is not None:
        for line in test.notes():
            notify(line)
    return predictor.evaluate(test.examples, predictor.config.replace(**given))


def look(model: Predictor[Any] | PathLike, *inputs: Any, view: str | None = None, **options: Any) -> View:
    """A view of what a model does with an input: a page to show, save or serve.

    `view` is one of `views_of(model)`; without it the first, usually the attention. `options` are those of the view.
    """
    from regard.registry import views as registered
    from regard.spec import resolve

    predictor = _predictor(model)
    offered = views_of(predictor)
    _check_count(predictor, inputs)
    if not offered:
        raise UsageError(f"{predictor.spec.noun} of this architecture has nothing to look at.", argument="view")
    name = view or next(iter(offered))
    if name not in offered:
        raise unknown("view", name, offered)
    spec = registered[name]
    config = spec.config(**options) if spec.config is not None else None
    if options and config is None:
        raise UsageError(f"the view {name!r} has no options.", argument=min(options))
    drawn: View = resolve(spec.build)(predictor, inputs, config)
    return drawn


def _check_count(predictor: Predictor[Any], inputs: Sequence[Any]) -> None:
    limit = predictor.max_inputs
    if not inputs or (limit is not None and len(inputs) > limit):
        names = " and ".join(field.name for field in predictor.spec.inputs)
        raise UsageError(
            f"{number_of(len(inputs), 'text')} given; {predictor.spec.noun} takes {names}.",
            argument="inputs",
            value=len(inputs),
        )


def views_of(model: Predictor[Any] | PathLike) -> dict[str, str]:
    """The views that a model offers, with what each shows; the task's own first."""
    from regard.registry import views as registered

    predictor = _predictor(model)
    able = {name: view for name, view in registered.usable().items() if view.needs <= predictor.capabilities}
    first = [name for name in predictor.spec.views if name in able]
    return {name: able[name].summary for name in dict.fromkeys([*first, *able])}


def tasks() -> Mapping[str, TaskSpec]:
    """Every task by name: the built-in ones and those of installed packages."""
    from regard.registry import tasks as registered

    return registered


def models() -> Mapping[str, Architecture]:
    """Every architecture by name: the built-in ones and those of installed packages."""
    from regard.registry import architectures

    return architectures


def _predictor(model: Predictor[Any] | PathLike) -> Predictor[Any]:
    return load(model) if isinstance(model, str | Path) else model


def _paths(given: PathLike | Sequence[PathLike] | None) -> list[Path]:
    if given is None:
        return []
    return [Path(given)] if isinstance(given, str | Path) else [Path(path) for path in given]
