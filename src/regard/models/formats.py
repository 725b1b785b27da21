"""Base classes for conversion from and to the formats of other tools, and errors for unsupported settings.

A format converts the config, tensors and other files of a folder. `regard.checkpoint` reads and writes the folders.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from regard.utils.errors import FolderError, UsageError

CONFIG = "config.json"


class Folder(Protocol):
    """A folder on disk: its config.json, its tensors, and access to its other files."""

    @property
    def path(self) -> Path: ...
    @property
    def config(self) -> Mapping[str, Any]: ...
    @property
    def tensors(self) -> Mapping[str, Tensor]: ...
    def has_text(self, name: str) -> bool: ...
    def text(self, name: str) -> str: ...
    def file(self, name: str) -> Path: ...


@dataclass(frozen=True)
class Content:
    """The content of a folder before it is written: the result or the input of a conversion."""

    config: Mapping[str, Any]
    tensors: dict[str, Tensor]
    texts: Mapping[str, str | bytes]  # other files by name


@dataclass(frozen=True)
class Export(Content):
    """The content of a folder in the format of another tool."""

    class_name: str = ""  # the class that loads it
    notes: tuple[str, ...] = ()  # messages for the user about settings that the export changes or leaves out


@dataclass(frozen=True, kw_only=True)
class Format:
    """Conversion from and to one model type of another tool."""

    model_type: str  # `model_type` in config.json
    from_hf: Callable[[Folder], Content]
    to_hf: Callable[[Content], Export] | None = None  # None if such models are exported as another type
    # Returns the name of the class that would load the model, and the settings that this class does not support.
    obstacles: Callable[[Content], tuple[str, list[str]]] | None = None


def export(formats: Sequence[Format], content: Content) -> Export:
    """Convert a model to the first format that supports its settings. If none does, the error says why for each."""
    reasons: dict[str, list[str]] = {}
    for item in formats:
        if item.to_hf is None or item.obstacles is None:
            continue
        class_name, obstacles = item.obstacles(content)
        if not obstacles:
            return item.to_hf(content)
        reasons[class_name] = obstacles
    listed = "; ".join(f"not {name}: {', '.join(settings)}" for name, settings in reasons.items())
    raise UsageError(
        f"transformers has no class for these settings ({listed}). Train with settings that one of them supports.",
        argument="model",
    )


# --- Settings -----------------------------------------------------------------------------------------------


class Requirement:
    """A regard setting and the values of it that a class of another tool supports."""

    def __init__(self, name: str, *allowed: Any) -> None:
        self.name, self.allowed = name, allowed

    def problem(self, config: Any) -> str:
        value = getattr(config, self.name)
        return "" if value in self.allowed else f"{self.name} is {value!r}"


def unmet(config: Any, required: Sequence[Requirement]) -> list[str]:
    """Return the settings of a model that do not meet the requirements."""
    return [problem for requirement in required if (problem := requirement.problem(config))]


@dataclass
class Refusals:
    """Collect unsupported settings in the config of another tool, to raise one error that lists all of them."""

    where: str
    found: list[str] = field(default_factory=list)

    def unless(self, settings: Mapping[str, Any], fixed: Mapping[str, Any]) -> None:
        """Record the settings that are present with a value other than the one in `fixed`."""
        self.found += [
            f"{name} is {settings[name]!r}" for name, value in fixed.items() if settings.get(name, value) != value
        ]

    def when(self, wrong: bool, problem: str) -> None:
        if wrong:
            self.found.append(problem)

    def check(self) -> None:
        if self.found:
            raise FolderError(
                f"{self.where} has settings that regard does not support: {'; '.join(self.found)}.", path=self.where
            )


_REQUIRED: Any = object()


def whole(settings: Mapping[str, Any], name: str, default: Any = _REQUIRED, *, least: int = 1) -> int:
    """Return a setting that must be an integer ≥ `least`. A missing setting or null means the default."""
    value = _setting(settings, name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{name} must be a whole number of at least {least}, got {value!r}.", argument=name)
    return value


def real(settings: Mapping[str, Any], name: str, default: Any = _REQUIRED) -> float:
    """Return a setting that must be a number."""
    value = _setting(settings, name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UsageError(f"{name} must be a number, got {value!r}.", argument=name)
    return float(value)


def flag(settings: Mapping[str, Any], name: str, default: bool) -> bool:
    """Return a setting that must be true or false."""
    value = _setting(settings, name, default)
    if not isinstance(value, bool):
        raise UsageError(f"{name} must be true or false, got {value!r}.", argument=name)
    return value


def _setting(settings: Mapping[str, Any], name: str, default: Any) -> Any:
    value = settings.get(name)
    if value is not None:
        return value
    if default is _REQUIRED:
        raise UsageError(f"{name} is {'null' if name in settings else 'missing'}.", argument=name)
    return default


def dtype_name(tensors: Mapping[str, Tensor]) -> str:
    """Return the `dtype` for config.json: that of the first tensor."""
    return str(next(iter(tensors.values())).dtype).removeprefix("torch.")
