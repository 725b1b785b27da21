"""Packages that can be called like a function: `regard.tasks()` beside `regard.tasks.classify`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


def make_callable(module: str, function: Callable[[], Any]) -> None:
    """Let the imported module `module` return what `function` returns when it is called."""

    class CallableModule(ModuleType):
        def __call__(self) -> Any:
            return function()

    sys.modules[module].__class__ = CallableModule
