"""Folders that appear whole or not at all, whatever kills the process in between.

Two ways of writing, each for one situation; both write under a temporary name first, sync, and make the result visible
with one `rename`, which the file system does entirely or not at all:

- `put_folder`: a folder that is wholly ours (a checkpoint). A new name needs one rename. A folder cannot be
  renamed over another, so to replace one the newcomer first becomes `<name>.new`, which counts as the real
  one from that moment (`current_folder`); then the old one is moved away and the newcomer takes its name.
- `merge_into`: some files of a folder that also holds other things (a model inside a run with checkpoints,
  curves and the user's notes), so the folder itself can never be swapped. The new files are collected in one
  staged folder, which is renamed to `.regard-commit`. From that moment the new version is the valid one:
  `locate` looks into the commit first. Then the files move to their places one by one, the manifest last, and
  the empty commit is removed. A reader never has to repair anything, so reading works on read-only disks; the
  next writer finishes what a killed one left (`finish_merge`).

Replacing file by file with the manifest last and no commit folder was the alternative. It leaves a moment in
which the old manifest stands beside new files, and then neither version is whole. Single files are written by
`utils/atomic_files.py`. This module knows nothing of tensors, models or training.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from regard.checkpoint.manifest import MANIFEST, Manifest, checksum, read_manifest
from regard.utils.atomic_files import Content, content_of, remove, sweep, sync_folder, temporary_name, write_synced
from regard.utils.errors import FolderError

COMMIT = ".regard-commit"  # a merged version that is valid but not yet moved to its places
SUCCESSOR = ".new"  # suffix of a folder that is about to take the place of the one without it


@contextlib.contextmanager
def staged_folder(parent: Path, contents: Mapping[str, Content]) -> Iterator[Path]:
    """A temporary folder inside `parent` with these files and their manifest, all synced.

    The block gives it its place (`put_folder`, `merge_into`); whatever is still there afterwards is removed.
    """
    sweep(parent)
    staged = parent / temporary_name()
    try:
        staged.mkdir()
        records = {name: write_synced(staged / name, content) for name, content in contents.items()}
        write_synced(staged / MANIFEST, content_of(Manifest(records).to_text()))
        sync_folder(staged)
        yield staged
    finally:
        remove(staged)


def put_folder(staged: Path, target: Path) -> None:
    """Give a finished folder its name, replacing a folder of that name without a moment of having neither."""
    settle_folder(target)
    if not target.exists():
        staged.rename(target)
        sync_folder(target.parent)
        return
    staged.rename(_successor(target))
    sync_folder(target.parent)
    settle_folder(target)


def settle_folder(target: Path) -> None:
    """Finish a replacement that was interrupted after its newcomer became valid."""
    if not _successor(target).exists():
        return
    discarded = target.parent / temporary_name()
    with contextlib.suppress(FileNotFoundError):
        target.rename(discarded)
    _successor(target).rename(target)
    sync_folder(target.parent)
    remove(discarded)


def current_folder(target: Path) -> Path:
    """Where the valid folder called `target` lies: usually there, within a replacement beside it."""
    successor = _successor(target)
    return successor if successor.exists() else target


def merge_into(staged: Path, folder: Path) -> None:
    """Make the staged files the valid version of `folder`, leaving every other file of it alone.

    Files that the previous manifest lists and the new one does not belong to the old version and are removed,
    but for a card that was edited since: its words are the user's.
    """
    finish_merge(folder)
    staged.rename(folder / COMMIT)
    sync_folder(folder)
    finish_merge(folder)


def finish_merge(folder: Path) -> None:
    """Move the files of a valid commit to their places; does nothing when there is none.

    Each step can be repeated, so it does not matter where an earlier attempt was killed.
    """
    commit = folder / COMMIT
    if not commit.is_dir():
        return
    if (commit / MANIFEST).exists():
        names = set(read_manifest(commit / MANIFEST).files)
        for obsolete in _previous_names(folder) - names:
            if not is_edited_card(folder, obsolete):
                (folder / obsolete).unlink(missing_ok=True)
        for name in sorted(names):
            with contextlib.suppress(FileNotFoundError):
                (commit / name).replace(folder / name)
        sync_folder(folder)
        (commit / MANIFEST).replace(folder / MANIFEST)
        sync_folder(folder)
    with contextlib.suppress(OSError):  # only ever an empty folder goes: another writer may have filled it anew
        commit.rmdir()


def is_edited_card(folder: Path, name: str) -> bool:
    """Whether `name` is a text for readers (`*.md`) that somebody wrote or changed after regard."""
    card = folder / name
    if not name.endswith(".md") or not card.is_file():
        return False
    try:
        record = read_manifest(folder / MANIFEST).files.get(name)
    except (FolderError, FileNotFoundError):
        return True
    return record is None or record.sha256 != checksum(card)


def locate(folder: Path, name: str) -> Path:
    """Where the valid file called `name` of `folder` lies: in the commit if it has not been moved yet."""
    waiting = folder / COMMIT / name
    if (folder / COMMIT / MANIFEST).exists() and waiting.exists():
        return waiting
    return folder / name


def _successor(target: Path) -> Path:
    return target.with_name(target.name + SUCCESSOR)


def _previous_names(folder: Path) -> set[str]:
    try:
        return set(read_manifest(folder / MANIFEST).files)
    except (FolderError, OSError):  # none, or damaged: then nothing is known to be ours
        return set()
