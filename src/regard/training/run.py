"""Training runs for any task: check the request, read the data, prepare, fit, save, evaluate, report.

Settings come as one flat mapping, from flags or Python arguments. Each setting belongs to one config: the model to
start from, the run itself, training (`spec.train_config`), architecture, LoRA, or prediction (stored in the model
folder). Settings that are not given come from the recipe of the task, the preset or the defaults of the configs, in
this order of precedence. Settings and data files are checked before torch is imported, so that errors are reported
immediately.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from regard.checkpoint.card import CardData
from regard.checkpoint.output import check_output, clear_output, output_folder
from regard.checkpoint.probe import check_folder, model_folder
from regard.metrics.score import Score, no_better
from regard.nn.config import LoRAConfig
from regard.registry import architectures, architectures_for, tasks
from regard.spec import Architecture, TaskSpec
from regard.training.callbacks import NullProgress, Progress
from regard.training.config import ModelOptions, RunOptions, TrainingConfig
from regard.training.environment import choose_device, choose_threads, keep_freed_memory
from regard.utils.config import Config, split_settings, typed_values
from regard.utils.errors import FolderError, UsageError, flag, unknown

REPORT = "report.html"
BUDGET = ("steps", "minutes")  # settings that a resumed run may change
DEFAULT_MINUTES = 10.0

# Returns the command that resumes the run in a folder, with a new number of steps if one is given.
ResumeCommand = Callable[[Path, int | None], str]


def resume_in_python(out: Path, steps: int | None = None) -> str:
    """Return the Python call that resumes a run."""
    budget = "" if steps is None else f", steps={steps}"
    return f"regard.train(…, out={str(out)!r}{budget}, resume=True) with the other arguments unchanged"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Default settings that depend on the preset or on pretrained weights."""

    model: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class TrainRequest:
    """A checked training request. `given*` are the user's settings; `config` and `model_config` add the defaults."""

    spec: TaskSpec
    architecture: Architecture
    out: Path
    options: RunOptions = field(default_factory=RunOptions)
    given: Mapping[str, Any] = field(default_factory=dict)  # training settings
    given_model: Mapping[str, Any] = field(default_factory=dict)
    given_predict: Mapping[str, Any] = field(default_factory=dict)
    given_preset: str | None = None  # --size
    pretrained: str | None = None  # --from, as the user gave it: a path or hf:owner/name
    folder: Path | None = None  # folder of the pretrained weights
    lora: LoRAConfig | None = None
    progress: Progress = field(default_factory=NullProgress)
    resume_command: ResumeCommand = resume_in_python

    @classmethod
    def parse(
        cls,
        task: str,
        settings: Mapping[str, Any],
        *,
        out: Path,
        progress: Progress | None = None,
        resume_command: ResumeCommand | None = None,
    ) -> TrainRequest:
        """Assign settings to their configs and check them; raise UsageError for invalid ones."""
        spec = tasks[task]
        if spec.train_config is None:
            raise UsageError(
                f"{spec.name} cannot be trained. It uses models of other tasks.", argument="task", value=task
            )
        if isinstance(settings.get("from_"), Path):
            settings = {**settings, "from_": str(settings["from_"])}
        start = ModelOptions(**{name: value for name, value in settings.items() if name in ModelOptions.field_names()})
        chosen = _architecture(spec, start.model)
        if start.size is not None and start.size not in chosen.presets:
            raise unknown("size", start.size, chosen.presets)
        owners: list[type[Config]] = [spec.train_config, chosen.config, LoRAConfig, spec.predict_config]
        fixed = dict.fromkeys(owners, spec.fixed) | {chosen.config: spec.fixed | chosen.fixed}
        _, for_run, *parts = split_settings(settings, (ModelOptions, RunOptions, *owners), fixed=fixed)
        options = RunOptions(**for_run)
        if options.device != "auto":
            choose_device(options.device)
        given, given_model, given_lora, given_predict = map(typed_values, owners, parts)
        request = cls(
            spec=spec,
            architecture=chosen,
            out=out,
            options=options,
            given=given,
            given_model=given_model,
            given_predict=given_predict,
            given_preset=start.size,
            pretrained=start.from_,
            folder=None if start.from_ is None else _pretrained_folder(start.from_, out),
            lora=_lora(spec, given_lora, lora=start.lora, pretrained=start.from_ is not None),
            progress=progress or NullProgress(),
            resume_command=resume_command or resume_in_python,
        )
        check_output(out, resume=options.resume, force=options.force)
        request.check()
        return request

    def check(self) -> None:
        """Build the configs once to reject invalid values before any work starts."""
        if all(self.given.get(name) is not None for name in BUDGET):
            raise UsageError("give --steps or --minutes, not both.", argument="minutes", value=self.given["minutes"])
        self.predict_config()
        _ = self.config
        if self.folder is None:  # required fields, such as vocab_size, are known only from the data
            fields = self.architecture.config.model_fields
            self.model_config(**{name: 1 for name, info in fields.items() if info.is_required()})

    @property
    def preset(self) -> str:
        return self.given_preset or self.spec.default_preset or next(iter(self.architecture.presets), "")

    @functools.cached_property
    def recipe(self) -> Recipe:
        """Return the task's defaults for this request; raise if settings contradict each other."""
        make = self.spec.load("recipe")
        return Recipe() if make is None else make(self)

    @functools.cached_property
    def config(self) -> TrainingConfig:
        """Return the training config, without the defaults that depend on the data."""
        assert self.spec.train_config is not None, "checked by `parse`"
        config = self.spec.train_config(**{**self.recipe.training, **self.given})
        assert isinstance(config, TrainingConfig), "a train_config extends TrainingConfig"
        return config

    def model_settings(self) -> dict[str, Any]:
        """Return the settings of a new model from preset, recipe and user; later ones take precedence."""
        preset = self.architecture.presets.get(self.preset, {})
        free = {name: value for name, value in preset.items() if name not in self.architecture.fixed}
        return {**free, **self.recipe.model, **self.given_model}

    def model_config(self, **known: Any) -> Config:
        """Return the config of a new model; `known` are settings that depend on the data, such as vocab_size."""
        return self.architecture.config(**{**self.model_settings(), **known})

    def predict_config(self, base: Config | None = None) -> Config:
        """Return the prediction config: that of the pretrained model (`base`), if any, with the user's changes."""
        return self.spec.predict_config(**{**dict(base or {}), **self.given_predict})

    def note_budget(self, config: TrainingConfig) -> str:
        if any(self.given.get(name) is not None for name in BUDGET):
            return ""
        budget = f"{config.minutes:g} minutes" if config.minutes is not None else f"{config.steps:,} steps"
        return f"budget: {budget} (neither --steps nor --minutes was given)"

    def complete(self, data_defaults: Mapping[str, Any]) -> TrainingConfig:
        """Return the final training config; settings not given come from the resumed run, the data or the recipe."""
        given = {name: value for name, value in self.given.items() if value is not None}
        earlier = self._earlier_settings((*BUDGET, *data_defaults)) if self.options.resume else {}
        # The first of these that sets a budget is used. `epochs` is converted to steps once the data are known.
        sources = [given, {} if "epochs" in given else earlier, data_defaults, self.recipe.training]
        budgets = ({name: source.get(name) for name in BUDGET} for source in sources)
        budget = next((b for b in budgets if any(b.values())), {"steps": None, "minutes": DEFAULT_MINUTES})
        return self.config.replace(**{**self.recipe.training, **data_defaults, **earlier, **given, **budget})

    def _earlier_settings(self, names: Sequence[str]) -> dict[str, Any]:
        """Return settings of the resumed run from its checkpoint."""
        from regard.checkpoint.training_state import last_good_checkpoint

        checkpoint = last_good_checkpoint(self.out)
        identity = checkpoint.state["identity"] if checkpoint else {}
        return {name: identity[name] for name in names if identity.get(name) is not None}

    def refuse_with_pretrained(self, names: Sequence[str]) -> None:
        """Reject settings that the pretrained model determines, such as its tokenizer."""
        given = {"size": self.given_preset, **self.given, **self.given_model}
        for name in names:
            if given.get(name) is not None:
                raise UsageError(
                    f"{flag(name)} conflicts with --from {self.pretrained}, which sets it. Remove {flag(name)}, or "
                    "train a new model without --from.",
                    argument=name,
                    value=given[name],
                )

    def refuse_without_pretrained(self, names: Mapping[str, Any]) -> None:
        """Reject settings that need pretrained weights, unless they have the neutral value in `names`."""
        for name, neutral in names.items():
            if self.given.get(name, neutral) != neutral:
                raise UsageError(
                    f"{flag(name)} needs pretrained weights. Add --from FOLDER.", argument=name, value=self.given[name]
                )


