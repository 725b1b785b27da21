"""`regard evaluate MODEL DATA`: the official scores of the model's task on a test file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from regard.checkpoint.probe import check_folder, task_of
from regard.cli.options import Section, option, parse, value_of
from regard.cli.output import note, print_json, print_line
from regard.registry import tasks
from regard.utils.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Score a model on test files by the official metrics of its task, beside simple baselines.

    DATA is read as `regard train TASK` reads it. Further options depend on the task: `regard evaluate MODEL --help`.
    """

    model: tyro.conf.Positional[Path] = option("Model folder.")
    data: tyro.conf.Positional[tuple[Path, ...]] = option("Test files.", ())
    task: str | None = option("Task to evaluate, if not the one the model was trained for.", None, metavar="NAME")
    confusion: bool = option("Print the confusion matrix, too, where each input has one label.", False)
    json: bool = option("Print the scores as JSON.", False)


def main(verb: str, arguments: list[str]) -> int:
    name = _task(arguments)
    sections = []
    if name is not None:
        remark = "default: as in the model folder"
        sections = [Section(tasks[name].read_config), Section(tasks[name].predict_config, remark=remark)]
    asked, options = parse(Arguments, arguments, program="regard evaluate", sections=sections)
    check_folder(asked.model)
    if not asked.data:
        raise UsageError("DATA is missing: name a test file.", argument="data")
    from regard.api import evaluate, load

    scores = evaluate(load(asked.model, task=asked.task), asked.data, notify=note, **options)
    if asked.confusion and scores.confusion is None:
        raise UsageError("--confusion needs a task with one label for each input.", argument="confusion")
    table = scores.confusion if asked.confusion else None
    if asked.json:
        listed = [{"name": score.name, "value": score.value, "signature": score.signature} for score in scores]
        print_json({"scores": listed, "confusion": table.to_dict()} if table else listed)
        return 0
    for score in scores:
        print_line(str(score))
    if table:
        print_line(f"\nrows: label in the file, columns: predicted label\n{table}")
    return 0


def _task(arguments: list[str]) -> str | None:
    """The task whose options apply: that of --task, or of the model folder."""
    asked = value_of("--task", arguments)
    folder = next((word for word in arguments if not word.startswith("-")), None)
    return asked or (None if folder is None else task_of(Path(folder)))
