"""Questions about a model folder that need no torch, so that a wrong path or flag is refused at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.checkpoint.format1 import task_name
from regard.registry import tasks
from regard.utils.errors import MissingFolderError


def check_folder(path: Path) -> None:
    """Refuse a path where there is no folder."""
    if not path.exists():
        raise MissingFolderError(f"model folder {path} does not exist.", argument="model", path=str(path))
    if not path.is_dir():
        raise MissingFolderError(
            f"{path} is a file; give the model folder, which holds config.json and weights.",
            argument="model",
            path=str(path),
        )


def task_of(path: Path) -> str | None:
    """The task of the model in a folder; None if the folder does not say."""
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
    """The hidden size of the model in a folder; None if the folder does not say."""
    config = probe_config(path)
    shape = config.get("model", config)
    values = [shape.get(key) for key in ("d_model", "width", "hidden_size")] if isinstance(shape, Mapping) else []
    return next((value for value in values if isinstance(value, int) and value > 0), None)


def probe_config(path: Path) -> dict[str, Any]:
    """The config.json of a folder; empty if it cannot be read, which loading the folder will report."""
    try:
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return config if isinstance(config, dict) else {}