def _architecture(spec: TaskSpec, name: str | None) -> Architecture:
    chosen = architectures[name or spec.default_architecture]
    if not spec.supports(chosen):
        allowed = architectures_for(spec)
        raise UsageError(
            f"--model {chosen.name} does not support {spec.name}, which needs {', '.join(sorted(spec.needs))}. Use "
            f"{' or '.join(allowed)}.",
            argument="model",
            value=chosen.name,
            allowed=allowed,
        )
    return chosen


def _pretrained_folder(name: str, out: Path) -> Path:
    folder = model_folder(name)
    if out.exists() and folder.exists() and out.resolve() == folder.resolve():
        message = f"--out must not be the --from folder, got {folder}. Choose another --out."
        raise UsageError(message, argument="out", value=out, path=folder)
    check_folder(folder)
    return folder


def _lora(spec: TaskSpec, given: Mapping[str, Any], *, lora: bool, pretrained: bool) -> LoRAConfig | None:
    if lora and not spec.lora:
        raise UsageError(f"--lora is not available for {spec.name}. Remove it.", argument="lora", value=True)
    if lora and not pretrained:
        raise UsageError("--lora needs pretrained weights. Add --from FOLDER.", argument="lora", value=True)
    if given and not lora:
        raise UsageError(f"{flag(min(given))} needs --lora. Add --lora.", argument=min(given), value=given[min(given)])
    return LoRAConfig(**given) if lora else None


