"""regard: build a Transformer, train it, use it, look inside it.

    translator = regard.train("translate", data="pairs.tsv", minutes=10)
    translator("The cat sleeps.").text
    regard.look(translator, "The cat sleeps.").save("look.html")

Names are imported on first use, so that `import regard` is fast. `__init__.pyi` has their types.
"""

from __future__ import annotations

import importlib
from typing import Any

_API = ("evaluate", "export_model", "import_model", "load", "look", "plan", "predict", "train", "views_of")
_MODULES = dict.fromkeys(_API, "regard.api")
_MODULES |= {"capture": "regard.nn.hooks", "edit": "regard.nn.hooks", "senses": "regard.inspection.senses"}
_PACKAGES = ("models", "tasks")  # can be called: `regard.tasks()` and `regard.models()` return the registries

__all__ = sorted(["__version__", *_MODULES, *_PACKAGES])


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
