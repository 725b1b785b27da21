"""An adapter's base: the folder with the weights beside which it was learned, named so that it is found again.

An adapter folder holds no copy of these weights, which may be a thousand times its size; it says where they lay and
what their checksum was. The checksum is one of numbers and not of files, so that a base may be moved, sharded, or
imported from another tool's folder into one of regard's, and is still known. A folder, or a link to one, with the name
`base` inside the adapter's comes before every other place.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from regard.checkpoint.hub import is_hub_name, kept_folder
from regard.checkpoint.tensors import raw_bytes
from regard.errors import FolderError, UsageError

BASE = "base"  # the name of a base inside the folder of its adapter


@dataclass(frozen=True, kw_only=True)
class BaseReference:
    """What an adapter remembers of its base."""

    name: str  # as it was given: a path or hf:owner/name
    checksum: str  # of its weights
    path: str = ""  # where it lay; empty for one of the Hub's
    relative: str = ""  # the same, seen from the adapter's folder: both may have moved together

    @classmethod
    def seen_from(cls, folder: Path, *, name: str, base: Path, checksum: str) -> BaseReference:
        """The reference to `base` of an adapter that lies in `folder`."""
        if is_hub_name(name):
            return cls(name=name, checksum=checksum)
        path, here = base.resolve(), folder.resolve()
        together = path.anchor == here.anchor  # not on two drives
        relative = Path(os.path.relpath(path, here)).as_posix() if together else ""
        return cls(name=name, checksum=checksum, path=path.as_posix(), relative=relative)

    def places(self, folder: Path) -> list[Path]:
        """Where the base may lie, the likeliest place first."""
        hub = kept_folder(self.name) if is_hub_name(self.name) else None
        elsewhere = [folder / self.relative] if self.relative else []
        elsewhere += [Path(self.path)] if self.path else []
        return [folder / BASE, *elsewhere, *([hub] if hub is not None else [])]


def weights_checksum(tensors: Mapping[str, torch.Tensor]) -> str:
    """The SHA-256 of names, shapes and numbers, whatever files they come from."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(raw_bytes(tensor))
    return digest.hexdigest()


def base_tensors(
    folder: Path, reference: BaseReference, read: Callable[[Path], Mapping[str, torch.Tensor]]
) -> Mapping[str, torch.Tensor]:
    """The weights beside which the adapter in `folder` was learned; `read` takes them out of a model folder."""
    others = []
    for place in reference.places(folder):
        if place.is_dir():
            with contextlib.suppress(FolderError, UsageError):  # something else lies there now: the next place may do
                tensors = read(place)
                if weights_checksum(tensors) == reference.checksum:
                    return tensors
            others.append(str(place))
    remedy = (
        f"Put the folder that it was trained from, or a link to it, at {folder / BASE}. (A model that needs no other "
        f"folder is what `regard export` makes of an adapter while its base is there.)"
    )
    if others:
        raise FolderError(
            f"{folder} holds an adapter for {reference.name}, but {' and '.join(dict.fromkeys(others))} has other "
            f"weights than it had when the adapter was trained. {remedy}"
        )
    sought = " and ".join(str(place) for place in reference.places(folder))
    raise FolderError(
        f"{folder} holds an adapter, and the weights that it belongs to, those of {reference.name}, are not there: "
        f"looked for them at {sought}. {remedy}"
    )
