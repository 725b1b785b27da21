"""Write docs/cli.md: every command, task and option, from the classes that the command line itself uses.

    python scripts/cli_docs.py            write the page
    python scripts/cli_docs.py --check    exit with 1 if the page is stale

Each command is asked for its flags in place of parsing them, so the page shows what `--help` shows. It depends neither
on the width of the terminal nor on installed plug-ins, and it does not import torch.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import sys
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from regard.cli import main as cli
from regard.cli import options
from regard.registry import ARCHITECTURES, TASKS, VIEWS, architectures, tasks, views
from regard.training.config import ModelOptions, RunOptions, TrainingConfig
from regard.utils.config import Config

PAGE = Path(__file__).resolve().parents[1] / "docs" / "cli.md"
BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
TYPES = {int: "N", float: "X", str: "TEXT", bool: "true or false"}


@dataclasses.dataclass
class Command(Exception):  # noqa: N818  (no error: it carries what was found)
    """The flags of one command; raised where the command would parse its arguments."""

    arguments: type
    program: str
    sections: Sequence[options.Section]
    description: str


@dataclasses.dataclass(frozen=True)
class Flag:
    """One row of a table."""

    name: str
    value: str
    default: str
    help: str

    def row(self) -> str:
        cells = (f"`{self.name}`", self.value, self.default, self.help)
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


# --- What the command line says about itself ----------------------------------------------------------------


def command(verb: str, *words: str) -> Command:
    """The flags of a verb, or of a task."""
    module = cli.VERBS[verb][0] if verb in cli.VERBS else "predict"
    try:
        importlib.import_module(f"regard.cli.{module}").main(verb, [*words, "--help"])
    except Command as found:
        return found
    raise LookupError(f"regard {verb} does not parse its arguments with regard.cli.options.parse")


def record(
    verb: type,
    arguments: Sequence[str],
    *,
    program: str,
    sections: Sequence[options.Section] = (),
    description: str = "",
) -> None:
    raise Command(verb, program, sections, description or inspect.cleandoc(verb.__doc__ or ""))


def own_flags(arguments: type) -> Iterator[Flag]:
    """The flags and positional arguments of the verb itself."""
    hints = typing.get_type_hints(arguments, include_extras=True)
    for item in dataclasses.fields(arguments):
        kind = hints[item.name]
        metadata = item.metadata
        if typing.get_origin(kind) is typing.Annotated:  # a positional argument
            name = item.name.upper() + (" …" if _is_tuple(typing.get_args(kind)[0]) else "")
            default = "required" if item.default is dataclasses.MISSING else ""
            yield Flag(name, "", default, metadata["help"])
        else:
            name = "--" + (metadata.get("name") or item.name).replace("_", "-")
            value = metadata.get("metavar") or ("" if kind is bool else _value(kind))
            yield Flag(name, value, _default(item.default), metadata["help"])


def config_flags(section: options.Section, taken: set[str]) -> Iterator[Flag]:
    """The flags of the fields of a config, except those that the command has already (`taken`)."""
    for name, info in section.config.model_fields.items():
        if name in taken or name in section.without or typing.get_origin(info.annotation) in (dict, Mapping):
            continue
        taken.add(name)
        default = section.defaults.get(name) or section.default or _default(info.default)
        yield Flag("--" + name.strip("_").replace("_", "-"), _value_and_range(info), default, info.description or "")


def _value_and_range(info: FieldInfo) -> str:
    if info.annotation is bool and info.default is False:
        return ""
    bounds = [
        f"{sign} {getattr(item, name):,}"
        for name, sign in BOUNDS.items()
        for item in info.metadata
        if hasattr(item, name)
    ]
    value = _value(info.annotation)
    return f"{value} {', '.join(bounds)}" if bounds else value


def _value(kind: Any) -> str:
    members = [member for member in typing.get_args(kind) if member is not NoneType]
    if typing.get_origin(kind) is typing.Literal:
        return ", ".join(f"`{choice}`" for choice in typing.get_args(kind))
    if _is_tuple(kind):
        return " ".join(_value(part) for part in members if part is not ...) + (" …" if ... in members else "")
    return _value(members[0]) if len(members) == 1 else TYPES.get(kind, "PATH")


def _is_tuple(kind: Any) -> bool:
    return typing.get_origin(kind) is tuple


def _default(value: Any) -> str:
    if value is dataclasses.MISSING or value is PydanticUndefined:
        return "required"
    if value is None or value is False or value in ((), ""):
        return ""
    return f"`{value}`"


# --- The page -----------------------------------------------------------------------------------------------


def page() -> str:
    """The whole page."""
    parts = [
        "# Commands",
        "<!-- Written by scripts/cli_docs.py: change the code, then run it. -->",
        "Every command explains itself with `--help`. Results go to stdout, notes and errors to stderr. The exit code "
        "is 0 for success, 1 for failure, 2 for wrong usage and 130 for Ctrl-C. No command overwrites a file or a "
        "model without `--force`. A flag without a value in the tables is a switch.",
        "## Overview",
        _overview(),
        "## regard train",
        *_training(),
        "## regard TASK",
        *_prediction(),
        *(part for verb in cli.VERBS if verb != "train" for part in _verb(verb)),
    ]
    return "\n\n".join(parts) + "\n"


def _overview() -> str:
    usage = {verb: _words(f"regard {verb}", command(verb).arguments) for verb in cli.VERBS if verb != "train"}
    usage["train"] = "regard train TASK [DATA …] --out RUN"
    rows = [f"| `{usage[verb]}` | {summary} |" for verb, (_, summary) in cli.VERBS.items()]
    rows += [f"| `regard {' '.join((name, 'MODEL', *_inputs(name)))}` | {tasks[name].summary} |" for name in TASKS]
    return "\n".join(("| command | what it does |", "|---|---|", *rows))


def _inputs(task: str) -> list[str]:
    return [field.name.upper() for field in tasks[task].inputs]


def _training() -> Iterator[str]:
    trainable = [name for name in TASKS if tasks[name].trainable]
    shared = [options.Section(config) for config in (ModelOptions, RunOptions, TrainingConfig)]
    common = {flag.name: flag for section in shared for flag in config_flags(section, set())}
    first = command("train", trainable[0])
    yield _usage("regard train TASK", first.arguments)
    yield (
        "Options come from the task, from the architecture (`--model`) and, with `--lora`, from the adapters. The "
        "preset (`--size`) sets the shape of the model; a flag overrides it. `--from` starts from pretrained weights, "
        "which fix shape and tokenizer."
    )
    yield _table(own_flags(first.arguments))
    yield "### Options of every training"
    yield "A task may have another default; its section says so."
    yield _table(common.values())
    for name in trainable:
        yield from _task_training(name, common)
    for name in ARCHITECTURES:
        able = [task for task in trainable if tasks[task].supports(architectures[name])]
        yield f"### --model {name}"
        architecture = architectures[name]
        presets = _listed(architecture.presets)
        yield f"{architecture.summary} Tasks: {', '.join(able)}. Presets (`--size`): {presets}."
        section = options.Section(architecture.config, without=architecture.fixed)
        yield _table(config_flags(section, set()))
    adapters = next(name for name in trainable if tasks[name].lora)
    yield "### --lora"
    able = [name for name in trainable if tasks[name].lora]
    yield f"Tasks: {', '.join(able)}."
    yield _table(config_flags(command("train", adapters).sections[-1], set()))


def _task_training(name: str, common: dict[str, Flag]) -> Iterator[str]:
    spec, found = tasks[name], command("train", name)
    taken = {item.name for item in dataclasses.fields(found.arguments)}
    architecture = architectures[spec.default_architecture].config
    flags = [flag for section in found.sections if section.config is not architecture
             for flag in config_flags(section, taken) if not flag.name.startswith("--lora-")]  # fmt: skip
    yield f"### regard train {name}"
    yield f"{spec.summary} DATA: {spec.data_help}"
    yield (
        f"Default architecture `{spec.default_architecture}`, preset `{spec.default_preset}`. "
        f"Metrics: {', '.join(spec.metrics)}."
    )
    own = [flag for flag in flags if common.get(flag.name) != flag]
    yield _table(own) if own else "No options of its own."
    missing = [flag for flag in common if flag not in {item.name for item in flags}]
    if missing:
        yield f"Not available: {_listed(missing)}."


def _prediction() -> Iterator[str]:
    first = command(TASKS[0])
    yield _usage("regard TASK", first.arguments)
    yield (
        "INPUTS are texts in quotes, a file with one input per line, a table (.csv, .tsv, .jsonl), or stdin. A task "
        "with several inputs takes one text for each, or a table with one column for each."
    )
    yield _table(own_flags(first.arguments))
    for name in TASKS:
        spec, found = tasks[name], command(name)
        yield f"### regard {name}"
        yield f"{spec.summary}"
        yield "\n".join(
            [f"- input `{field.name}`: {field.help}" for field in spec.inputs]
            + [f"- output `{field.name}` ({field.type}): {field.help}" for field in spec.outputs]
        )
        taken = {item.name for item in dataclasses.fields(found.arguments)}
        flags = [flag for section in found.sections for flag in config_flags(section, taken)]
        if flags:
            yield _table(flags)


def _verb(verb: str) -> Iterator[str]:
    found = command(verb)
    yield f"## regard {verb}"
    yield _usage(f"regard {verb}", found.arguments)
    yield found.description
    if dataclasses.fields(found.arguments):
        yield _table(own_flags(found.arguments))
    taken = {item.name for item in dataclasses.fields(found.arguments)}
    if verb == "evaluate":
        yield "Options of reading and prediction depend on the task of the model: see `regard TASK` above."
    elif verb == "look":
        yield "Views, as far as the model offers them:"
        yield "\n".join(("| view | shows | options |", "|---|---|---|", *map(_view, VIEWS)))
        yield _table(flag for section in found.sections for flag in config_flags(section, taken))
    elif found.sections:
        yield _table(flag for section in found.sections for flag in config_flags(section, taken))


def _view(name: str) -> str:
    config: type[Config] | None = views[name].config
    flags = ["--" + field.replace("_", "-") for field in config.model_fields] if config is not None else []
    return f"| `{name}` | {views[name].summary} | {_listed(flags)} |"


def _usage(program: str, arguments: type) -> str:
    return f"```\n{_words(program, arguments)} [OPTIONS]\n```"


def _words(program: str, arguments: type) -> str:
    """The command with its positional arguments and its required flags."""
    words = [program]
    for flag in own_flags(arguments):
        if not flag.name.startswith("--"):
            words.append(flag.name if flag.default else f"[{flag.name}]")
        elif flag.default == "required" or "(required)" in flag.help:
            words.append(f"{flag.name} {flag.value}")
    return " ".join(words)


def _table(flags: Iterable[Flag]) -> str:
    return "\n".join(("| option | value | default | meaning |", "|---|---|---|---|", *(flag.row() for flag in flags)))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def main(words: Sequence[str]) -> int:
    options.parse = record  # before the commands import it
    text = page()
    if "torch" in sys.modules:
        sys.stderr.write("a command imports torch before it parses its arguments\n")
        return 1
    if "--check" not in words:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    sys.stderr.write(f"{PAGE.name} is stale: run python scripts/cli_docs.py\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
