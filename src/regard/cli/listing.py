"""`regard tasks` and `regard models`: what there is, from regard and from installed packages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from regard.cli.options import option, parse
from regard.cli.output import print_json, print_line
from regard.registry import Registry, architectures, architectures_for, tasks
from regard.utils.errors import RegardError


@dataclass(frozen=True, kw_only=True)
class Tasks:
    """List every task: what goes in, what comes out, and which architectures can do it."""

    json: bool = option("Print the list as JSON, with the schema of each task.", False)


@dataclass(frozen=True, kw_only=True)
class Models:
    """List every architecture with its presets and capabilities."""

    json: bool = option("Print the list as JSON, with the schema of each config.", False)


def main(verb: str, arguments: list[str]) -> int:
    if verb == "tasks":
        asked, _ = parse(Tasks, arguments, program="regard tasks")
        listed = [_entry(tasks, name, _task) for name in tasks]
    else:
        chosen, _ = parse(Models, arguments, program="regard models")
        asked, listed = chosen, [_entry(architectures, name, _architecture) for name in architectures]  # type: ignore[assignment]
    if asked.json:
        print_json(listed)
        return 0
    for entry in listed:
        package = "" if entry["package"] == "regard" else f" (from {entry['package']})"
        print_line(f"{entry['name']}{package}: {entry['summary']}")
        for key in ("inputs", "outputs", "models", "metrics", "presets", "capabilities"):
            if entry.get(key):
                print_line(f"  {key + ':':<14}{', '.join(entry[key])}")
    return 0


def _entry(registry: Registry[Any], name: str, describe: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """What there is to say of an entry; of a broken plug-in, why it cannot be used."""
    try:
        return describe(name)
    except RegardError as error:
        return {"name": name, "package": registry.origin(name), "summary": str(error), "error": True}


def _task(name: str) -> dict[str, Any]:
    spec = tasks[name]
    return {
        "name": name,
        "summary": spec.summary,
        "package": tasks.origin(name),
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
        "name": name,
        "summary": architecture.summary,
        "package": architectures.origin(name),
        "presets": list(architecture.presets),
        "capabilities": sorted(architecture.capabilities),
        "schema": architecture.config.model_json_schema(),
    }
