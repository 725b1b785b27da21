"""`regard evaluate MODEL DATA`: the official scores of the model's task on a test file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from regard.checkpoint.probe import check_folder, task_of
from regard.cli.options import Section, option, parse, value_of
from regard.cli.output import print_result
from regard.registry import tasks
from regard.utils.errors import UsageError, print_message


@dataclass(frozen=True, kw_only=True)
class EvaluateArguments:
    """Score a model on test files with the official metrics of its task, next to simple baselines.

    DATA has the same formats as in `regard train TASK`. `regard evaluate MODEL --help` also shows the options of the
    model's task.
    """

    model: tyro.conf.Positional[Path] = option("Model folder.")
    data: tyro.conf.Positional[tuple[Path, ...]] = option("Test files.", ())
    task: str | None = option("Task to evaluate (default: the task of the model).", None, metavar="NAME")
    confusion: bool = option("Also print the confusion matrix (tasks with one label per input).", False)
    json: bool = option("Print the scores as JSON.", False)


def main(verb: str, words: list[str]) -> None:
    folder = next((word for word in words if not word.startswith("-")), None)
    task = value_of("--task", words) or (None if folder is None else task_of(Path(folder)))
    sections = []
    if task is not None:
        default = "as in the model folder"
        sections = [Section(tasks[task].read_config), Section(tasks[task].predict_config, default=default)]
    args, options = parse(EvaluateArguments, words, program="regard evaluate", sections=sections)
    check_folder(args.model)
    if not args.data:
        raise UsageError("DATA is missing. Add a test file.", argument="data")
    from regard.api import evaluate, load

    scores = evaluate(load(args.model, task=args.task), args.data, notify=print_message, **options)
    if args.confusion and scores.confusion is None:
        raise UsageError("--confusion needs a task with one label per input. Remove it.", argument="confusion")
    lines = [str(score) for score in scores]
    record: Any = [{"name": score.name, "value": score.value, "signature": score.signature} for score in scores]
    if args.confusion and scores.confusion is not None:
        lines.append(f"\nrows: true label, columns: predicted label\n{scores.confusion}")
        record = {"scores": record, "confusion": scores.confusion.to_dict()}
    print_result(record, lines, as_json=args.json)
