"""`Config`, the base class of all configs: frozen pydantic models.

Flags, Python arguments, validation, JSON schema and `config.json` derive from the fields of a config, each with a
description, a default and a range. Unknown keys and bad values raise a `UsageError` with field, value and valid values.
"""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Mapping
from types import NoneType
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from regard.utils.errors import UsageError, unknown

T = TypeVar("T")
_NUMBER = re.compile(r"[+-]?[\d.]+(e[+-]?\d+)?")

# What a value should be, keyed by the prefix of pydantic's error type.
_EXPECTED = {"int": "an integer", "float": "a number", "bool": "true or false", "string": "a string", "tuple": "a list",
             "list": "a list", "dict": "a mapping", "path": "a path", "finite": "a finite number"}  # fmt: skip
_BOUNDS = {"greater_than_equal": ("ge", "at least"), "greater_than": ("gt", "more than"),
           "less_than_equal": ("le", "at most"), "less_than": ("lt", "less than")}  # fmt: skip


class Config(BaseModel):
    """Base class of all configs: frozen, rejects unknown keys, raises `UsageError`."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, protected_namespaces=())

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise usage_error(error, type(self)) from None

    def replace(self, **changes: Any) -> Self:
        """Return a validated copy with some values changed."""
        return type(self)(**{**dict(self), **changes})

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return self.model_dump(mode="json")

    @classmethod
    def field_names(cls) -> frozenset[str]:
        return frozenset(cls.model_fields)


def field_default(config: type[Config], name: str, default: Any) -> Any:
    """Return a field of another config with a different default; description and range stay the same."""
    return FieldInfo.merge_field_infos(config.model_fields[name], default=default)


def split_settings(
    settings: Mapping[str, Any],
    owners: typing.Sequence[type[Config]],
    *,
    fixed: Mapping[type[Config], typing.Collection[str]] | None = None,
) -> list[dict[str, Any]]:
    """Assign each setting to the first config with a field of that name; `fixed` fields cannot be set."""
    free = [owner.field_names().difference((fixed or {}).get(owner, ())) for owner in owners]
    parts: list[dict[str, Any]] = [{} for _ in owners]
    for name, value in settings.items():
        index = next((index for index, names in enumerate(free) if name in names), None)
        if index is None:
            raise unknown("setting", name, frozenset().union(*free))
        parts[index][name] = value
    return parts


def typed_values(config: type[Config], values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert values of some fields of a config to their types, such as strings from flags. Bad values raise."""
    fields = {name: (config.model_fields[name].annotation, config.model_fields[name]) for name in values}
    partial: type[Config] = create_model(config.__name__, __base__=Config, **fields)  # type: ignore[call-overload]
    return dict(partial(**values))


def usage_error(error: ValidationError, config: type[BaseModel]) -> UsageError:
    """Return the first validation error as a `UsageError`."""
    fault = error.errors(include_url=False)[0]
    raised = fault.get("ctx", {}).get("error")
    if isinstance(raised, UsageError):  # from a validator of a config
        return raised
    name = ".".join(str(part) for part in fault["loc"] if not str(part).startswith("function-"))
    field, value = str(fault["loc"][0]) if fault["loc"] else "", fault["input"]
    if fault["type"] == "extra_forbidden":
        return unknown("setting", field, config.model_fields)
    if fault["type"] == "missing":
        return UsageError(f"{name} is missing.", argument=field)
    choices = _choices(config.model_fields[field].annotation) if field in config.model_fields else ()
    if fault["type"] == "literal_error" and choices and isinstance(value, str):
        return unknown(field, value, choices)
    shown = value if isinstance(value, str) and _NUMBER.fullmatch(value) else repr(value)  # show a flag's '0' as 0
    shown = shown if len(shown) <= 60 else f"{shown[:57]}…"
    return UsageError(f"{name} must be {_expected(fault, choices)}, not {shown}.", argument=field, value=value)


def _expected(fault: ErrorDetails, choices: tuple[str, ...]) -> str:
    if fault["type"] in _BOUNDS:
        key, words = _BOUNDS[fault["type"]]
        return f"{words} {fault.get('ctx', {})[key]}"
    if choices:
        return f"one of {', '.join(choices)}"
    return _EXPECTED.get(fault["type"].partition("_")[0]) or fault["msg"].removeprefix("Input should be ")


def _choices(annotation: Any) -> tuple[str, ...]:
    """Return the values of a Literal as strings; empty for other types."""
    kind = value_type(annotation)
    return tuple(map(str, typing.get_args(kind))) if typing.get_origin(kind) is typing.Literal else ()


def value_type(annotation: Any) -> Any:
    """Return the type of an optional value, without None."""
    members = [member for member in typing.get_args(annotation) if member is not NoneType]
    return members[0] if NoneType in typing.get_args(annotation) and len(members) == 1 else annotation


def to_dict(config: Any) -> dict[str, Any]:
    """Return the fields of a config or a dataclass as JSON values."""
    return config.to_dict() if isinstance(config, Config) else dataclasses.asdict(config)


def from_dict(cls: type[T], values: Mapping[str, Any]) -> T:
    """Build a dataclass from JSON values; lists become tuples, unknown keys raise."""
    fields = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for key in values:
        if key not in fields:
            raise unknown(f"{cls.__name__} setting", key, fields)
    return cls(**{key: tuple(value) if isinstance(value, list) else value for key, value in values.items()})
