"""`regard look MODEL INPUT… [--view NAME]`: what a model does with an input, as one offline page or picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from regard.checkpoint.probe import check_folder, task_of
from regard.cli.options import Section, option, parse
from regard.cli.output import check_free, print_json, print_line
from regard.data.inputs import one_input
from regard.registry import tasks, views
from regard.utils.errors import UsageError
from regard.views.view import check_format


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Show what a model does with an input: its attention, or another view of it.

    INPUTS are what the model's task takes, each in quotes. `regard look MODEL --views` lists the views that the model
    offers. Options after --json belong to single views.
    """

    model: tyro.conf.Positional[Path] = option("Model folder.")
    inputs: tyro.conf.Positional[tuple[str, ...]] = option("The input: one text, or one for each field.", ())
    view: str | None = option("Which view (default: the first that the model offers).", None, metavar="NAME")
    views: bool = option("List the views that the model offers.", False)
    out: Path = option("File to write: .html (the whole view), .svg or .png (a picture).", Path("look.html"))
    force: bool = option("Replace an existing file.", False)
    json: bool = option("Print the numbers of the view as JSON instead of writing a file.", False)


def main(verb: str, arguments: list[str]) -> int:
    sections = [Section(view.config) for view in views.usable().values() if view.config is not None]
    asked, options = parse(Arguments, arguments, program="regard look", sections=sections)
    check_folder(asked.model)
    inputs = () if asked.views else _inputs(asked)
    from regard import api

    model = api.load(asked.model)
    if asked.views:
        offered = api.views_of(model)
        if asked.json:
            print_json(offered)
        else:
            width = max(map(len, offered), default=0)
            print_line("\n".join(f"{name:<{width}}  {summary}" for name, summary in offered.items()))
        return 0
    shown = api.look(model, *inputs, view=asked.view, **options)
    if asked.json:
        print_json(shown.numbers())
        return 0
    for line in shown.lines:
        print_line(line)
    shown.save(asked.out)
    print_line(str(asked.out))
    return 0


def _inputs(asked: Arguments) -> Sequence[Any]:
    """The input, with a value for each field of the task; wrong requests are refused before the model is loaded."""
    if not any(text.strip() for text in asked.inputs):
        raise UsageError("there is no input: give a text in quotes.", argument="inputs")
    if asked.view is not None:
        _ = views[asked.view]
    if not asked.json:
        check_free(asked.out, force=asked.force)
        check_format(asked.out)
    task = task_of(asked.model)
    fields = tasks[task].inputs if task is not None else ()
    return one_input(asked.inputs, fields) if len(fields) > 1 else asked.inputs
