"""An adapter's base: the folder with the weights beside which it was learned, named so that it is found again.

An adapter folder holds no copy of these weights, which may be a thousand times its size; it says where they lay and
what their checksum was. The checksum is one of numbers and not of files, so that a base may be moved, sharded, or
imported from another tool's folder into one of regard's, and is still known. Where they lay is said as seen from the
adapter's folder: what is given away should not tell how somebody's disk is arranged, and both may move together. A
folder, or a link to one, with the name `base` inside the adapter's comes before every other place.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from regard.checkpoint.format1 import original_name
from regard.checkpoint.hub import is_hub_name, kept_folder
from regard.checkpoint.tensors import raw_bytes
from regard.utils.errors import FolderError, UsageError

BASE = "base"  # the name of a base inside the folder of its adapter


@dataclass(frozen=True, kw_only=True)
class BaseReference:
    """What an adapter remembers of its base."""

    name: str  # a relative path or hf:owner/name, as it was given; of an absolute path the last part
    checksum: str  # of its weights
    relative: str = ""  # where it lay, seen from the adapter's folder
    path: str = ""  # where it lay, in full: if it was on another drive, and in folders of earlier versions

    @classmethod
    def seen_from(cls, folder: Path, *, name: str, base: Path, checksum: str) -> BaseReference:
        """The reference to `base` of an adapter that lies in `folder`."""
        kept = name_to_keep(name)
        if is_hub_name(name):
            return cls(name=kept, checksum=checksum)
        path, here = base.resolve(), folder.resolve()
        if path.anchor != here.anchor:
            return cls(name=kept, checksum=checksum, path=path.as_posix())
        return cls(name=kept, checksum=checksum, relative=Path(os.path.relpath(path, here)).as_posix())

    def places(self, folder: Path) -> list[Path]:
        """Where the base may lie, the likeliest place first: within, where it was, as it was called, beside."""
        if is_hub_name(self.name):
            hub = kept_folder(self.name)
            return [folder / BASE, *([hub] if hub is not None else [])]
        where_it_was = [folder / self.relative] if self.relative else []
        where_it_was += [Path(self.path)] if self.path else []
        beside = folder.resolve().parent / Path(self.name).name
        return list(dict.fromkeys([folder / BASE, *where_it_was, Path(self.name), beside]))


def name_to_keep(name: str) -> str:
    """What a folder may tell of the one it came from: of an absolute path only the last part."""
    return name if is_hub_name(name) or not Path(name).is_absolute() else Path(name).name


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
                earlier = {original_name(name): tensor for name, tensor in tensors.items()}
                if reference.checksum in (weights_checksum(tensors), weights_checksum(earlier)):
                    return tensors
            others.append(str(place))
    remedy = (
        f"Put the folder {reference.name}, or a link to it, at {folder / BASE}. (`regard export` turns an adapter with "
        "a base into a model of its own.)"
    )
    if others:
        raise FolderError(
            f"{folder} is an adapter for {reference.name}, but {' and '.join(dict.fromkeys(others))} has other weights "
            f"than the base of its training. {remedy}",
            path=folder,
            argument=BASE,
        )
    places = " and ".join(str(place) for place in reference.places(folder))
    raise FolderError(
        f"{folder} is an adapter, and its base {reference.name} was not found at {places}. {remedy}",
        path=folder,
        argument=BASE,
    )
