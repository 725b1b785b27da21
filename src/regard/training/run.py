"""One training from request to report: read, prepare, fit, save, score, report. Knows no task.

Files are read before torch is imported: what is wrong with them is reported at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.checkpoint.card import CardData, CardScore
from regard.checkpoint.output import clear_output, output_folder
from regard.metrics.score import Score, no_better
from regard.training.config import TrainingConfig
from regard.training.request import RunOptions, TrainRequest
from regard.utils.errors import FolderError, UsageError

REPORT = "report.html"


@dataclass(frozen=True)
class Run:
    """What came out of a training."""

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
    """Train a model for a task; `settings` are those of its configs."""
    request = TrainRequest.parse(
        task, settings, out=out, architecture=model, size=size, pretrained=from_, lora=lora, options=options
    )
    return run_request(request, data, validation)


def run_request(request: TrainRequest, data: Sequence[Path], validation: Sequence[Path]) -> Run:
    """Train what was requested on files, or on the built-in dataset; leave a model, its scores and a report."""
    reader = request.spec.load("reader")(request.config)
    if not data and validation:
        raise UsageError(
            "--validation needs training files; without them the built-in dataset is used.", argument="data"
        )
    return run_splits(request, reader.read(data, validation or None) if data else reader.builtin())


def run_splits(request: TrainRequest, splits: Any) -> Run:
    """Train what was requested on examples that a reader of the task has read."""
    options = request.options
    with output_folder(request.out, resume=options.resume, force=options.force):
        objective = request.spec.load("objective").prepare(splits, request)
        return _fit(request, objective, objective.sources or splits.sources)


def _fit(request: TrainRequest, objective: Any, sources: Sequence[CardData]) -> Run:
    from regard.training.diagnosis import diagnose
    from regard.training.environment import choose_device, choose_threads, keep_freed_memory
    from regard.training.interrupts import InterruptedRunError
    from regard.training.report import write_report
    from regard.training.trainer import Trainer

    options, out = request.options, request.out
    config = request.complete(objective.training_settings())
    device = choose_device(options.device)
    objective.model.to(device.value)
    notes = [str(choice) for choice in (device, choose_threads(), keep_freed_memory())]
    notes += [note for note in (*objective.notes, request.note_budget(config)) if note]
    for line in (objective.describe(), *notes):
        options.progress.say(line)
    callbacks = objective.callbacks()
    trainer = Trainer(
        objective,
        config,
        out,
        save_every=options.save_every,
        progress=options.progress,
        identity=_identity(objective),
        lr_multipliers=objective.lr_multipliers,
        resume_command=options.resume_command,
        callbacks=callbacks,
    )
    if options.force:  # the earlier run is removed only when nothing can be wrong with this one any more
        clear_output(out)
    state = trainer.fit(resume=options.resume)

    def say(lines: Sequence[str]) -> None:
        for line in lines:
            options.progress.say(line)
        notes.extend(lines)

    say(diagnose(state, config))
    settings = _settings(request, objective, config)
    written = _Written(request, objective, config, sources, settings)
    try:
        written.write(())  # before the scores: whatever happens to them, the model is there
        options.progress.say(f"evaluating: {objective.scored_on}")
        scores, samples = objective.evaluate()
        say([note for note in [no_better(scores)] if note])
        for callback in callbacks:
            more = callback.on_scores()
            say(more.notes)
            scores = [*scores, *more.scores]
        written.write(scores)
        write_report(
            out / REPORT,
            title=out.name,
            loss_unit=objective.loss_unit,
            scores=scores,
            samples=samples,
            sample_names=objective.sample_names,
            settings=settings,
            notes=[*notes, f"scores: on {objective.scored_on}"],
            traces=objective.traces(samples),
        )
    except KeyboardInterrupt:
        raise InterruptedRunError(
            "interrupted after the training, which is saved. Score the model with:\n"
            f"  {options.resume_command(out, None)}"
        ) from None
    except FolderError as error:
        raise FolderError(
            f"{error} The training is saved. Write the model with:\n  {options.resume_command(out, None)}"
        ) from error
    return Run(objective.predictor(), out, state, scores, samples, objective.scored_on)


def _identity(objective: Any) -> dict[str, Any]:
    """Settings and data that a resumed run must share, besides the training config."""
    pretrained = objective.init.identity() if objective.init else {"from": None}
    return {**objective.settings(), "examples": objective.fingerprint(), **pretrained}


def _settings(request: TrainRequest, objective: Any, config: TrainingConfig) -> dict[str, Any]:
    """All settings of a run, for card and report."""
    chosen: dict[str, Any] = {"task": request.spec.name, "model": request.architecture.name}
    chosen |= objective.init.settings() if objective.init else {"size": request.preset}
    return {**chosen, **config.to_dict(), **objective.settings(), **objective.predictor().config.to_dict()}


class _Written:
    """The model folder of a run, which is written twice: before and after scoring."""

    def __init__(
        self,
        request: TrainRequest,
        objective: Any,
        config: TrainingConfig,
        sources: Sequence[CardData],
        settings: Mapping[str, Any],
    ) -> None:
        from regard.training.pretrained_init import whole

        self.request, self.objective, self.sources, self.settings = request, objective, sources, settings
        self.training = {**{k: settings[k] for k in ("from", "size") if k in settings}, **config.to_dict()}
        self.weights = objective.init.close(objective.model, request.out) if objective.init else whole(objective.model)

    def write(self, scores: Sequence[Score]) -> None:
        from regard.checkpoint.predictors import write_predictor

        on = self.objective.scored_on
        write_predictor(
            self.objective.predictor(),
            self.request.out,
            weights=self.weights,
            training=self.training,
            sources=tuple(self.sources),
            settings=self.settings,
            scores=tuple(CardScore(metric=s.name, value=s.value, on=s.on or on, signature=s.signature) for s in scores),
            force=True,
        )
