"""Inspect a model folder without importing torch, so that a wrong path or flag is reported immediately."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.checkpoint.format1 import task_name
from regard.registry import tasks
from regard.utils.errors import MissingFolderError


def check_folder(path: Path) -> None:
    """Raise if `path` is not a folder."""
    if not path.exists():
        raise MissingFolderError(f"model folder {path} does not exist.", argument="model", path=path)
    if not path.is_dir():
        raise MissingFolderError(
            f"{path} is a file; give the model folder, which contains config.json and weights.",
            argument="model",
            path=path,
        )


def task_of(path: Path) -> str | None:
    """Return the task of the model in a folder, or None if its config does not contain it."""
    config = probe_config(path)
    try:
        if "regard" in config:
            name = task_name(config) if config["regard"]["format"] == 1 else config["regard"]["task"]
            return name if name in tasks else None
        hub_class = config["architectures"][0]
        return next((name for name, spec in tasks.usable().items() if hub_class.endswith(spec.hub_classes)), None)
    except (TypeError, KeyError, IndexError, AttributeError):  # loading the folder will report it
        return None


def d_model_of(path: Path) -> int | None:
    """Return the d_model of the model in a folder, or None if its config does not contain it."""
    config = probe_config(path)
    shape = config.get("model", config)
    values = [shape.get(key) for key in ("d_model", "width", "hidden_size")] if isinstance(shape, Mapping) else []
    return next((value for value in values if isinstance(value, int) and value > 0), None)


def probe_config(path: Path) -> dict[str, Any]:
    """Return the config.json of a folder. If it cannot be read, return {}; loading the folder reports the error."""
    try:
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return config if isinstance(config, dict) else {}
