"""A training request: which task, which model, which settings. Checked as far as possible before torch is imported.

Settings come as one flat mapping, from flags or from Python arguments. Each belongs to one of four configs: that of the
training (`spec.train_config`), of the architecture, of the adapters, or of prediction, whose values the model folder
keeps. Values that were not given come from the preset, from the task's recipe, or from the configs' defaults, in this
order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.checkpoint.hub import model_folder
from regard.checkpoint.output import check_output
from regard.checkpoint.probe import check_folder
from regard.nn.lora_config import LoRAConfig
from regard.registry import architectures, architectures_for, tasks
from regard.spec import Architecture, TaskSpec
from regard.training.config import TrainingConfig
from regard.training.environment import choose_device
from regard.training.progress import NullProgress, Progress
from regard.utils.config import Config, split_settings, typed_values
from regard.utils.errors import UsageError, unknown

BUDGET = ("steps", "minutes")  # settings that a resumed run may change
DEFAULT_MINUTES = 10.0

# The command that resumes the run in a folder, as its user would type it; with another number of steps if given.
ResumeCommand = Callable[[Path, int | None], str]


def resume_in_python(out: Path, steps: int | None = None) -> str:
    """How to resume a run that was started from Python."""
    budget = "" if steps is None else f", steps={steps}"
    return f"regard.train(…, out={str(out)!r}{budget}, resume=True) with the other arguments unchanged"


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a training runs. None of it changes what is learned."""

    device: str = "auto"
    save_every: float = 60.0  # seconds between checkpoints
    resume: bool = False
    force: bool = False
    progress: Progress = field(default_factory=NullProgress)
    resume_command: ResumeCommand = resume_in_python

    def __post_init__(self) -> None:
        if not self.save_every > 0:
            raise UsageError(
                f"save_every must be more than 0 seconds, not {self.save_every}.",
                argument="save_every",
                value=self.save_every,
            )
        if self.device != "auto":
            choose_device(self.device)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Default settings that depend on the preset or on pretrained weights."""

    model: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class TrainRequest:
    """What was asked for. `given_*` hold the settings that the user gave; `config` and `model_config` complete them."""

    spec: TaskSpec
    architecture: Architecture
    out: Path
    options: RunOptions
    given: Mapping[str, Any]  # training settings
    given_model: Mapping[str, Any]
    given_predict: Mapping[str, Any]
    given_preset: str | None  # --size
    pretrained: str | None  # --from, as it was given: a path or hf:owner/name
    folder: Path | None  # where the pretrained weights are
    lora: LoRAConfig | None

    @classmethod
    def parse(
        cls,
        task: str,
        settings: Mapping[str, Any],
        *,
        out: Path,
        architecture: str | None = None,
        size: str | None = None,
        pretrained: Path | str | None = None,
        lora: bool = False,
        options: RunOptions | None = None,
    ) -> TrainRequest:
        """Route and check settings; whatever is wrong with them raises a UsageError."""
        spec, options = tasks[task], options or RunOptions()
        if spec.train_config is None:
            raise UsageError(
                f"{spec.name} has no training of its own; it uses models of other tasks.", argument="task", value=task
            )
        chosen = _architecture(spec, architecture)
        if size is not None and size not in chosen.presets:
            raise unknown("size", size, chosen.presets)
        owners: list[type[Config]] = [spec.train_config, chosen.config, LoRAConfig, spec.predict_config]
        fixed = dict.fromkeys(owners, spec.fixed) | {chosen.config: spec.fixed | chosen.fixed}
        given = split_settings(settings, owners, fixed=fixed)
        parts = [typed_values(owner, part) for owner, part in zip(owners, given, strict=True)]
        request = cls(
            spec=spec,
            architecture=chosen,
            out=out,
            options=options,
            given=parts[0],
            given_model=parts[1],
            given_predict=parts[3],
            given_preset=size,
            pretrained=None if pretrained is None else str(pretrained),
            folder=None if pretrained is None else _pretrained_folder(str(pretrained), out),
            lora=_lora(spec, parts[2], lora=lora, pretrained=pretrained is not None),
        )
        check_output(out, resume=options.resume, force=options.force)
        request.check()
        return request

    def check(self) -> None:
        """Build the configs once, so that bad values are refused before any work."""
        self.predict_config()
        _ = self.config
        if self.folder is None:
            self.model_config(**dict.fromkeys(self.required_model_settings(), 1))

    def required_model_settings(self) -> list[str]:
        """Fields of the architecture that only the data can settle, such as vocab_size."""
        return [name for name, info in self.architecture.config.model_fields.items() if info.is_required()]

    @property
    def preset(self) -> str:
        return self.given_preset or self.spec.default_preset or next(iter(self.architecture.presets), "")

    @functools.cached_property
    def recipe(self) -> Recipe:
        """The defaults of the task for this request; raises where settings contradict each other."""
        make = self.spec.load("recipe")
        return Recipe() if make is None else make(self)

    @functools.cached_property
    def config(self) -> TrainingConfig:
        """The training config with all defaults, as far as they do not depend on the data."""
        assert self.spec.train_config is not None, "checked by `parse`"
        config = self.spec.train_config(**{**self.recipe.training, **self.given})
        assert isinstance(config, TrainingConfig), "a train_config extends TrainingConfig"
        return config

    def model_settings(self) -> dict[str, Any]:
        """Settings of a new model: preset, recipe, and what was given."""
        preset = self.architecture.presets.get(self.preset, {})
        known = {name: value for name, value in preset.items() if name not in self.architecture.fixed}
        return {**known, **self.recipe.model, **self.given_model}

    def model_config(self, **known: Any) -> Config:
        """The config of a new model; `known` is what follows from the data, such as vocab_size."""
        return self.architecture.config(**{**self.model_settings(), **known})

    def predict_config(self, base: Config | None = None) -> Config:
        """The prediction config that the model folder keeps: that of the pretrained model, with what was given."""
        before = dict(base) if base is not None else {}
        return self.spec.predict_config(**{**before, **self.given_predict})

    def note_budget(self, config: TrainingConfig) -> str:
        if any(self.given.get(name) is not None for name in BUDGET):
            return ""
        spent = f"{config.minutes:g} minutes" if config.minutes is not None else f"{config.steps:,} steps"
        return f"budget: {spent} (neither --steps nor --minutes was given)"

    def complete(self, data_defaults: Mapping[str, Any]) -> TrainingConfig:
        """The final training config: `data_defaults` fill what was neither given nor set by a run that is resumed."""
        earlier = earlier_settings(self.out, (*BUDGET, *data_defaults)) if self.options.resume else {}
        if any(self.given.get(name) is not None for name in (*BUDGET, "epochs")):
            earlier = {name: value for name, value in earlier.items() if name not in BUDGET}
        given = {name: value for name, value in self.given.items() if value is not None}
        settings = {**self.recipe.training, **data_defaults, **earlier, **given}
        if settings.get("steps") is None and settings.get("minutes") is None:
            settings["minutes"] = DEFAULT_MINUTES
        if given.get("minutes") is not None:
            settings["steps"] = None
        return self.config.replace(**settings)

    def refuse_with_pretrained(self, names: Sequence[str]) -> None:
        """Refuse settings that a pretrained model has fixed: its shape and its tokenizer."""
        given = {"size": self.given_preset, **self.given, **self.given_model}
        for name in names:
            if given.get(name) is not None:
                raise UsageError(
                    f"{flag(name)} conflicts with --from {self.pretrained}, which fixes it. Remove {flag(name)}, or "
                    "train a new model without --from.",
                    argument=name,
                    value=given[name],
                )

    def refuse_without_pretrained(self, names: Mapping[str, Any]) -> None:
        """Refuse settings that only make sense for pretrained weights; `names` gives each its neutral value."""
        for name, neutral in names.items():
            if self.given.get(name, neutral) != neutral:
                raise UsageError(
                    f"{flag(name)} needs pretrained weights: add --from FOLDER.", argument=name, value=self.given[name]
                )


def flag(setting: str) -> str:
    """The flag of a setting."""
    return "--" + setting.replace("_", "-")


def earlier_settings(out: Path, names: Sequence[str]) -> dict[str, Any]:
    """Settings of the run that is resumed, as far as its checkpoint has them."""
    from regard.checkpoint.training_state import last_good_checkpoint

    checkpoint = last_good_checkpoint(out)
    identity = checkpoint.state["identity"] if checkpoint else {}
    return {name: identity[name] for name in names if identity.get(name) is not None}


def _architecture(spec: TaskSpec, name: str | None) -> Architecture:
    chosen = architectures[name or spec.default_architecture]
    if not spec.supports(chosen):
        able = ", ".join(architectures_for(spec))
        raise UsageError(
            f"--model {chosen.name} cannot do {spec.name}, which needs {', '.join(sorted(spec.needs))}. Use one of "
            f"{able}.",
            argument="model",
            value=chosen.name,
            allowed=architectures_for(spec),
        )
    return chosen


def _pretrained_folder(name: str, out: Path) -> Path:
    folder = model_folder(name)
    if out.exists() and folder.exists() and out.resolve() == folder.resolve():
        raise UsageError(f"--from and --out are the same folder, {folder}: choose another --out.", argument="out")
    check_folder(folder)
    return folder


def _lora(spec: TaskSpec, given: Mapping[str, Any], *, lora: bool, pretrained: bool) -> LoRAConfig | None:
    if lora and not spec.lora:
        raise UsageError(f"--lora is not available for {spec.name}.", argument="lora")
    if lora and not pretrained:
        raise UsageError("--lora needs pretrained weights: add --from FOLDER.", argument="lora")
    if given and not lora:
        raise UsageError(f"{flag(min(given))} needs --lora.", argument=min(given))
    return LoRAConfig(**given) if lora else None
