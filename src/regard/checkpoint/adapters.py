"""The base of an adapter: a reference to the folder with the weights that the adapter was trained on.

An adapter folder has no copy of the base weights, which can be a thousand times larger. It stores their checksum and
the relative path of their folder: both folders can move together, and no absolute path is published. The
checksum covers tensors, not files, so the base may be moved, sharded or converted. A folder or link named `base`
inside the adapter folder takes precedence.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from regard.checkpoint.format1 import rename_tensor
from regard.checkpoint.hub import cached_folder, is_hub_name
from regard.checkpoint.tensors import raw_bytes
from regard.utils.errors import FolderError, UsageError

BASE = "base"  # name of the base folder or link inside an adapter folder


@dataclass(frozen=True, kw_only=True)
class BaseReference:
    """A reference to the base of an adapter, which is stored in the adapter's config.json."""

    name: str  # a relative path or hf:owner/name as the user gave it, or the last part of an absolute path
    checksum: str  # checksum of the base weights
    relative: str = ""  # its path relative to the adapter folder
    path: str = ""  # absolute path, only if the base was on another drive or regard was an earlier version

    @classmethod
    def relative_to(cls, folder: Path, *, name: str, base: Path, checksum: str) -> BaseReference:
        """Return a reference to `base` for an adapter in `folder`."""
        public = public_name(name)
        if is_hub_name(name):
            return cls(name=public, checksum=checksum)
        base, folder = base.resolve(), folder.resolve()
        if base.anchor != folder.anchor:
            return cls(name=public, checksum=checksum, path=base.as_posix())
        return cls(name=public, checksum=checksum, relative=Path(os.path.relpath(base, folder)).as_posix())

    def candidates(self, folder: Path) -> list[Path]:
        """Return the folders where the base may be, most likely first."""
        if is_hub_name(self.name):
            cached = cached_folder(self.name)
            return [folder / BASE, *([cached] if cached is not None else [])]
        recorded = [folder / self.relative] if self.relative else []
        recorded += [Path(self.path)] if self.path else []
        sibling = folder.resolve().parent / Path(self.name).name
        return list(dict.fromkeys([folder / BASE, *recorded, Path(self.name), sibling]))


def public_name(name: str) -> str:
    """Return the name of a folder, without the parent directories if it is an absolute path."""
    return name if is_hub_name(name) or not Path(name).is_absolute() else Path(name).name


def weights_checksum(tensors: Mapping[str, torch.Tensor]) -> str:
    """Return the SHA-256 of the tensors' names, dtypes, shapes and values."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(raw_bytes(tensor))
    return digest.hexdigest()


def base_tensors(
    folder: Path, reference: BaseReference, read: Callable[[Path], Mapping[str, torch.Tensor]]
) -> Mapping[str, torch.Tensor]:
    """Return the base weights of the adapter in `folder`; `read` returns the weights of a model folder."""
    candidates = reference.candidates(folder)
    existing = [candidate for candidate in candidates if candidate.is_dir()]
    for candidate in existing:
        with contextlib.suppress(FolderError, UsageError):  # not a model: try the next candidate
            tensors = read(candidate)
            format1 = {rename_tensor(name, undo=True): tensor for name, tensor in tensors.items()}
            if reference.checksum in (weights_checksum(tensors), weights_checksum(format1)):
                return tensors
    if existing:
        problem = f"{' and '.join(map(str, existing))} does not have the weights that the adapter was trained on"
    else:
        problem = f"its base was not found at {' and '.join(map(str, candidates))}"
    raise FolderError(
        f"{folder} is an adapter for {reference.name}, but {problem}. Put the folder {reference.name}, or a link to "
        f"it, at {folder / BASE}. (`regard export` merges an adapter and its base into one model.)",
        path=folder,
        argument=BASE,
        value=[str(candidate) for candidate in existing or candidates],
    )
