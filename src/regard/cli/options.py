"""Command-line flags for configs: each field becomes a flag; its description, range and default become the help.

Values of flags are passed to the config as strings. The config converts and checks them, so that a flag and a Python
argument give the same error.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import io
import itertools
import re
import typing
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tyro
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from regard.utils.config import Config, value_type
from regard.utils.errors import UsageError, flag, suggest_name

T = TypeVar("T")
Flag = tuple[str, Any, Any]  # name, type, dataclass field


@dataclass(frozen=True)
class Section:
    """The flags of one config."""

    config: type[Config]
    without: Collection[str] = ()  # fields that get no flag
    defaults: Mapping[str, str] = dataclasses.field(default_factory=dict)  # descriptions of defaults that a recipe sets
    default: str = ""  # description of all defaults, if a model folder or a preset sets them


def option(help: str, default: Any = dataclasses.MISSING, *, metavar: str | None = None) -> Any:
    """Return a dataclass field for a flag or positional argument of a command."""
    return dataclasses.field(default=default, metadata={"help": help, "metavar": metavar})


def parse(
    command: type[T], words: Sequence[str], *, program: str, sections: Sequence[Section] = (), description: str = ""
) -> tuple[T, dict[str, Any]]:
    """Return the arguments of the command and the config fields that were set; exit with code 2 for a wrong flag."""
    own = {item.name: item for item in dataclasses.fields(command)}  # type: ignore[arg-type]
    hints = typing.get_type_hints(command, include_extras=True)
    flags = [_own_flag(item, hints[item.name]) for item in own.values()]
    settings: dict[str, FieldInfo] = {}
    for section in sections:
        for name, info in section.config.model_fields.items():
            is_mapping = typing.get_origin(info.annotation) in (dict, Mapping)  # mappings have no flag
            if not is_mapping and not (name in own or name in settings or name in section.without):
                settings[name] = info
                flags.append(_config_flag(name, info, section))
    named = [name for name in own if typing.get_origin(hints[name]) is not Annotated]  # the others are positional
    _refuse_unknown(words, [*named, *settings], own.keys() - set(named), program)
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            parsed: Any = tyro.cli(
                dataclasses.make_dataclass(command.__name__, flags, frozen=True, kw_only=True),
                args=list(words),
                prog=program,
                description=description or inspect.cleandoc(command.__doc__ or ""),
                config=(tyro.conf.FlagCreatePairsOff, tyro.conf.CascadeSubcommandArgs),
            )
    except SystemExit as stop:
        if not stop.code:  # --help
            raise
        raise _usage_error(errors.getvalue(), program) from None
    given = {name: getattr(parsed, name) for name in settings if getattr(parsed, name) not in (None, (), False)}
    for name in given:
        extra = settings[name].json_schema_extra
        if isinstance(extra, dict) and extra.get("file") == "lines":
            given[name] = _texts(given[name])
    return command(**{name: getattr(parsed, name) for name in own}), given


def _refuse_unknown(words: Sequence[str], fields: Sequence[str], positional: Collection[str], program: str) -> None:
    """Raise if an option does not exist, and suggest the option that the user probably meant."""
    known = ["--help", *map(flag, fields)]
    for word in itertools.takewhile(lambda word: word != "--", words):
        name = word.partition("=")[0].replace("_", "-")
        if re.fullmatch(r"--[a-z][\w-]*", name, re.IGNORECASE) and name not in known:  # a text may begin with a dash
            meant = suggest_name(name, known)
            hint = "" if meant is None else f" Did you mean {meant}?"
            if name in map(flag, positional):
                hint = f" {name[2:].upper()} is positional. Give its value without {name}."
            message = f"unknown option {name}.{hint} `{program} --help` lists the options."
            raise UsageError(message, argument="option", value=name, allowed=known, hint=meant)


def _usage_error(box: str, program: str) -> UsageError:
    """Return the error that tyro printed in a box with a title, a message, a line and a hint."""
    lines = [line.strip("│ ") for line in box.strip().splitlines()[1:]]
    start = 0 if lines[0].strip("─-") else 1  # without UTF-8, a line follows the title
    text = " ".join(itertools.takewhile(lambda line: line.strip("─-"), lines[start:]))
    missing = re.match(r"Missing from [^:]+: (\S+)", text)
    name = missing or re.search(r"'--([\w-]+)'", text)
    message = f"{missing[1]} is missing." if missing else f"{text[:1].lower()}{text[1:].removesuffix('.')}."
    return UsageError(
        f"{message} `{program} --help` lists the arguments and options.",
        argument=name[1].lower().replace("-", "_") if name else "option",
    )


def _texts(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return texts from the command line or, if the only text is a path, the texts in that file."""
    from regard.data.inputs import is_file, read_texts

    return tuple(read_texts(Path(words[0]))) if len(words) == 1 and is_file(words[0]) else words


def value_of(flag: str, words: Sequence[str]) -> str | None:
    """Return the value of a flag before parsing, if it determines which other flags exist."""
    for index, word in enumerate(words):
        if word == flag and index + 1 < len(words):
            return words[index + 1]
        if word.startswith(f"{flag}="):
            return word.partition("=")[2]
    return None


def _own_flag(item: dataclasses.Field[Any], kind: Any) -> Flag:
    metavar = item.metadata["metavar"]
    if metavar is None and typing.get_origin(kind) is Annotated:  # tyro.conf.Positional
        several = typing.get_origin(typing.get_args(kind)[0]) is tuple
        metavar = f"{item.name.upper()} …" if several else item.name.upper()
        metavar = metavar if item.default is dataclasses.MISSING else f"[{metavar}]"
    elif metavar is None and kind is not bool:
        metavar = _metavar(kind)
    hint = "(required)" if item.default is dataclasses.MISSING else _hint(item.default)
    return _flag(item.name, kind, item.default, hint, metavar, item.metadata["help"])


def _config_flag(name: str, info: FieldInfo, section: Section) -> Flag:
    """Return an optional flag. If it is not given, the config, the recipe or the model folder sets the value."""
    kind = value_type(info.annotation)
    default = section.defaults.get(name, section.default)
    hint = f"(default: {default})" if default else _hint(info.default)
    if "(default" in (info.description or ""):  # the description explains it
        hint = ""
    if kind is bool and info.default is False:
        return _flag(name, bool, False, "", None, info.description)
    if typing.get_origin(kind) is tuple:
        return _flag(name, tuple[str, ...], (), hint, _metavar(kind), info.description)
    return _flag(name, str | None, None, hint, _metavar(kind), info.description)


def _flag(field: str, kind: Any, default: Any, hint: str, metavar: str | None, help: str | None) -> Flag:
    note = tyro.conf.arg(name=field.strip("_"), help=help or "", metavar=metavar, help_behavior_hint=hint)
    annotation = Annotated.__class_getitem__((kind, note))  # type: ignore[attr-defined]
    return field, annotation, dataclasses.field(default=default)


def _hint(default: Any) -> str:
    is_empty = default is False or default in (None, (), "", PydanticUndefined)
    return "" if is_empty else f"(default: {default})"


def _metavar(annotation: Any) -> str:
    kind = value_type(annotation)
    if typing.get_origin(kind) is typing.Literal:
        return "{" + ",".join(map(str, typing.get_args(kind))) + "}"
    if typing.get_origin(kind) is tuple:
        parts = [part for part in typing.get_args(kind) if part is not ...]
        return " ".join(_metavar(part) for part in parts) + (" …" if ... in typing.get_args(kind) else "")
    return {int: "N", float: "X", str: "TEXT", bool: "{true,false}"}.get(kind, "PATH")
