"""`regard look MODEL INPUT… [--view NAME]`: show what a model does with an input, as one offline page or picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from regard.checkpoint.probe import check_folder, task_of
from regard.cli.options import Section, option, parse
from regard.cli.output import check_drawing, print_json, print_line, print_result
from regard.data.inputs import one_input
from regard.registry import tasks, views
from regard.utils.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class LookArguments:
    """Show what a model does with an input: its attention, or another view.

    INPUTS are the inputs of the model's task, each in quotes. `regard look MODEL --views` lists the views of a model.
    Each option after --json applies to one view.
    """

    model: tyro.conf.Positional[Path] = option("Model folder.")
    inputs: tyro.conf.Positional[tuple[str, ...]] = option("Input texts, one for each input of the task.", ())
    view: str | None = option("View to show (default: the first that --views lists).", None, metavar="NAME")
    views: bool = option("List the views of the model.", False)
    out: Path = option(
        "File to write: .html (the full view), .svg or .png (an image), .csv, .json or .npy (attention weights).",
        Path("look.html"),
    )
    force: bool = option("Replace an existing file.", False)
    json: bool = option("Print the numbers of the view as JSON instead of writing a file.", False)


def main(verb: str, words: list[str]) -> None:
    sections = [Section(view.config) for view in views.usable().values() if view.config is not None]
    args, options = parse(LookArguments, words, program="regard look", sections=sections)
    check_folder(args.model)
    inputs = () if args.views else _inputs(args)
    from regard import api

    model = api.load(args.model)
    if args.views:
        summaries = api.views_of(model)
        width = max(map(len, summaries), default=0)
        lines = [f"{name:<{width}}  {summary}" for name, summary in summaries.items()]
        print_result(summaries, lines, as_json=args.json)
        return
    view = api.look(model, *inputs, view=args.view, **options)
    if args.json:
        print_json(view.numbers())
    else:
        view.save(args.out)
        print_line("\n".join([*view.lines, str(args.out)]))


def _inputs(args: LookArguments) -> Sequence[Any]:
    """Return a value for each input of the task; raise for wrong requests before the model is loaded."""
    if not any(text.strip() for text in args.inputs):
        raise UsageError("INPUTS is missing. Add a text in quotes.", argument="inputs")
    if args.view is not None:
        _ = views[args.view]
    if not args.json:
        check_drawing(args.out, force=args.force, data=True)
    task = task_of(args.model)
    fields = tasks[task].inputs if task is not None else ()
    return one_input(args.inputs, fields) if len(fields) > 1 else args.inputs
