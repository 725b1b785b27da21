"""Find a model folder and inspect it without importing torch, so that a wrong path or flag is reported immediately.

Models named `hf:owner/name` are downloaded from the Hugging Face Hub. Only such names use the network; paths never do.
Only files that regard reads are downloaded: configs, tokenizers and safetensors, never pickles. `huggingface_hub`
caches them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.checkpoint.format1 import task_name
from regard.registry import tasks
from regard.utils.errors import FolderError, MissingFolderError, UsageError

PREFIX = "hf:"
FILES = ["*.json", "*.safetensors", "merges.txt", "vocab.txt", "*.spm"]

_NAME = re.compile(r"hf:[\w.-]+/[\w.-]+")


def check_folder(path: Path) -> None:
    """Raise if `path` is not a folder."""
    if not path.exists():
        raise MissingFolderError(f"model folder {path} does not exist.", argument="model", path=path)
    if not path.is_dir():
        message = f"{path} is a file. Give the model folder, which contains config.json and weights."
        raise MissingFolderError(message, argument="model", path=path)


def task_of(path: Path) -> str | None:
    """Return the task of the model in a folder, or None if its config does not contain it."""
    config = probe_config(path)
    try:
        if "regard" in config:
            name = task_name(config) if config["regard"]["format"] == 1 else config["regard"]["task"]
            return name if name in tasks else None
        hub_class = config["architectures"][0]
        return next((name for name, spec in tasks.usable().items() if hub_class.endswith(spec.hub_classes)), None)
    except (TypeError, KeyError, IndexError, AttributeError):  # loading the folder will report the error
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


def is_hub_name(name: str) -> bool:
    return name.startswith(PREFIX)


def model_folder(name: str) -> Path:
    """Return the folder for a path or a Hub name; download the files of a Hub model if they are not cached."""
    if not is_hub_name(name):
        return Path(name)
    if not _NAME.fullmatch(name):
        raise UsageError(f"a Hub model must have the form hf:owner/name, got {name}.", argument="from_", value=name)
    try:
        return _snapshot(name, local_files_only=False)
    except ImportError:
        message = f'{name} needs the extra "hub": pip install "regard[hub]". Or download the folder and give its path.'
        raise UsageError(message, argument="from_", value=name) from None
    except Exception as error:  # several libraries raise: no network, no such model, no permission, no space
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        message = f"{name} cannot be downloaded: {reason.rstrip('.')}. Check the network, or give the path of a folder."
        raise FolderError(message, argument="from_", value=name) from error


def cached_folder(name: str) -> Path | None:
    """Return the cached folder of a Hub model, or None if it is not cached. Does not use the network."""
    try:
        return _snapshot(name, local_files_only=True)
    except Exception:  # not installed, not downloaded, or incomplete
        return None


def _snapshot(name: str, *, local_files_only: bool) -> Path:
    import huggingface_hub

    repo = name.removeprefix(PREFIX)
    return Path(huggingface_hub.snapshot_download(repo, allow_patterns=FILES, local_files_only=local_files_only))
