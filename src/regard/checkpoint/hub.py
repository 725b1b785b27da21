"""Download models named `hf:owner/name` from the Hugging Face Hub. Only such names use the network; paths never do.

Only files that regard reads are downloaded: configs, tokenizers and safetensors, never pickles. `huggingface_hub`
caches them.
"""

from __future__ import annotations

import re
from pathlib import Path

from regard.utils.errors import FolderError, UsageError

PREFIX = "hf:"
FILES = ["*.json", "*.safetensors", "merges.txt", "vocab.txt", "*.spm"]

_NAME = re.compile(r"hf:[\w.-]+/[\w.-]+")


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
        raise UsageError(
            f'{name} needs the extra "hub": pip install "regard[hub]". Or download the folder and give its path.',
            argument="from_",
            value=name,
        ) from None
    except Exception as error:  # several libraries raise: no network, no such model, no permission, no space
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise FolderError(f"{name} cannot be downloaded: {reason}", argument="from_", value=name) from error


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
