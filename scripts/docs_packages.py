"""A griffe extension for the API reference: packages come before functions of the same name.

`regard/__init__.pyi` declares `tasks` and `models` as functions, since these packages can be called. Without this
extension the functions would hide the packages from the reference.
"""

from __future__ import annotations

from typing import Any

import griffe


class PackagesFirst(griffe.Extension):
    """Ignores names of a stub that are packages beside it."""

    def on_module_members(self, *, node: Any, mod: griffe.Module, agent: Any, **kwargs: Any) -> None:
        if agent.filepath.suffix == ".pyi":
            for name in [name for name in mod.members if (agent.filepath.parent / name).is_dir()]:
                del mod.members[name]