# --- Running a request -------------------------------------------------------------------------------------


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


def train_on_files(request: TrainRequest, data: Sequence[Path], validation: Sequence[Path]) -> Run:
    """Train on files, or on the built-in dataset without files; write a model, its scores and a report."""
    reader = request.spec.load("reader")(request.config)
    if not data and validation:
        raise UsageError(
            "--validation needs training files. Add DATA; the built-in dataset has its own validation split.",
            argument="validation",
            value=validation,
        )
    return train_on_splits(request, reader.read(data, validation or None) if data else reader.builtin())


def train_on_splits(request: TrainRequest, splits: Any) -> Run:
    """Train on examples that a reader has already loaded."""
    options = request.options
    with output_folder(request.out, resume=options.resume, force=options.force):
        objective = request.spec.load("objective").prepare(splits, request)
        return _fit(request, objective, objective.sources or splits.sources)


def _fit(request: TrainRequest, objective: Any, sources: Sequence[CardData]) -> Run:
    from regard.checkpoint.predictors import save_predictor
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
            request.progress.say(line)

    request.progress.say(objective.describe())
    note(*map(str, (device, choose_threads(), keep_freed_memory())), *objective.notes, request.note_budget(config))
    callbacks = objective.callbacks()
    pretrained = objective.init.identity() if objective.init else {"from": None}
    trainer = Trainer(
        objective,
        config,
        out,
        save_every=options.save_every,
        progress=request.progress,
        identity={**objective.settings(), "examples": objective.fingerprint(), **pretrained},
        lr_multipliers=objective.lr_multipliers,
        resume_command=request.resume_command,
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
        request.progress.say(f"evaluating: {objective.scored_on}")
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
        command = request.resume_command(out, None)
        raise InterruptedRunError(
            f"interrupted after training, which is saved. Evaluate the model with:\n  {command}", hint=command
        ) from None
    except FolderError as error:
        command = request.resume_command(out, None)
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
