"""Flags from dataclasses: each field becomes a flag, the comment behind it becomes its help."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import io
import tokenize
import typing
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar

import tyro

T = TypeVar("T")

TEXTS = ("near", "stop", "target", "with_")  # flags whose values are texts and not names


def parse(
    cls: type[T],
    arguments: Sequence[str],
    *,
    program: str,
    owners: Mapping[type, str] | None = None,
    without: Sequence[str] = (),
    usual: Mapping[str, Any] | None = None,
) -> T:
    """The arguments as an instance of `cls`; wrong ones end the program with exit code 2.

    With `owners` the instance has the fields of these configs too (see `with_settings`).
    """
    return tyro.cli(
        with_settings(cls, owners or {}, without=without, usual=usual or {}),
        args=list(arguments),
        prog=program,
        description=inspect.cleandoc(cls.__doc__ or ""),
        config=(tyro.conf.FlagCreatePairsOff, tyro.conf.CascadeSubcommandArgs),
    )


def with_settings(
    base: type[T], owners: Mapping[type, str], *, without: Sequence[str] = (), usual: Mapping[str, Any] | None = None
) -> type[T]:
    """`base` with one more optional flag for each field of the configs `owners`. None means: as the recipe says.

    Each owner brings a remark on where its defaults come from; {} in it is the value that is `usual` for the verb, or
    else the default of the field.
    """
    fields = [_flag(base, field, field.default, hint="") for field in dataclasses.fields(base)]  # type: ignore[arg-type]
    taken = {name for name, _, _ in fields} | set(without)
    for owner, remark in owners.items():
        for field in dataclasses.fields(owner):
            if field.name not in taken:
                taken.add(field.name)
                shown = (usual or {}).get(field.name, field.default)
                hint = "" if shown in (None, (), dataclasses.MISSING) else remark.format(shown)
                fields.append(_flag(owner, field, None, hint=hint))
    made = dataclasses.make_dataclass(base.__name__, fields, bases=(base,), frozen=True, kw_only=True)
    made.__doc__ = base.__doc__
    return made


def _flag(owner: type, field: dataclasses.Field[Any], default: Any, *, hint: str) -> tuple[str, Any, Any]:
    """A field for `make_dataclass`, with the comment behind the original one as its help."""
    kind: Any = typing.get_type_hints(owner, include_extras=True)[field.name]
    if typing.get_origin(kind) is Annotated:  # tyro's mark of a positional argument
        metavar: str | None = _positional(field.name.upper(), typing.get_args(kind)[0], default)
    elif kind is bool and default is not None:
        metavar = None  # a switch takes no value
    else:
        metavar = _metavar(next((part for part in _members(kind) if part is not type(None)), kind))
        metavar = metavar.replace("NAME", "TEXT") if metavar and field.name in TEXTS else metavar
    kind = kind | None if default is None else kind
    note = tyro.conf.arg(
        name=field.name[:-1] if field.name.endswith("_") else None,  # a word that Python keeps for itself: from_
        help=field_comments(owner).get(field.name, ""),
        metavar=metavar,
        help_behavior_hint=hint or _hint(default),
    )
    return field.name, Annotated.__class_getitem__((kind, note)), dataclasses.field(default=default)  # type: ignore[attr-defined]


def _hint(default: Any) -> str:
    if default is dataclasses.MISSING:
        return "(required)"
    return f"(default: {default})" if default not in (None, False, (), "") else ""


def _positional(name: str, kind: Any, default: Any) -> str:
    """How an argument without a flag is written in the help: in brackets if it may be left out."""
    name = f"{name} …" if typing.get_origin(kind) is tuple else name
    return name if default is dataclasses.MISSING else f"[{name}]"


def _members(kind: Any) -> tuple[Any, ...]:
    """The members of a union; anything else is its own only member."""
    return typing.get_args(kind) if type(None) in typing.get_args(kind) else (kind,)


def _metavar(kind: Any) -> str | None:
    """How a value is written in the help; None leaves it to the library."""
    if typing.get_origin(kind) is typing.Literal:
        return "{" + ",".join(map(str, typing.get_args(kind))) + "}"
    if typing.get_origin(kind) is tuple:
        return " ".join("…" if part is ... else _metavar(part) or "" for part in typing.get_args(kind))
    return {int: "N", float: "X", str: "NAME", bool: "{True,False}"}.get(kind, "PATH")


@functools.cache
def field_comments(owner: type) -> dict[str, str]:
    """The comment at the end of each field's line, or the lines of comment right above it; inherited fields', too."""
    parts = [part for part in reversed(owner.__mro__) if dataclasses.is_dataclass(part)]
    return {name: comment for part in parts for name, comment in _own_comments(part).items()}


def _own_comments(owner: type) -> dict[str, str]:
    comments: dict[str, str] = {}
    line: list[tokenize.TokenInfo] = []
    above: list[str] = []
    for token in tokenize.generate_tokens(io.StringIO(inspect.getsource(owner)).readline):
        if token.type in (tokenize.NEWLINE, tokenize.NL):
            names = [t.string for t in line if t.type == tokenize.NAME]
            said = [t.string.lstrip("# ") for t in line if t.type == tokenize.COMMENT]
            if names and len(line) > 2 and line[1].string == ":" and (said or above):
                comments.setdefault(names[0], said[-1] if said else " ".join(above))
            above = [*above, *said] if line and not names else []
            line = []
        elif token.type not in (tokenize.INDENT, tokenize.DEDENT):
            line.append(token)
    return comments
