"""Files that appear whole or not at all, whatever kills the process in between.

A file is written under a temporary name beside its target, synced, and renamed over the old file. Temporaries of
killed processes are recognized by their name, which holds machine, process and a random word, and are swept by the next
writer; those of running processes stay.
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

STALE_SECONDS = 24 * 3600  # after this, a temporary whose process cannot be judged counts as abandoned

_PREFIX = ".regard-tmp-"
_NAME = re.compile(r"\.regard-tmp-(?P<machine>[0-9a-f]{8})-(?P<pid>\d+)-(?P<word>[0-9a-f]{8})-\d+")
_MACHINE = hashlib.sha256(platform.node().encode("utf-8", "replace")).hexdigest()[:8]
_WORD = secrets.token_hex(4)  # tells this process from an earlier one that had the same number
_serial = itertools.count()


@dataclass(frozen=True)
class FileRecord:
    """What a file held when it was written."""

    sha256: str
    num_bytes: int


@dataclass(frozen=True)
class Content:
    """What a file will hold: how many bytes, and the chunks in order, made only when they are written."""

    num_bytes: int
    chunks: Callable[[], Iterable[bytes | memoryview]]


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
        for chunk in content.chunks():
            digest.update(chunk)
            _write_all(handle, chunk)
            num_bytes += len(chunk)
        os.fsync(handle)
    finally:
        os.close(handle)
    return FileRecord(sha256=digest.hexdigest(), num_bytes=num_bytes)


def write_file(path: Path, data: str | bytes | Content) -> None:
    """Write one file atomically: readers see the old one or the new one, never a part."""
    content = data if isinstance(data, Content) else content_of(data)
    with storage_errors(path, content.num_bytes):
        sweep(path.parent)
        temporary = path.parent / temporary_name()
        try:
            write_synced(temporary, content)
            temporary.replace(path)
        finally:
            remove(temporary)
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Push a folder's names to the disk, so that a rename survives a power cut."""
    if os.name == "nt":  # Windows has no handle on folders; its renames are journalled
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_all(handle: int, chunk: bytes | memoryview) -> None:
    rest = memoryview(chunk)
    while rest:
        rest = rest[os.write(handle, rest) :]


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
        raise FolderError(" ".join(filter(None, (f"cannot write {path}: {reason}", reassurance))), path=path) from error


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
