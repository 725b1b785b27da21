"""regard: build a Transformer, train it, use it, and look inside it.

    translator = regard.train("translate", data="pairs.tsv", minutes=10)
    translator("The cat sleeps.").text
    regard.look(translator, "The cat sleeps.").save("look.html")

The names below are loaded when they are first used, so that `import regard` is instant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.api import evaluate, load, look, senses, train
    from regard.nn.taps import capture, edit

__all__ = ["capture", "edit", "evaluate", "load", "look", "senses", "train"]

_HOMES = {"capture": "regard.nn.taps", "edit": "regard.nn.taps"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'regard' has no attribute {name!r}; it has {', '.join(__all__)}.")
    import importlib

    return getattr(importlib.import_module(_HOMES.get(name, "regard.api")), name)


def __dir__() -> list[str]:
    return __all__
