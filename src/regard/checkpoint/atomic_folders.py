"""Write folders atomically: they appear complete or not at all, even if the process is killed.

Both writers write under a temporary name, sync, and make the result visible with one atomic `rename`:

- `put_folder` writes a folder that contains only files of regard (a checkpoint). A folder cannot replace another, so
  the new one is first renamed to `<name>.new`, which is valid from then on (`current_folder`); then the old folder
  is moved away and the new one takes its name.
- `merge_into` writes some files of a folder that also has other content (a model in a run folder with checkpoints,
  metrics and the user's notes). The new files are staged in one folder, which is renamed to `.regard-commit` and is
  valid from then on: `locate` looks there first. Then the files move to their places, the manifest last. Readers
  repair nothing, so reading works on read-only disks; the next writer finishes an interrupted merge.

If files were replaced one by one without a commit folder, neither version would be complete in between. Single
files are written by `utils/atomic_files.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from regard.checkpoint.manifest import MANIFEST, Manifest, checksum, manifest_text, read_manifest
from regard.utils.atomic_files import Content, content_of, remove, sweep, sync_folder, temporary_name, write_synced
from regard.utils.errors import FolderError

COMMIT = ".regard-commit"  # the valid version of a folder whose files are not in their places yet
SUCCESSOR = ".new"  # suffix of a folder that is about to replace the folder without the suffix


@contextlib.contextmanager
def staged_folder(parent: Path, contents: Mapping[str, Content]) -> Iterator[Path]:
    """Create a temporary folder in `parent` with these files and their manifest, all synced.

    The block moves it into place (`put_folder`, `merge_into`); afterwards any remaining files are removed.
    """
    sweep(parent)
    staged = parent / temporary_name()
    try:
        staged.mkdir()
        manifest = {name: write_synced(staged / name, content) for name, content in contents.items()}
        write_synced(staged / MANIFEST, content_of(manifest_text(manifest)))
        sync_folder(staged)
        yield staged
    finally:
        remove(staged)


def put_folder(staged: Path, target: Path) -> None:
    """Rename a staged folder to `target`. An existing `target` stays valid until the new folder is."""
    settle_folder(target)
    staged.rename(_successor(target) if target.exists() else target)
    sync_folder(target.parent)
    settle_folder(target)


def settle_folder(target: Path) -> None:
    """Finish an interrupted replacement, if there is one."""
    successor = _successor(target)
    if successor.exists():
        discarded = target.parent / temporary_name()
        with contextlib.suppress(FileNotFoundError):
            target.rename(discarded)
        successor.rename(target)
        sync_folder(target.parent)
        remove(discarded)


def discard_folder(folder: Path) -> None:
    """Remove a folder. Rename it first, so that a kill leaves a temporary folder and not half of this one."""
    discarded = folder.parent / temporary_name()
    folder.rename(discarded)
    remove(discarded)


def current_folder(target: Path) -> Path:
    """Return the valid version of `target`: `target` itself, or its successor during a replacement."""
    successor = _successor(target)
    return successor if successor.exists() else target


def merge_into(staged: Path, folder: Path) -> None:
    """Make the staged files the valid version of `folder`, and leave its other files unchanged.

    Files that only the previous manifest lists are removed, except a card that the user edited.
    """
    finish_merge(folder)
    staged.rename(folder / COMMIT)
    sync_folder(folder)
    finish_merge(folder)


def finish_merge(folder: Path) -> None:
    """Move the files of a valid commit to their places. Every step can be repeated after a kill."""
    commit = folder / COMMIT
    if not commit.is_dir():
        return
    if (commit / MANIFEST).exists():
        names = set(read_manifest(commit / MANIFEST))
        for obsolete in set(_previous_manifest(folder) or ()) - names:
            if not is_edited_card(folder, obsolete):
                (folder / obsolete).unlink(missing_ok=True)
        for name in sorted(names):
            with contextlib.suppress(FileNotFoundError):
                (commit / name).replace(folder / name)
        sync_folder(folder)
        (commit / MANIFEST).replace(folder / MANIFEST)
        sync_folder(folder)
    with contextlib.suppress(OSError):  # not empty: another writer has added files in the meantime
        commit.rmdir()


def is_edited_card(folder: Path, name: str) -> bool:
    """Whether `name` is a Markdown file that the user wrote or changed."""
    card = folder / name
    if not name.endswith(".md") or not card.is_file():
        return False
    record = (_previous_manifest(folder) or {}).get(name)
    return record is None or record.sha256 != checksum(card)


def locate(folder: Path, name: str) -> Path:
    """Return the path of the valid file `name`, which is in the commit folder until it is moved to `folder`."""
    staged = folder / COMMIT / name
    return staged if (folder / COMMIT / MANIFEST).exists() and staged.exists() else folder / name


def _successor(target: Path) -> Path:
    return target.with_name(target.name + SUCCESSOR)


def _previous_manifest(folder: Path) -> Manifest | None:
    try:
        return read_manifest(folder / MANIFEST)
    except (FolderError, OSError):  # missing or damaged: no file is known to be written by regard
        return None
