"""Formats of other tools: the inputs and outputs of a conversion, and its errors for unsupported settings.

A format converts the content of one folder to that of another: config, tensors and other files. `regard.checkpoint`
reads and writes the folders.
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
    """A folder that was read: its config.json, its tensors, and access to its other files."""

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
    """The content of a folder to write, or of a regard folder that a conversion produced."""

    config: Mapping[str, Any]
    tensors: dict[str, Tensor]
    texts: Mapping[str, str | bytes]  # other files by name


@dataclass(frozen=True)
class Export(Content):
    """A folder for another tool."""

    class_name: str = ""  # the class that loads it
    notes: tuple[str, ...] = ()  # settings that the other tool cannot express


@dataclass(frozen=True, kw_only=True)
class Format:
    """One model type of another tool, both ways."""

    model_type: str  # in its config.json
    from_hf: Callable[[Folder], Content]
    to_hf: Callable[[Content], Export] | None = None  # None: such models are written as another type
    # The class that would load a model, and the settings that it cannot express.
    obstacles: Callable[[Content], tuple[str, list[str]]] | None = None


def export(formats: Sequence[Format], content: Content) -> Export:
    """Convert a model to the first format that can express it. If none can, the error lists the settings for each."""
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
        f"transformers has no class for this model ({listed}). Train with settings that one of them has.",
        argument="model",
    )


# --- Settings -----------------------------------------------------------------------------------------------


class Requirement:
    """A setting of ours and the values that another tool's class can express."""

    def __init__(self, name: str, *allowed: Any) -> None:
        self.name, self.allowed = name, allowed

    def problem(self, config: Any) -> str:
        value = getattr(config, self.name)
        return "" if value in self.allowed else f"{self.name} is {value!r}"


def unmet(config: Any, required: Sequence[Requirement]) -> list[str]:
    """The settings of a model that a class cannot express."""
    return [problem for requirement in required if (problem := requirement.problem(config))]


@dataclass
class Refusals:
    """Collects the unsupported settings of another tool's config, for one error that lists all of them."""

    where: str
    found: list[str] = field(default_factory=list)

    def unless(self, settings: Mapping[str, Any], fixed: Mapping[str, Any]) -> None:
        """Settings that are present must have these values."""
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
    """A setting that must be an integer of at least `least`; missing or null means the default."""
    value = _setting(settings, name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{name} must be a whole number of at least {least}, not {value!r}.", argument=name)
    return value


def real(settings: Mapping[str, Any], name: str, default: Any = _REQUIRED) -> float:
    """A setting that must be a number."""
    value = _setting(settings, name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UsageError(f"{name} must be a number, not {value!r}.", argument=name)
    return float(value)


def flag(settings: Mapping[str, Any], name: str, default: bool) -> bool:
    """A setting that must be true or false."""
    value = _setting(settings, name, default)
    if not isinstance(value, bool):
        raise UsageError(f"{name} must be true or false, not {value!r}.", argument=name)
    return value


def _setting(settings: Mapping[str, Any], name: str, default: Any) -> Any:
    value = settings.get(name)
    if value is not None:
        return value
    if default is _REQUIRED:
        raise UsageError(f"{name} is {'null' if name in settings else 'missing'}.", argument=name)
    return default


def dtype_name(tensors: Mapping[str, Tensor]) -> str:
    """The `dtype` of a config.json."""
    return str(next(iter(tensors.values())).dtype).removeprefix("torch.")
