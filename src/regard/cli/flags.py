"""Flags from dataclasses: each field becomes a flag, the comment behind it becomes its help."""

from __future__ import annotations

import dataclasses
import inspect
import io
import tokenize
import typing
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

import tyro

T = TypeVar("T")


def parse(cls: type[T], arguments: Sequence[str], *, program: str, description: str = "") -> T:
    """The arguments as an instance of `cls`; wrong ones end the program with exit code 2."""
    return tyro.cli(
        cls,
        args=list(arguments),
        prog=program,
        description=description or inspect.cleandoc(cls.__doc__ or ""),
        config=(tyro.conf.FlagCreatePairsOff, tyro.conf.CascadeSubcommandArgs),
    )


def with_settings(base: type[T], owners: Sequence[type], *, without: Sequence[str] = ()) -> type[T]:
    """`base` with one more optional flag for each field of the configs `owners`. None means: as the recipe says."""
    fields: list[tuple[str, Any, Any]] = []
    taken = {field.name for field in dataclasses.fields(base)} | set(without)  # type: ignore[arg-type]
    for owner in owners:
        comments = field_comments(owner)
        hints = typing.get_type_hints(owner)
        for field in dataclasses.fields(owner):
            if field.name in taken:
                continue
            taken.add(field.name)
            help_text = comments.get(field.name, "")
            optional: Any = hints[field.name] | None
            flag = Annotated.__class_getitem__((optional, tyro.conf.arg(help=help_text)))  # type: ignore[attr-defined]
            fields.append((field.name, flag, dataclasses.field(default=None)))
    made = dataclasses.make_dataclass(base.__name__, fields, bases=(base,), frozen=True, kw_only=True)
    made.__doc__ = base.__doc__
    return made


def field_comments(owner: type) -> dict[str, str]:
    """The comment at the end of each field's line."""
    comments: dict[str, str] = {}
    line: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(inspect.getsource(owner)).readline):
        if token.type in (tokenize.NEWLINE, tokenize.NL):
            names = [t.string for t in line if t.type == tokenize.NAME]
            said = [t.string for t in line if t.type == tokenize.COMMENT]
            if names and said and len(line) > 2 and any(t.string == ":" for t in line[:6]):
                comments[names[0]] = said[-1].lstrip("# ")
            line = []
        elif token.type not in (tokenize.INDENT, tokenize.DEDENT):
            line.append(token)
    return comments
