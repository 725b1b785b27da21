"""Files and folders that appear whole or not at all, whatever kills the process in between.

Three ways of writing, each for one situation; all of them write under a temporary name first, sync, and make
the result visible with one `rename`, which the file system does entirely or not at all:

- `write_file`: one file. The temporary sibling is renamed over the old file.
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
which the old manifest stands beside new files, and then neither version is whole.

Temporaries of killed processes are recognised by their name, which holds machine, process and a random word,
and are swept by the next writer; those of living processes are left alone. This module knows bytes and names,
nothing of tensors, models or training.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import os
import platform
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from regard.checkpoint.manifest import MANIFEST, FileRecord, Manifest, checksum, read_manifest
from regard.errors import FolderError

COMMIT = ".regard-commit"  # a merged version that is valid but not yet moved to its places
SUCCESSOR = ".new"  # suffix of a folder that is about to take the place of the one without it
STALE_SECONDS = 24 * 3600  # after this, a temporary whose process cannot be judged counts as abandoned

_PREFIX = ".regard-tmp-"
_NAME = re.compile(r"\.regard-tmp-(?P<machine>[0-9a-f]{8})-(?P<pid>\d+)-(?P<word>[0-9a-f]{8})-\d+")
_MACHINE = hashlib.sha256(platform.node().encode("utf-8", "replace")).hexdigest()[:8]
_WORD = secrets.token_hex(4)  # tells this process from an earlier one that had the same number
_serial = itertools.count()


@dataclass(frozen=True)
class Content:
    """What a file will hold: how many bytes, and the pieces in order, made only when they are written."""

    num_bytes: int
    pieces: Callable[[], Iterable[bytes | memoryview]]


def content_of(data: str | bytes) -> Content:
    """The content of a file that is already in memory; text becomes UTF-8, names of files that are not become ?."""
    raw = data.encode("utf-8", "replace") if isinstance(data, str) else data
    return Content(len(raw), lambda: (raw,))


# --- Writing ------------------------------------------------------------------------------------------------


def write_synced(path: Path, content: Content) -> FileRecord:
    """Write a new file, push it to the disk, and return its size and checksum.

    The checksum is computed on the way: reading the file back would cost more than hashing in memory does.
    """
    digest = hashlib.sha256()
    num_bytes = 0
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        for piece in content.pieces():
            digest.update(piece)
            _write_all(handle, piece)
            num_bytes += len(piece)
        os.fsync(handle)
    finally:
        os.close(handle)
    return FileRecord(sha256=digest.hexdigest(), num_bytes=num_bytes)


def write_file(path: Path, data: str | bytes) -> None:
    """Write one file atomically: readers see the old one or the new one, never a part."""
    content = content_of(data)
    with storage_errors(path, content.num_bytes):
        sweep(path.parent)
        temporary = path.parent / temporary_name()
        try:
            write_synced(temporary, content)
            temporary.replace(path)
        finally:
            remove(temporary)
        sync_folder(path.parent)


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


def sync_folder(folder: Path) -> None:
    """Push a folder's names to the disk, so that a rename survives a power cut."""
    if os.name == "nt":  # Windows has no handle on folders; its renames are journalled
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_all(handle: int, piece: bytes | memoryview) -> None:
    rest = memoryview(piece)
    while rest:
        rest = rest[os.write(handle, rest) :]


def _successor(target: Path) -> Path:
    return target.with_name(target.name + SUCCESSOR)


def _previous_names(folder: Path) -> set[str]:
    try:
        return set(read_manifest(folder / MANIFEST).files)
    except (FolderError, OSError):  # none, or damaged: then nothing is known to be ours
        return set()


# --- Temporaries --------------------------------------------------------------------------------------------


def temporary_name() -> str:
    """A name that nobody else uses and that tells later processes whose it was."""
    return f"{_PREFIX}{_MACHINE}-{os.getpid()}-{_WORD}-{next(_serial)}"


def is_temporary(name: str) -> bool:
    """Whether a file or folder of this name is a temporary of ours, abandoned or not."""
    return _NAME.fullmatch(name) is not None


def sweep(folder: Path) -> list[Path]:
    """Remove the temporaries that killed processes left in `folder`, and return them."""
    swept = []
    for entry in sorted(folder.glob(_PREFIX + "*")):
        if _is_abandoned(entry):
            remove(entry)
            swept.append(entry)
    return swept


def remove(path: Path) -> None:
    """Remove a temporary file or folder, as far as that is possible."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


def _is_abandoned(entry: Path) -> bool:
    name = _NAME.fullmatch(entry.name)
    if name is None:
        return False
    pid = int(name["pid"])
    if name["machine"] == _MACHINE and os.name != "nt":  # on Windows, asking with os.kill would end the process
        if pid == os.getpid():
            return name["word"] != _WORD
        if not _is_alive(pid):
            return True
    # Written on another machine that shares the disk, or the number now belongs to somebody: age decides.
    return time.time() - _last_change(entry) > STALE_SECONDS


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def _last_change(entry: Path) -> float:
    times = [0.0]
    for path in (entry, *entry.glob("*")):
        with contextlib.suppress(OSError):
            times.append(path.lstat().st_mtime)
    return max(times)


# --- Errors -------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def storage_errors(path: Path, num_bytes: int, reassurance: str = "") -> Iterator[None]:
    """Turn what the operating system says about writing `path` into words.

    `num_bytes` is what the write needs; `reassurance` says what is still intact.
    """
    try:
        yield
    except OSError as error:
        reason = _reason(error, path, num_bytes)
        raise FolderError(" ".join(filter(None, (f"cannot write {path}: {reason}", reassurance)))) from error


def _reason(error: OSError, path: Path, num_bytes: int) -> str:
    match error.errno:
        case errno.ENOSPC:
            return (
                f"the disk is full ({readable_size(num_bytes)} needed, {_free(path)} free). "
                "Free some space or choose another folder."
            )
        case errno.EDQUOT:
            return (
                f"your disk quota is used up ({readable_size(num_bytes)} needed). "
                "Remove some of your files or choose another folder."
            )
        case errno.EROFS:
            return "it lies on a disk that is mounted read-only. Choose another folder."
        case errno.EACCES | errno.EPERM:
            return "you have no permission to write there. Choose another folder or change its permissions."
        case errno.ENOTDIR | errno.EEXIST:
            return f"a file is in the way ({error.filename}). Choose another folder."
        case _:
            return f"{error.strerror or error} ({readable_size(num_bytes)} were to be written)."


def _free(path: Path) -> str:
    for place in (path, *path.parents):
        with contextlib.suppress(OSError):
            return readable_size(shutil.disk_usage(place).free)
    return "an unknown amount"


def readable_size(num_bytes: float) -> str:
    """Bytes in the unit a person would use."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if num_bytes < 1000:
            return f"{num_bytes:,.0f} {unit}" if unit == "bytes" else f"{num_bytes:,.1f} {unit}"
        num_bytes /= 1000
    return f"{num_bytes:,.1f} TB"
