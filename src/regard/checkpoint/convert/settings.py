"""Settings that stand in the way of a conversion, gathered so that all of them are named at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from regard.errors import FolderError, UsageError


class Requirement:
    """A setting of ours and the values with which another tool's class can hold it."""

    def __init__(self, name: str, *allowed: Any) -> None:
        self.name, self.allowed = name, allowed

    def problem(self, config: Any) -> str:
        value = getattr(config, self.name)
        return "" if value in self.allowed else f"{self.name} is {value!r}"


@dataclass
class Refusals:
    """What another tool's config asks for that cannot be followed here."""

    where: str
    found: list[str] = field(default_factory=list)

    def unless(self, settings: Mapping[str, Any], fixed: Mapping[str, Any]) -> None:
        """Settings that are there must have these values."""
        self.found += [
            f"{name} is {settings[name]!r}" for name, value in fixed.items() if settings.get(name, value) != value
        ]

    def when(self, wrong: bool, what: str) -> None:
        if wrong:
            self.found.append(what)

    def check(self) -> None:
        if self.found:
            raise FolderError(f"{self.where} asks for what regard does not have: {'; '.join(self.found)}.")


_NEEDED: Any = object()


def whole(settings: Mapping[str, Any], name: str, default: Any = _NEEDED, *, least: int = 1) -> int:
    """A setting that must be a whole number; where it is missing or null the default stands."""
    value = _setting(settings, name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{name} must be a whole number from {least} on, not {value!r}.")
    return value


def real(settings: Mapping[str, Any], name: str, default: Any = _NEEDED) -> float:
    """A setting that must be a number."""
    value = _setting(settings, name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UsageError(f"{name} must be a number, not {value!r}.")
    return float(value)


def flag(settings: Mapping[str, Any], name: str, default: bool) -> bool:
    """A setting that must be true or false."""
    value = _setting(settings, name, default)
    if not isinstance(value, bool):
        raise UsageError(f"{name} must be true or false, not {value!r}.")
    return value


def _setting(settings: Mapping[str, Any], name: str, default: Any) -> Any:
    value = settings.get(name)
    if value is not None:
        return value
    if default is _NEEDED:
        raise UsageError(f"{name} is {'null' if name in settings else 'missing'}, but it is needed.")
    return default


def refuse_export(config: Any, required: Sequence[Requirement], name: str) -> list[str]:
    """Why a model of ours cannot be a `name`; nothing if it can."""
    return [problem for one in required if (problem := one.problem(config))]


def no_class_for(reasons: Mapping[str, Sequence[str]]) -> UsageError:
    told = "; ".join(f"not {name}: {', '.join(why)}" for name, why in reasons.items())
    return UsageError(f"transformers has no class for this model ({told}). Train with settings that one of them has.")
