"""What can be asked of a folder without torch: whether it is there, so that a mistyped name is answered at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from regard.errors import MissingFolderError


def check_folder(path: Path) -> None:
    """A model lies in a folder; a path where none is was given wrongly."""
    if not path.exists():
        raise MissingFolderError(f"there is no model folder {path}: the path does not exist.")
    if not path.is_dir():
        raise MissingFolderError(f"{path} is a file; give the folder of a model, with config.json and weights in it.")


def has_word_head(path: Path) -> bool | None:
    """Whether the BERT in a folder has a head for masked words; None if it does not say."""
    kind = _head_of(path)
    return None if kind is None else "words" in kind or kind in ("BertForMaskedLM", "BertForPreTraining")


def chooses(path: Path) -> bool:
    """Whether the BERT in a folder chooses among endings."""
    return _head_of(path) in ("choice", "BertForMultipleChoice")


def _head_of(path: Path) -> str | None:
    """What the head of a BERT is called, here or by another tool; None if the folder does not say."""
    try:
        config: Any = json.loads((path / "config.json").read_text(encoding="utf-8"))
        kind = config["head"]["kind"] if "head" in config else config["architectures"][0]
    except (OSError, ValueError, TypeError, KeyError, IndexError):
        return None
    return kind if isinstance(kind, str) else None


def width_of(path: Path) -> int | None:
    """How wide the model in a folder is; None if it does not say. Whoever loads it finds out what else is wrong."""
    try:
        config: Any = json.loads((path / "config.json").read_text(encoding="utf-8"))
        width = config["model"]["width"] if "model" in config else config["hidden_size"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return width if isinstance(width, int) and width > 0 else None
