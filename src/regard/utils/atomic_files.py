"""Atomic file writes: a file appears complete or not at all, even if the process is killed.

A file is written under a temporary name beside its target, synced, and renamed over the old file. The temporary name
contains machine, process id and a random word, so that the next writer can remove the temporaries of killed processes.
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
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from regard.utils.errors import FolderError

STALE_SECONDS = 24 * 3600  # age at which a temporary counts as abandoned if its process cannot be checked

_PREFIX = ".regard-tmp-"
_NAME = re.compile(r"\.regard-tmp-(?P<machine>[0-9a-f]{8})-(?P<pid>\d+)-(?P<word>[0-9a-f]{8})-\d+")
_MACHINE = hashlib.sha256(platform.node().encode("utf-8", "replace")).hexdigest()[:8]
_WORD = secrets.token_hex(4)  # distinguishes this process from an earlier one with the same id
_serial = itertools.count()


@dataclass(frozen=True)
class FileRecord:
    """Checksum and size of a file that was written."""

    sha256: str
    num_bytes: int


@dataclass(frozen=True)
class Content:
    """The content of a file to write: its size, and a function that yields the chunks when they are written."""

    num_bytes: int
    chunks: Callable[[], Iterable[bytes | memoryview]]


def content_of(data: str | bytes) -> Content:
    """Content from memory; text is encoded as UTF-8, lone surrogates (from file names) become "?"."""
    raw = data.encode("utf-8", "replace") if isinstance(data, str) else data
    return Content(len(raw), lambda: (raw,))


# --- Writing ------------------------------------------------------------------------------------------------


def write_synced(path: Path, content: Content) -> FileRecord:
    """Write a new file, sync it to the disk, and return its size and checksum."""
    digest, num_bytes = hashlib.sha256(), 0
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        for chunk in content.chunks():
            digest.update(chunk)
            num_bytes += len(chunk)
            rest = memoryview(chunk)
            while rest:
                rest = rest[os.write(handle, rest) :]
        os.fsync(handle)
    finally:
        os.close(handle)
    return FileRecord(sha256=digest.hexdigest(), num_bytes=num_bytes)


def write_file(path: Path, data: str | bytes | Content, *, parents: bool = False) -> None:
    """Write one file atomically: readers see the old file or the new one, never a part. `parents` creates folders."""
    content = data if isinstance(data, Content) else content_of(data)
    with storage_errors(path, content.num_bytes):
        if parents:
            path.parent.mkdir(parents=True, exist_ok=True)
        with temporary_path(path.parent) as temporary:
            write_synced(temporary, content)
            temporary.replace(path)
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Sync a folder's entries to the disk, so that a rename survives a power failure."""
    if os.name == "nt":  # Windows cannot open folders; its renames are journaled
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# --- Temporaries --------------------------------------------------------------------------------------------


def temporary_name() -> str:
    """Return a unique name that identifies this process."""
    return f"{_PREFIX}{_MACHINE}-{os.getpid()}-{_WORD}-{next(_serial)}"


@contextlib.contextmanager
def temporary_path(folder: Path) -> Iterator[Path]:
    """Yield a new path in `folder` to write or move to; anything left at that path after the block is removed."""
    sweep(folder)
    path = folder / temporary_name()
    try:
        yield path
    finally:
        remove(path)


def is_temporary(name: str) -> bool:
    """Return whether a name was created by `temporary_name`, in any process."""
    return _NAME.fullmatch(name) is not None


def sweep(folder: Path) -> list[Path]:
    """Remove the temporaries that killed processes left in `folder`, and return them."""
    abandoned = [entry for entry in sorted(folder.glob(_PREFIX + "*")) if _is_abandoned(entry)]
    for entry in abandoned:
        remove(entry)
    return abandoned


def remove(path: Path) -> None:
    """Remove a temporary file or folder; errors are ignored."""
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
    if name["machine"] == _MACHINE and os.name != "nt":  # on Windows, os.kill(pid, 0) would end the process
        if pid == os.getpid():
            return name["word"] != _WORD
        try:
            os.kill(pid, 0)
        except (ProcessLookupError, OverflowError):
            return True
        except OSError:  # the process exists and belongs to another user
            pass
    # The file comes from another machine with the same disk, or the process id may be in use again: check its age.
    times = [0.0]
    for path in (entry, *entry.glob("*")):
        with contextlib.suppress(OSError):
            times.append(path.lstat().st_mtime)
    return time.time() - max(times) > STALE_SECONDS


# --- Errors -------------------------------------------------------------------------------------------------


_REASONS = {
    errno.ENOSPC: "the disk is full ({needed} needed, {free} free). Free some space or choose another folder.",
    errno.EDQUOT: "your disk quota is used up ({needed} needed). Delete some files or choose another folder.",
    errno.EROFS: "the disk is mounted read-only. Choose another folder.",
    errno.EACCES: "permission denied. Choose another folder or change its permissions.",
    errno.EPERM: "permission denied. Choose another folder or change its permissions.",
    errno.ENOENT: "its folder does not exist. Create the folder or choose another one.",
    errno.ENOTDIR: "{blocker} is a file. Choose another folder.",
    errno.EEXIST: "{blocker} is a file. Choose another folder.",
}


@contextlib.contextmanager
def storage_errors(path: Path, num_bytes: int, reassurance: str = "") -> Iterator[None]:
    """Turn an `OSError` while writing `num_bytes` to `path` into a `FolderError` that ends with `reassurance`."""
    try:
        yield
    except OSError as error:
        free = "an unknown amount"
        for place in (path, *path.parents):
            with contextlib.suppress(OSError):
                free = readable_size(shutil.disk_usage(place).free)
                break
        template = _REASONS.get(error.errno or 0, "{error} ({needed} to write).")
        reason = template.format(
            needed=readable_size(num_bytes), free=free, blocker=error.filename, error=error.strerror or error
        )
        raise FolderError(f"cannot write {path}: {reason} {reassurance}".rstrip(), path=path) from error


def readable_size(num_bytes: float) -> str:
    """Format a number of bytes in a readable unit: "36.3 MB"."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if num_bytes < 1000:
            return f"{num_bytes:,.0f} {unit}" if unit == "bytes" else f"{num_bytes:,.1f} {unit}"
        num_bytes /= 1000
    return f"{num_bytes:,.1f} TB"
