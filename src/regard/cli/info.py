"""`regard tasks`, `regard models`, `regard plan` and `regard doctor`: what is available, and what a model costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tyro

from regard.cli.main import VERBS
from regard.cli.options import option, parse
from regard.cli.output import print_result
from regard.registry import Registry, architectures, architectures_for, tasks
from regard.utils.errors import RegardError

DETAILS = ("inputs", "outputs", "models", "metrics", "presets", "capabilities")


@dataclass(frozen=True, kw_only=True)
class Listing:
    json: bool = option("Print JSON, which has more details.", False)


@dataclass(frozen=True, kw_only=True)
class PlanArguments:
    """Count parameters, memory and compute of a preset, without building the model."""

    preset: tyro.conf.Positional[str] = option("Preset, as listed by `regard models`.")
    model: str | None = option("Architecture, if several have this preset (default: the first).", None, metavar="NAME")
    vocab_size: int | None = option("Vocabulary size (default: that of the preset or of the task).", None)
    recipe: str | None = option("Recipe of the task, if the task has recipes.", None, metavar="NAME")
    batch_tokens: int = option("Tokens per batch, to estimate the memory of training.", 4096)
    json: bool = option("Print the estimates as JSON.", False)


def main(verb: str, words: list[str]) -> None:
    if verb == "plan":
        _print_plan(**vars(parse(PlanArguments, words, program="regard plan")[0]))
        return
    args, _ = parse(Listing, words, program=f"regard {verb}", description=VERBS[verb][1])
    if verb == "tasks":
        _print_entries(tasks, _task, as_json=args.json)
    elif verb == "models":
        _print_entries(architectures, _architecture, as_json=args.json)
    else:
        _print_environment(as_json=args.json)


def _print_entries(registry: Registry[Any], describe: Callable[[str], dict[str, Any]], *, as_json: bool) -> None:
    entries, lines = [], []
    for name in registry:
        try:
            details = {"summary": registry[name].summary, **describe(name)}
        except RegardError as error:  # a broken plug-in: say why it cannot be used
            details = {"summary": str(error), "error": True}
        entry = {"name": name, "package": registry.origin(name), **details}
        entries.append(entry)
        package = "" if entry["package"] == "regard" else f" (from {entry['package']})"
        lines.append(f"{name}{package}: {entry['summary']}")
        lines += [f"  {key + ':':<14}{', '.join(entry[key])}" for key in DETAILS if entry.get(key)]
    print_result(entries, lines, as_json=as_json)


def _task(name: str) -> dict[str, Any]:
    spec = tasks[name]
    return {
        "trainable": spec.trainable,
        "inputs": [field.name for field in spec.inputs],
        "outputs": [field.name for field in spec.outputs],
        "models": architectures_for(spec),
        "metrics": list(spec.metrics),
        "schema": spec.schema(),
    }


def _architecture(name: str) -> dict[str, Any]:
    architecture = architectures[name]
    return {
        "presets": list(architecture.presets),
        "capabilities": sorted(architecture.capabilities),
        "schema": architecture.config.model_json_schema(),
    }


def _print_plan(preset: str, json: bool, **options: Any) -> None:
    from regard.api import plan

    costs = plan(preset, **options)
    print_result(costs.as_dict(), [str(costs)], as_json=json)


def _print_environment(*, as_json: bool) -> None:
    from regard.training.environment import survey

    decisions = survey()
    width = max(len(decision.what) for decision in decisions)
    lines = [f"{decision.what:<{width}}  {decision.value}  ({decision.why})" for decision in decisions]
    record = [{"what": decision.what, "value": decision.value, "why": decision.why} for decision in decisions]
    print_result(record, lines, as_json=as_json)
