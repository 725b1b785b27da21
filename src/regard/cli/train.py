"""`regard train TASK DATA… --out RUN`: train a model for any task."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from regard.cli.options import Section, option, parse, value_of
from regard.cli.output import print_json, print_line
from regard.cli.resume_command import resume_command
from regard.nn.lora_config import LoRAConfig
from regard.registry import architectures, architectures_for, tasks
from regard.spec import Architecture, TaskSpec
from regard.utils.errors import UsageError, unknown

PRETRAINED = ("from_", "lora", "forgetting")  # what only tasks with pretrained weights take


@dataclass(frozen=True, kw_only=True)
class Arguments:
    data: tyro.conf.Positional[tuple[Path, ...]] = option("Data files; without any the built-in dataset is used.", ())
    out: Path | None = option("Run folder to write (required).", None)
    validation: tuple[Path, ...] = option("Validation files; otherwise a part of DATA is held out.", ())
    model: str | None = option("Architecture.", None, metavar="NAME")
    size: str | None = option("Preset of the model's shape.", None, metavar="NAME")
    from_: str | None = option("Start from the weights in this model folder, or hf:owner/name.", None, name="from")
    lora: bool = option("With --from: train LoRA adapters and freeze the other weights.", False)
    device: str = option("auto, cpu, cuda or mps.", "auto", metavar="NAME")
    save_every: float = option("Seconds between checkpoints.", 60.0)
    resume: bool = option("Resume from the last good checkpoint in --out.", False)
    force: bool = option("Replace an earlier run in --out.", False)
    json: bool = option("Print the result as JSON.", False)


def main(verb: str, arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print_line(_help())
        return 0
    task, *rest = arguments
    if task not in tasks or not tasks[task].trainable:
        raise unknown("task", task, _trainable())
    spec = tasks[task]
    architecture = architectures[value_of("--model", rest) or spec.default_architecture]
    asked, settings = parse(
        Arguments,
        rest,
        program=f"regard train {task}",
        sections=_sections(spec, architecture),
        description=_description(spec, architecture),
    )
    if asked.out is None:
        raise UsageError("--out is missing: name the run folder, for example --out runs/mine.", argument="out")
    from regard.api import run_training
    from regard.training.progress import for_terminal

    progress = for_terminal()
    try:
        run = run_training(
            task,
            asked.data,
            out=asked.out,
            validation=asked.validation,
            model=asked.model,
            size=asked.size,
            from_=asked.from_,
            lora=asked.lora,
            device=asked.device,
            save_every=asked.save_every,
            resume=asked.resume,
            force=asked.force,
            progress=progress,
            resume_command=lambda _, steps: resume_command(["train", *arguments], steps=steps),
            **settings,
        )
    finally:
        progress.close()
    if asked.json:
        print_json(run.to_dict())
    else:
        for score in run.scores:
            print_line(f"{score.on or run.scored_on}: {score}")
        print_line(f"model: {run.folder}\nreport: {run.report}")
    return 0


def _sections(spec: TaskSpec, architecture: Architecture) -> list[Section]:
    assert spec.train_config is not None, "only trainable tasks come here"
    sections = [
        Section(spec.train_config, without=spec.fixed, defaults=spec.default_help),
        Section(architecture.config, without=architecture.fixed | spec.fixed, remark="default: by --size"),
        Section(spec.predict_config, without=spec.fixed),
    ]
    return [*sections, Section(LoRAConfig)] if spec.lora else sections


def _description(spec: TaskSpec, architecture: Architecture) -> str:
    able = ", ".join(architectures_for(spec))
    return (
        f"Train a model: {spec.summary[0].lower()}{spec.summary[1:]}\n\n"
        f"DATA: {spec.data_help} Without DATA the built-in dataset is used.\n"
        f"--model: {able} (default: {spec.default_architecture}). "
        f"--size: {', '.join(architecture.presets)} (default: {spec.default_preset})."
    )


def _trainable() -> list[str]:
    return [name for name, spec in tasks.usable().items() if spec.trainable]


def _help() -> str:
    names = _trainable()
    width = max(map(len, names))
    rows = "\n".join(f"  {name:<{width}}  {tasks[name].summary}" for name in names)
    return f"usage: regard train TASK DATA… --out RUN [OPTIONS]\n\ntasks:\n{rows}\n\nSee `regard train TASK --help`."
