"""A training request: task, model and settings, checked as far as possible before torch is imported.

Settings come as one flat mapping, from flags or Python arguments. Each belongs to one of four configs: training
(`spec.train_config`), architecture, LoRA, or prediction (stored in the model folder). Settings that are not given come
from the recipe of the task, the preset or the defaults of the configs, in this order of precedence.
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
from regard.nn.config import LoRAConfig
from regard.registry import architectures, architectures_for, tasks
from regard.spec import Architecture, TaskSpec
from regard.training.config import TrainingConfig
from regard.training.environment import choose_device
from regard.training.progress import NullProgress, Progress
from regard.utils.config import Config, split_settings, typed_values
from regard.utils.errors import UsageError, unknown

BUDGET = ("steps", "minutes")  # settings that a resumed run may change
DEFAULT_MINUTES = 10.0

# Returns the command that resumes the run in a folder, with a new number of steps if one is given.
ResumeCommand = Callable[[Path, int | None], str]


def resume_in_python(out: Path, steps: int | None = None) -> str:
    """Return the Python call that resumes a run."""
    budget = "" if steps is None else f", steps={steps}"
    return f"regard.train(…, out={str(out)!r}{budget}, resume=True) with the other arguments unchanged"


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options that do not affect the result of a run."""

    device: str = "auto"
    save_every: float = 60.0  # seconds between checkpoints
    resume: bool = False
    force: bool = False
    progress: Progress = field(default_factory=NullProgress)
    resume_command: ResumeCommand = resume_in_python

    def __post_init__(self) -> None:
        if not self.save_every > 0:
            raise UsageError(
                f"save_every must be greater than 0 seconds, got {self.save_every}.",
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
        """Assign settings to their configs and check them; raise UsageError for invalid ones."""
        spec, options = tasks[task], options or RunOptions()
        if spec.train_config is None:
            raise UsageError(
                f"{spec.name} cannot be trained; it uses models trained for other tasks.", argument="task", value=task
            )
        chosen = _architecture(spec, architecture)
        if size is not None and size not in chosen.presets:
            raise unknown("size", size, chosen.presets)
        owners: list[type[Config]] = [spec.train_config, chosen.config, LoRAConfig, spec.predict_config]
        fixed = dict.fromkeys(owners, spec.fixed) | {chosen.config: spec.fixed | chosen.fixed}
        parts = split_settings(settings, owners, fixed=fixed)
        given, given_model, given_lora, given_predict = map(typed_values, owners, parts)
        request = cls(
            spec=spec,
            architecture=chosen,
            out=out,
            options=options,
            given=given,
            given_model=given_model,
            given_predict=given_predict,
            given_preset=size,
            pretrained=None if pretrained is None else str(pretrained),
            folder=None if pretrained is None else _pretrained_folder(str(pretrained), out),
            lora=_lora(spec, given_lora, lora=lora, pretrained=pretrained is not None),
        )
        check_output(out, resume=options.resume, force=options.force)
        request.check()
        return request

    def check(self) -> None:
        """Build the configs once to reject invalid values before any work starts."""
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
        if given.keys() & {*BUDGET, "epochs"}:
            earlier = {name: value for name, value in earlier.items() if name not in BUDGET}
        settings = {**self.recipe.training, **data_defaults, **earlier, **given}
        if settings.get("steps") is None and settings.get("minutes") is None:
            settings["minutes"] = DEFAULT_MINUTES
        if "minutes" in given:
            settings["steps"] = None
        return self.config.replace(**settings)

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
                    f"{flag(name)} needs pretrained weights: add --from FOLDER.", argument=name, value=self.given[name]
                )


def flag(setting: str) -> str:
    """Return the command-line flag of a setting."""
    return "--" + setting.replace("_", "-")


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
        raise UsageError(f"--out must not be the --from folder, got {folder}. Choose another --out.", argument="out")
    check_folder(folder)
    return folder


def _lora(spec: TaskSpec, given: Mapping[str, Any], *, lora: bool, pretrained: bool) -> LoRAConfig | None:
    if lora and not spec.lora:
        raise UsageError(f"--lora is not available for {spec.name}.", argument="lora")
    if lora and not pretrained:
        raise UsageError("--lora needs pretrained weights: add --from FOLDER.", argument="lora")
    if given and not lora:
        raise UsageError(f"{flag(min(given))} requires --lora. Add it.", argument=min(given))
    return LoRAConfig(**given) if lora else None
