"""Flags from configs: each field of a config becomes a flag; its description, range and default become the help.

Values of config fields are handed on as they were typed: the config itself converts and checks them, so that a flag
and a Python argument give the same error.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, TypeVar

import tyro
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from regard.utils.config import Config

T = TypeVar("T")


@dataclass(frozen=True)
class Section:
    """The flags of one config: which fields are left out, and other words for defaults that a recipe sets."""

    config: type[Config]
    without: Collection[str] = ()
    defaults: Mapping[str, str] = dataclasses.field(default_factory=dict)
    remark: str = ""  # said instead of the default where a model folder or a preset decides


def option(
    help: str, default: Any = dataclasses.MISSING, *, metavar: str | None = None, name: str | None = None
) -> Any:
    """A flag or argument of a verb itself: a dataclass field with help."""
    return dataclasses.field(default=default, metadata={"help": help, "metavar": metavar, "name": name})


def parse(
    verb: type[T], arguments: Sequence[str], *, program: str, sections: Sequence[Section] = (), description: str = ""
) -> tuple[T, dict[str, Any]]:
    """The verb's own arguments, and the config fields that were given; a wrong flag exits with code 2."""
    own = dataclasses.fields(verb)  # type: ignore[arg-type]
    fields = [_own_flag(verb, item) for item in own]
    taken = {item.name for item in own}
    from_files: set[str] = set()  # fields whose texts may come from a file
    for section in sections:
        for name, info in section.config.model_fields.items():
            if name not in taken and name not in section.without and not _is_mapping(info.annotation):
                taken.add(name)
                fields.append(_config_flag(name, info, section))
                if isinstance(info.json_schema_extra, dict) and info.json_schema_extra.get("file") == "lines":
                    from_files.add(name)
    made = dataclasses.make_dataclass(verb.__name__, fields, frozen=True, kw_only=True)
    parsed: Any = tyro.cli(
        made,
        args=list(arguments),
        prog=program,
        description=description or inspect.cleandoc(verb.__doc__ or ""),
        config=(tyro.conf.FlagCreatePairsOff, tyro.conf.CascadeSubcommandArgs),
    )
    values = {item.name: getattr(parsed, item.name) for item in own}
    others = {item.name for item in dataclasses.fields(made)}.difference(values)
    given = {name: getattr(parsed, name) for name in others}
    given |= {name: _texts(given[name]) for name in from_files if name in given}
    return verb(**values), {name: value for name, value in given.items() if value not in (None, (), False)}


def _texts(words: tuple[str, ...]) -> tuple[str, ...]:
    """Texts as they were typed, or those of the file that a single word names: its lines, or a table's column."""
    from regard.data.files import read_bytes
    from regard.data.inputs import is_file, text_lines
    from regard.data.rows import table_suffix
    from regard.data.texts import read_text_column

    if len(words) != 1 or not is_file(words[0]):
        return words
    path = Path(words[0])
    return tuple(read_text_column(path) if table_suffix(path) else text_lines(read_bytes(path), path))


def value_of(flag: str, arguments: Sequence[str]) -> str | None:
    """The value of a flag on which other flags depend, before these can be parsed."""
    for place, word in enumerate(arguments):
        if word == flag and place + 1 < len(arguments):
            return arguments[place + 1]
        if word.startswith(f"{flag}="):
            return word.partition("=")[2]
    return None


def _own_flag(verb: type, item: dataclasses.Field[Any]) -> tuple[str, Any, Any]:
    kind: Any = typing.get_type_hints(verb, include_extras=True)[item.name]
    positional = typing.get_origin(kind) is Annotated  # tyro.conf.Positional
    metavar = item.metadata.get("metavar")
    if metavar is None and positional:
        metavar = _positional(item.name.upper(), typing.get_args(kind)[0], item.default)
    elif metavar is None and kind is not bool:
        metavar = _metavar(kind)
    note = tyro.conf.arg(
        name=item.metadata.get("name"),
        help=item.metadata.get("help", ""),
        metavar=metavar,
        help_behavior_hint=_hint(item.default),
    )
    return item.name, Annotated.__class_getitem__((kind, note)), dataclasses.field(default=item.default)  # type: ignore[attr-defined]


def _config_flag(name: str, info: FieldInfo, section: Section) -> tuple[str, Any, Any]:
    """An optional flag. Without it the config, the recipe or the model folder decides."""
    kind = _value_type(info.annotation)
    switch = kind is bool and info.default is False
    accepted: Any = bool if switch else tuple[str, ...] if typing.get_origin(kind) is tuple else str | None
    default: Any = False if switch else () if typing.get_origin(kind) is tuple else None
    note = tyro.conf.arg(
        help=info.description or "",
        metavar=None if switch else _metavar(kind),
        help_behavior_hint=_default_hint(name, info, section),
    )
    return name, Annotated.__class_getitem__((accepted, note)), dataclasses.field(default=default)  # type: ignore[attr-defined]


def _default_hint(name: str, info: FieldInfo, section: Section) -> str:
    if name in section.defaults:
        return f"(default: {section.defaults[name]})"
    if section.remark:
        return f"({section.remark})"
    return "" if info.default is PydanticUndefined else _hint(info.default)


def _hint(default: Any) -> str:
    if default is dataclasses.MISSING:
        return "(required)"
    return f"(default: {default})" if default not in (None, False, (), "") else ""


def _positional(name: str, kind: Any, default: Any) -> str:
    """How a positional argument is written in the help: in brackets if it is optional."""
    name = f"{name} …" if typing.get_origin(kind) is tuple else name
    return name if default is dataclasses.MISSING else f"[{name}]"


def _is_mapping(annotation: Any) -> bool:
    """Mappings cannot be typed on a command line."""
    return typing.get_origin(annotation) in (dict, Mapping)


def _value_type(annotation: Any) -> Any:
    """The type of an optional value without its None."""
    members = [member for member in typing.get_args(annotation) if member is not NoneType]
    is_optional = NoneType in typing.get_args(annotation)
    return members[0] if is_optional and len(members) == 1 else annotation


def _metavar(annotation: Any) -> str:
    kind = _value_type(annotation)
    if typing.get_origin(kind) is typing.Literal:
        return "{" + ",".join(map(str, typing.get_args(kind))) + "}"
    if typing.get_origin(kind) is tuple:
        parts = [part for part in typing.get_args(kind) if part is not ...]
        return " ".join(_metavar(part) for part in parts) + (" …" if ... in typing.get_args(kind) else "")
    return {int: "N", float: "X", str: "TEXT", bool: "{true,false}"}.get(kind, "PATH")
