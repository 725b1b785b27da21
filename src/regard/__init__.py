"""regard: build a Transformer, train it, use it, look inside it.

    translator = regard.train("translate", data="pairs.tsv", minutes=10)
    translator("The cat sleeps.").text
    regard.look(translator, "The cat sleeps.").save("look.html")

Names are imported on first use, so that `import regard` is instant. `__init__.pyi` has their types.
"""

from __future__ import annotations

import importlib
from typing import Any

_MODULES = {
    "capture": "regard.nn.hooks",
    "edit": "regard.nn.hooks",
    "evaluate": "regard.api",
    "load": "regard.api",
    "look": "regard.api",
    "predict": "regard.api",
    "senses": "regard.inspection.senses",
    "train": "regard.api",
    "views_of": "regard.api",
}
# Packages that can be called: `regard.tasks()` and `regard.models()` are the registries.
_PACKAGES = ("models", "tasks")

__all__ = [
    "__version__",
    "capture",
    "edit",
    "evaluate",
    "load",
    "look",
    "models",
    "predict",
    "senses",
    "tasks",
    "train",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("regard")
    if name in _PACKAGES:
        return importlib.import_module(f"regard.{name}")
    if name in _MODULES:
        return getattr(importlib.import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'regard' has no attribute {name!r}; it has {', '.join(__all__)}.")


def __dir__() -> list[str]:
    return __all__
