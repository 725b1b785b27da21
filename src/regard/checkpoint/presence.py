"""Whether there is a folder at all: asked without torch, so that a mistyped name is answered at once."""

from __future__ import annotations

from pathlib import Path

from regard.errors import MissingFolderError


def check_folder(path: Path) -> None:
    """A model lies in a folder; a path where none is was given wrongly."""
    if not path.exists():
        raise MissingFolderError(f"there is no model folder {path}: the path does not exist.")
    if not path.is_dir():
        raise MissingFolderError(f"{path} is a file; give the folder of a model, with config.json and weights in it.")
