"""Estimate the costs of a preset with the settings that training it would use, without building the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.models.costs import Costs
from regard.registry import architectures, tasks
from regard.training.run import TrainRequest
from regard.utils.errors import UsageError, unknown

VOCAB_SIZE = 8000  # used if neither the preset nor the task sets one


@dataclass(frozen=True)
class Plan:
    """The estimated costs of a preset."""

    preset: str
    architecture: str
    recipe: str | None
    costs: Costs

    def as_dict(self) -> dict[str, Any]:
        names = {"preset": self.preset, "architecture": self.architecture, "recipe": self.recipe}
        return {**names, **self.costs.as_dict()}

    def __str__(self) -> str:
        context = "" if self.costs.context_length is None else f", context of {self.costs.context_length:,}"
        recipe = "" if self.recipe is None else f", recipe {self.recipe}"
        return f"{self.preset} ({self.architecture}{recipe}, {self.costs.vocab_size:,} tokens{context})\n{self.costs}"


def plan(
    preset: str,
    *,
    model: str | None = None,
    vocab_size: int | None = None,
    recipe: str | None = None,
    batch_tokens: int = 4096,
) -> Plan:
    """Estimate parameters, memory and compute for a preset; `model` selects one of the architectures that have it."""
    candidates = [architectures[name] for name in ([model] if model is not None else architectures)]
    architecture = next((item for item in candidates if preset in item.presets), None)
    if architecture is None:
        raise unknown("preset", preset, {name for item in candidates for name in item.presets})
    trained = [spec for spec in tasks.usable().values() if spec.train_config is not None]
    spec = next((spec for spec in trained if spec.default_architecture == architecture.name), None)
    settings: Mapping[str, Any] = architecture.presets[preset]
    sizes = [vocab_size, settings.get("vocab_size")]
    if recipe is not None and (spec is None or "recipe" not in getattr(spec.train_config, "model_fields", {})):
        raise UsageError(f"{architecture.name} has no recipes. Remove --recipe.", argument="recipe", value=recipe)
    if spec is not None:
        given = {} if recipe is None else {"recipe": recipe}
        request = TrainRequest(spec=spec, architecture=architecture, out=Path(), given=given, given_preset=preset)
        settings = {**settings, **request.model_settings()}
        sizes.append(getattr(request.config, "vocab_size", None))
    size = next((size for size in sizes if size is not None), VOCAB_SIZE)
    config = architecture.config(**{**settings, "vocab_size": size})
    return Plan(preset, architecture.name, recipe, architecture.costs(config, preset=preset, batch_tokens=batch_tokens))
