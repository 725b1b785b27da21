"""Tables of tasks, architectures and views: the built-in ones, and those that installed packages add.

A package adds an entry through the entry points `regard.tasks`, `regard.architectures` or `regard.views`, which refer
to a `TaskSpec`, an `Architecture` or a `ViewSpec`. Entries are imported on first use.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any, Generic, TypeVar

from regard.spec import Architecture, TaskSpec, ViewSpec, resolve
from regard.utils.errors import RegardError, unknown

T = TypeVar("T")

TASKS = ("translate", "generate", "fill", "classify", "pair", "choose", "tag", "answer", "embed", "suggest", "score")
ARCHITECTURES = ("transformer", "gpt", "bert")
VIEWS = ("attention", "steps", "targets", "ranks", "inputs", "answer")


class Registry(Mapping[str, T], Generic[T]):
    """A lazy mapping: its names are available without imports, and entries are imported on first use."""

    def __init__(self, kind: str, entry_type: type[T], builtin: Mapping[str, str], *, group: str) -> None:
        self.kind, self.group, self._type, self._builtin = kind, group, entry_type, builtin

    @functools.cached_property
    def _plugins(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=self.group) if point.name not in self._builtin}

    def __getitem__(self, name: str) -> T:
        entry: T
        if name in self._builtin:
            entry = resolve(self._builtin[name])
            return entry
        if name not in self._plugins:
            raise unknown(self.kind, name, self)
        point = self._plugins[name]
        try:
            entry = point.load()
            if not isinstance(entry, self._type):
                raise TypeError(f"{point.value} is not a {self._type.__name__}")
        except Exception as problem:
            raise RegardError(
                f"the {self.kind} {name!r} of the package {self.origin(name)} cannot be used: {problem}",
                argument=self.kind,
                value=name,
            ) from problem
        return entry

    def usable(self) -> dict[str, T]:
        """Return all entries except plug-ins that cannot be imported; a broken plug-in must not affect the others."""
        entries = {}
        for name in self:
            with contextlib.suppress(RegardError):
                entries[name] = self[name]
        return entries

    def __iter__(self) -> Iterator[str]:
        yield from self._builtin
        yield from sorted(self._plugins)

    def __len__(self) -> int:
        return len(self._builtin) + len(self._plugins)

    def __contains__(self, name: object) -> bool:
        return name in self._builtin or name in self._plugins

    def origin(self, name: str) -> str:
        """Return the name of the package that provides an entry."""
        if name in self._builtin:
            return "regard"
        point = self._plugins[name]
        return point.dist.name if point.dist is not None else point.value.partition(".")[0]

    def __repr__(self) -> str:
        return f"{self.kind} registry: {', '.join(self)}"


tasks: Registry[TaskSpec] = Registry(
    "task", TaskSpec, {name: f"regard.tasks.{name}.spec:SPEC" for name in TASKS}, group="regard.tasks"
)
architectures: Registry[Architecture] = Registry(
    "architecture",
    Architecture,
    {name: f"regard.models.{name}.spec:ARCHITECTURE" for name in ARCHITECTURES},
    group="regard.architectures",
)
views: Registry[ViewSpec] = Registry(
    "view", ViewSpec, {name: f"regard.views.specs:{name.upper()}" for name in VIEWS}, group="regard.views"
)


def make_callable(package: str, registry: Registry[Any]) -> None:
    """Make a package callable: `regard.tasks()` returns a registry, and `regard.tasks.classify` still works."""
    sys.modules[package].__class__ = type("CallableModule", (ModuleType,), {"__call__": lambda _: registry})


def task_summaries() -> dict[str, str]:
    """Return one sentence per usable task. For built-in tasks, read package docstrings instead of importing specs."""
    summaries = {name: resolve(f"regard.tasks.{name}:__doc__") or "" for name in TASKS}
    for name in list(tasks)[len(TASKS) :]:
        with contextlib.suppress(RegardError):
            summaries[name] = tasks[name].summary
    return summaries


def architectures_for(task: TaskSpec) -> list[str]:
    """Return the architectures that support a task, its default first."""
    names = [name for name, architecture in architectures.usable().items() if task.supports(architecture)]
    return sorted(names, key=lambda name: name != task.default_architecture)


def architecture_of(model: Any) -> Architecture:
    """Return the architecture of a module, determined by the type of its config."""
    config = type(model.config)
    return next(architecture for architecture in architectures.usable().values() if architecture.config is config)


def task_for_model(architecture: str, head: str) -> TaskSpec | None:
    """Return the first task for an architecture and kind of head, for folders whose config does not contain a task."""
    own = [spec for spec in tasks.usable().values() if spec.default_architecture == architecture]
    for spec in own:
        kinds = (spec.head,) if isinstance(spec.head, str) else spec.head or ("none",)
        if head in kinds:
            return spec
    return None
