"""Models of the Hugging Face Hub, by the name `hf:owner/name`. A path never touches the network; such a name may.

Only what regard reads is fetched: settings, tokenizers and safetensors, never a pickle. The files are kept where
`huggingface_hub` keeps them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from regard.utils.errors import FolderError, UsageError

PREFIX = "hf:"
FILES = ("*.json", "*.safetensors", "merges.txt", "vocab.txt", "*.spm")

_NAME = re.compile(r"hf:[\w.-]+/[\w.-]+")


def is_hub_name(name: str) -> bool:
    return name.startswith(PREFIX)


def model_folder(name: str) -> Path:
    """The folder of a path or of a Hub name; what is not there of the latter is fetched."""
    if not is_hub_name(name):
        return Path(name)
    if not _NAME.fullmatch(name):
        raise UsageError(f"--from {name} must have the form hf:owner/name.", argument="from_", value=name)
    try:
        import huggingface_hub
    except ImportError:
        raise UsageError(
            f'{name} needs the extra "hub": pip install "regard[hub]". Or download the folder, and give its path.',
            argument="from_",
            value=name,
        ) from None
    try:
        return _fetched(huggingface_hub, name, local_files_only=False)
    except Exception as error:  # of several libraries: no network, no such model, no permission, no space
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise FolderError(f"{name} cannot be downloaded: {reason}", argument="from_", value=name) from error


def kept_folder(name: str) -> Path | None:
    """Where an earlier fetch has put a model of the Hub; None if it is not there. Touches no network."""
    try:
        import huggingface_hub

        return _fetched(huggingface_hub, name, local_files_only=True)
    except Exception:  # not installed, not fetched, or not completely
        return None


def _fetched(hub: Any, name: str, *, local_files_only: bool) -> Path:
    found = hub.snapshot_download(
        name.removeprefix(PREFIX), allow_patterns=list(FILES), local_files_only=local_files_only
    )
    return Path(found)
