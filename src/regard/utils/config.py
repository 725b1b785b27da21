"""Configs: frozen pydantic models that stand beside the thing they configure.

A config is the only source of its options: flags, Python arguments, validation, JSON schema and model folders derive
from its fields, each with a description, a default and a range. Unknown keys and bad values raise a `UsageError` that
names the field, the value and what is allowed.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from types import NoneType
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from regard.utils.errors import UsageError, unknown

T = TypeVar("T")

_EXPECTED = {  # by the prefix of pydantic's error type
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "text",
    "tuple": "a list",
    "list": "a list",
    "dict": "a mapping",
    "path": "a path",
    "finite": "a finite number",
}
_BOUNDS = {"greater_than_equal": ("ge", "at least"), "greater_than": ("gt", "more than"),
           "less_than_equal": ("le", "at most"), "less_than": ("lt", "less than")}  # fmt: skip


class Config(BaseModel):
    """Base of all configs: frozen, refuses unknown keys, speaks in `UsageError`s."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, protected_namespaces=())

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise usage_error(error, type(self)) from None

    def replace(self, **changes: Any) -> Self:
        """A copy with other values, validated."""
        return type(self)(**{**dict(self), **changes})

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON-ready values."""
        return self.model_dump(mode="json")

    @classmethod
    def field_names(cls) -> frozenset[str]:
        return frozenset(cls.model_fields)


def field_default(config: type[Config], name: str, default: Any) -> Any:
    """The field `name` of another config with another default: for subclasses that keep its description and range."""
    return FieldInfo.merge_field_infos(config.model_fields[name], default=default)


def split_settings(
    settings: Mapping[str, Any],
    owners: typing.Sequence[type[Config]],
    *,
    fixed: Mapping[type[Config], typing.Collection[str]] | None = None,
) -> list[dict[str, Any]]:
    """Give each setting to the first config that has a field of its name; `fixed` fields cannot be set."""
    free = [owner.field_names().difference((fixed or {}).get(owner, ())) for owner in owners]
    parts: list[dict[str, Any]] = [{} for _ in owners]
    for name, value in settings.items():
        place = next((place for place, names in enumerate(free) if name in names), None)
        if place is None:
            raise unknown("setting", name, frozenset().union(*free))
        parts[place][name] = value
    return parts


def typed_values(config: type[Config], values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of some fields of a config in their types: text from flags becomes numbers. Bad values raise."""
    fields = {name: (config.model_fields[name].annotation, config.model_fields[name]) for name in values}
    partial: type[Config] = create_model(config.__name__, __base__=Config, **fields)  # type: ignore[call-overload]
    return dict(partial(**values))


def usage_error(error: ValidationError, config: type[BaseModel]) -> UsageError:
    """The first fault that pydantic found, as one of our errors."""
    fault = error.errors(include_url=False)[0]
    raised = fault.get("ctx", {}).get("error")
    if isinstance(raised, UsageError):  # from a validator of ours
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
    return UsageError(f"{name} must be {_expected(fault, choices)}, not {_shown(value)}.", argument=field, value=value)


def _expected(fault: ErrorDetails, choices: tuple[str, ...]) -> str:
    kind, context = fault["type"], fault.get("ctx", {})
    if kind in _BOUNDS:
        key, words = _BOUNDS[kind]
        return f"{words} {context[key]}"
    if choices:
        return f"one of {', '.join(choices)}"
    prefix = kind.partition("_")[0]
    return _EXPECTED.get(prefix) or fault["msg"].removeprefix("Input should be ")


def _choices(annotation: Any) -> tuple[str, ...]:
    """The values of a Literal, also inside an optional type."""
    if typing.get_origin(annotation) is typing.Literal:
        return tuple(map(str, typing.get_args(annotation)))
    members = [member for member in typing.get_args(annotation) if member is not NoneType]
    return _choices(members[0]) if len(members) == 1 and typing.get_origin(annotation) is not tuple else ()


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}…"


# Dataclass configs, until they are pydantic models.


def to_dict(config: Any) -> dict[str, Any]:
    """The fields of a config as JSON-ready values."""
    if isinstance(config, Config):
        return config.to_dict()
    import dataclasses

    return {field.name: _plain(getattr(config, field.name)) for field in dataclasses.fields(config)}


def from_dict(cls: type[T], values: Mapping[str, Any]) -> T:
    """Build `cls` from `values`; lists become tuples, unknown keys raise."""
    if issubclass(cls, Config):
        return cls(**values)
    import dataclasses

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
