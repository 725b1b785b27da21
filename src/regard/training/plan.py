"""What a model of a given size costs, with the settings that a training of its task would use. Builds nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.models.costs import Costs
from regard.registry import architectures, tasks
from regard.spec import Architecture, TaskSpec
from regard.training.request import RunOptions, TrainRequest
from regard.utils.errors import UsageError, unknown

VOCAB_SIZE = 8000  # where neither the preset nor the task says


@dataclass(frozen=True)
class Plan:
    """The costs of a preset."""

    preset: str
    architecture: str
    recipe: str | None
    costs: Costs

    def as_dict(self) -> dict[str, Any]:
        named = {"preset": self.preset, "architecture": self.architecture, "recipe": self.recipe}
        return {**named, **self.costs.as_dict()}

    def __str__(self) -> str:
        context = "" if self.costs.context_length is None else f", context of {self.costs.context_length:,}"
        recipe = "" if self.recipe is None else f", recipe {self.recipe}"
        tokens = f"{self.costs.vocab_size:,} tokens"
        return f"{self.preset} ({self.architecture}{recipe}, {tokens}{context})\n{self.costs}"


def plan(
    preset: str,
    *,
    model: str | None = None,
    vocab_size: int | None = None,
    recipe: str | None = None,
    batch_tokens: int = 4096,
) -> Plan:
    """Count parameters, memory and compute of a preset. `model` chooses among architectures with the same preset."""
    architecture = _architecture(preset, model)
    spec = next((task for task in tasks.usable().values() if _trains(task, architecture)), None)
    settings: Mapping[str, Any] = architecture.presets[preset]
    size = vocab_size if vocab_size is not None else settings.get("vocab_size")
    if recipe is not None and (spec is None or "recipe" not in _fields(spec)):
        raise UsageError(f"--recipe is not available for {architecture.name}.", argument="recipe", value=recipe)
    if spec is not None:
        given = {} if recipe is None else {"recipe": recipe}
        request = _request(spec, architecture, preset, given)
        settings = {**settings, **request.model_settings()}
        size = size if size is not None else getattr(request.config, "vocab_size", None)
    config = architecture.config(**{**settings, "vocab_size": VOCAB_SIZE if size is None else size})
    costs = architecture.costs(config, preset=preset, batch_tokens=batch_tokens)
    return Plan(preset, architecture.name, recipe, costs)


def _architecture(preset: str, model: str | None) -> Architecture:
    candidates = [architectures[name] for name in ([model] if model is not None else architectures)]
    found = next((item for item in candidates if preset in item.presets), None)
    if found is None:
        raise unknown("preset", preset, {name for item in candidates for name in item.presets})
    return found


def _trains(task: TaskSpec, architecture: Architecture) -> bool:
    return task.train_config is not None and task.default_architecture == architecture.name


def _fields(spec: TaskSpec) -> Mapping[str, Any]:
    return {} if spec.train_config is None else spec.train_config.model_fields


def _request(spec: TaskSpec, architecture: Architecture, preset: str, given: Mapping[str, Any]) -> TrainRequest:
    return TrainRequest(
        spec=spec,
        architecture=architecture,
        out=Path(),
        options=RunOptions(),
        given=given,
        given_model={},
        given_predict={},
        given_preset=preset,
        pretrained=None,
        folder=None,
        lora=None,
    )
