"""Configs: frozen keyword-only dataclasses that live beside the thing they configure.

This module turns them into plain dictionaries and back. Unknown keys raise and suggest the nearest field,
so that a typo never becomes a silent default.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from regard.errors import unknown

C = TypeVar("C")


def to_dict(config: Any) -> dict[str, Any]:
    """The fields of a config as JSON-ready values."""
    return {field.name: _plain(getattr(config, field.name)) for field in dataclasses.fields(config)}


def from_dict(cls: type[C], values: Mapping[str, Any]) -> C:
    """Build `cls` from `values`; lists become tuples, unknown keys raise."""
    known = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for key in values:
        if key not in known:
            raise unknown(f"{cls.__name__} setting", key, known)
    return cls(**{key: tuple(v) if isinstance(v, list) else v for key, v in values.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return value
