"""A complete training run for any task: read, prepare, fit, save, evaluate, report.

Data files are read before torch is imported, so that errors in them are reported immediately.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.checkpoint.card import CardData
from regard.checkpoint.output import clear_output, output_folder
from regard.metrics.score import Score, no_better
from regard.training.config import TrainingConfig
from regard.training.request import RunOptions, TrainRequest
from regard.utils.errors import FolderError, UsageError

REPORT = "report.html"


@dataclass(frozen=True)
class Run:
    """The result of a training run."""

    predictor: Any
    folder: Path
    state: Any  # TrainState
    scores: Sequence[Score]
    samples: Sequence[Any]
    scored_on: str

    @property
    def report(self) -> Path:
        return self.folder / REPORT

    def to_dict(self) -> dict[str, Any]:
        scores = [
            {"name": s.name, "value": s.value, "signature": s.signature, **({"on": s.on} if s.on else {})}
            for s in self.scores
        ]
        return {
            "folder": str(self.folder),
            "step": self.state.step,
            "scores": scores,
            "scored_on": self.scored_on,
            "report": str(self.report),
        }


def run_task(
    task: str,
    data: Sequence[Path] = (),
    *,
    out: Path,
    validation: Sequence[Path] = (),
    model: str | None = None,
    size: str | None = None,
    from_: Path | str | None = None,
    lora: bool = False,
    options: RunOptions | None = None,
    **settings: Any,
) -> Run:
    """Train a model for a task; `settings` can be any settings of its configs."""
    request = TrainRequest.parse(
        task, settings, out=out, architecture=model, size=size, pretrained=from_, lora=lora, options=options
    )
    return run_request(request, data, validation)


def run_request(request: TrainRequest, data: Sequence[Path], validation: Sequence[Path]) -> Run:
    """Train on files, or on the built-in dataset without files; write a model, its scores and a report."""
    reader = request.spec.load("reader")(request.config)
    if not data and validation:
        raise UsageError(
            "--validation requires training files; the built-in dataset has its own validation split.", argument="data"
        )
    return run_splits(request, reader.read(data, validation or None) if data else reader.builtin())


def run_splits(request: TrainRequest, splits: Any) -> Run:
    """Train on examples that a reader has already loaded."""
    options = request.options
    with output_folder(request.out, resume=options.resume, force=options.force):
        objective = request.spec.load("objective").prepare(splits, request)
        return _fit(request, objective, objective.sources or splits.sources)


def _fit(request: TrainRequest, objective: Any, sources: Sequence[CardData]) -> Run:
    from regard.checkpoint.predictors import save_predictor
    from regard.training.environment import choose_device, choose_threads, keep_freed_memory
    from regard.training.report import diagnose, write_report
    from regard.training.trainer import InterruptedRunError, Trainer

    options, out = request.options, request.out
    config = request.complete(objective.training_settings())
    device = choose_device(options.device)
    objective.model.to(device.value)
    notes: list[str] = []

    def note(*lines: str) -> None:
        notes.extend(filter(None, lines))
        for line in filter(None, lines):
            options.progress.say(line)

    options.progress.say(objective.describe())
    note(*map(str, (device, choose_threads(), keep_freed_memory())), *objective.notes, request.note_budget(config))
    callbacks = objective.callbacks()
    pretrained = objective.init.identity() if objective.init else {"from": None}
    trainer = Trainer(
        objective,
        config,
        out,
        save_every=options.save_every,
        progress=options.progress,
        identity={**objective.settings(), "examples": objective.fingerprint(), **pretrained},
        lr_multipliers=objective.lr_multipliers,
        resume_command=options.resume_command,
        callbacks=callbacks,
    )
    if options.force:  # remove the earlier run only after this one has passed all checks
        clear_output(out)
    state = trainer.fit(resume=options.resume)
    note(*diagnose(state, config))
    settings = _settings(request, objective, config)
    origin: dict[str, Any] = {name: settings[name] for name in ("from", "size") if name in settings}
    training = {**origin, **config.to_dict()}
    weights = objective.init.close(objective.model, out) if objective.init else None

    def save(scores: Sequence[Score]) -> None:
        card_scores = [replace(score, on=score.on or objective.scored_on) for score in scores]
        save_predictor(
            objective.predictor(),
            out,
            weights=weights,
            settings=settings,
            training=training,
            sources=sources,
            scores=card_scores,
            force=True,
        )

    try:
        save(())  # save before evaluating, so that a failed evaluation does not lose the model
        options.progress.say(f"evaluating: {objective.scored_on}")
        scores, samples = objective.evaluate()
        note(no_better(scores))
        for callback in callbacks:
            extra = callback.on_scores()
            note(*extra.notes)
            scores = [*scores, *extra.scores]
        save(scores)
        notes.append(f"scores: on {objective.scored_on}")
        write_report(out / REPORT, objective, scores=scores, samples=samples, settings=settings, notes=notes)
    except KeyboardInterrupt:
        command = options.resume_command(out, None)
        raise InterruptedRunError(
            f"interrupted after training, which is saved. Evaluate the model with:\n  {command}", hint=command
        ) from None
    except FolderError as error:
        command = options.resume_command(out, None)
        raise FolderError(
            f"{error} The training run is saved. Write the model with:\n  {command}", path=error.path, hint=command
        ) from error
    return Run(objective.predictor(), out, state, scores, samples, objective.scored_on)


def _settings(request: TrainRequest, objective: Any, config: TrainingConfig) -> dict[str, Any]:
    """Return all settings of a run, for the model card and the report."""
    start = objective.init.settings() if objective.init else {"size": request.preset}
    return {
        "task": request.spec.name,
        "model": request.architecture.name,
        **start,
        **config.to_dict(),
        **objective.settings(),
        **objective.predictor().config.to_dict(),
    }
