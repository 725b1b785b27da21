"""`regard train TASK DATA… --out RUN`: train a model for any task."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro

from regard.cli.options import Section, option, parse, value_of
from regard.cli.output import print_line, print_result
from regard.nn.config import LoRAConfig
from regard.registry import architectures, architectures_for, tasks
from regard.spec import Architecture, TaskSpec
from regard.training.config import ModelOptions, RunOptions
from regard.utils.errors import UsageError, unknown


@dataclass(frozen=True, kw_only=True)
class TrainArguments:
    data: tyro.conf.Positional[tuple[Path, ...]] = option("Data files (default: the built-in dataset).", ())
    out: Path | None = option("Run folder to write (required).", None)
    validation: tuple[Path, ...] = option("Validation files (default: a part of DATA is held out).", ())
    json: bool = option("Print the result as JSON.", False)


def main(verb: str, words: list[str]) -> None:
    if not words or words[0] in ("-h", "--help"):
        width = max(map(len, _trainable()))
        rows = "\n".join(f"  {name:<{width}}  {spec.summary}" for name, spec in _trainable().items())
        usage = "usage: regard train TASK DATA… --out RUN [OPTIONS]"
        options = "such as --minutes, --steps, --size, --from and --resume"
        print_line(f"{usage}\n\ntasks:\n{rows}\n\n`regard train TASK --help` shows its options, {options}.")
        return
    task, *rest = words
    if task not in tasks or not tasks[task].trainable:
        raise unknown("task", task, _trainable())
    spec = tasks[task]
    architecture = architectures[value_of("--model", rest) or spec.default_architecture]
    args, settings = parse(
        TrainArguments,
        rest,
        program=f"regard train {task}",
        sections=_sections(spec, architecture),
        description=_description(spec, architecture),
    )
    if args.out is None:
        raise UsageError("--out is missing. Add a run folder, for example --out runs/mine.", argument="out")
    from regard.api import run_training
    from regard.training.callbacks import default_progress

    progress = default_progress()
    try:
        run = run_training(
            task,
            args.data,
            out=args.out,
            validation=args.validation,
            progress=progress,
            resume_command=lambda _, steps: resume_command(["train", *words], steps=steps),
            **settings,
        )
    finally:
        progress.close()
    lines = [f"{score.on or run.scored_on}: {score}" for score in run.scores]
    print_result(run.to_dict(), [*lines, f"model: {run.folder}", f"report: {run.report}"], as_json=args.json)


def _trainable() -> dict[str, TaskSpec]:
    return {name: spec for name, spec in tasks.usable().items() if spec.trainable}


def _sections(spec: TaskSpec, architecture: Architecture) -> list[Section]:
    assert spec.train_config is not None, "the task is trainable"
    sections = [
        Section(ModelOptions),
        Section(RunOptions),
        Section(spec.train_config, without=spec.fixed, defaults=spec.default_help),
        Section(architecture.config, without=architecture.fixed | spec.fixed, default="set by --size"),
        Section(spec.predict_config, without=spec.fixed),
    ]
    return [*sections, Section(LoRAConfig)] if spec.lora else sections


def _description(spec: TaskSpec, architecture: Architecture) -> str:
    return (
        f"Train a model: {spec.summary[0].lower()}{spec.summary[1:]}\n\n"
        f"DATA: {spec.data_help} Without DATA the built-in dataset is used.\n"
        f"--model: {', '.join(architectures_for(spec))} (default: {spec.default_architecture}).\n"
        f"--size: {', '.join(architecture.presets)} (default: {spec.default_preset})."
    )


def resume_command(words: Sequence[str], *, steps: int | None = None) -> str:
    """Return the user's command with --resume instead of --force; `steps` replaces its budget."""
    end = words.index("--") if "--" in words else len(words)  # words after -- are data files
    kept: list[str] = []
    remaining = iter(words[:end])
    for word in remaining:
        flag, equals, _ = word.partition("=")
        if steps is not None and flag in ("--steps", "--minutes"):
            if not equals:
                next(remaining, None)
        elif flag not in ("--force", "--resume"):
            kept.append(word)
    budget = [] if steps is None else ["--steps", str(steps)]
    return shlex.join([*_program(), *kept, *budget, "--resume", *words[end:]])


def _program() -> list[str]:
    """Return the words that start this program: its name if the shell finds it, otherwise its path."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py" and called.parent.name == "regard":
        return [sys.executable, "-m", "regard"]
    on_path = shutil.which("regard")
    if called.name == "regard" and (on_path is None or Path(on_path).resolve() != called.resolve()):
        return [str(called)]
    return ["regard"]
