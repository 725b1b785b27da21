"""The output folder of a training run: check that it can be used, lock it, and remove the files of an earlier run.

The folder is checked before any work starts, so that a long run does not fail when it saves. `--force` removes only
files that regard is known to have written; a folder that regard did not write is never changed.

Two runs in one folder would overwrite each other's checkpoints. The operating system holds the lock on a small
file and releases it when the process ends, so a lock file that a killed run leaves behind has no effect.
"""

from __future__ import annotations

import contextlib
import errno
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from regard.checkpoint.atomic_folders import COMMIT, MANIFEST, discard_folder, locate, remove_files
from regard.utils.atomic_files import is_temporary, storage_errors, write_file
from regard.utils.errors import UsageError, shorten_list

MARKER = ".regard-run"  # marks the folder of a run, even before its first checkpoint exists
LOCK = ".regard-lock"
RUN_FILES = ("metrics.jsonl", "report.html")  # files of a run besides its model and checkpoints

_MARKER_TEXT = "This folder belongs to a training run of regard; `regard train --force` may replace its files.\n"
_IS_LOCKED = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)


@contextlib.contextmanager
def output_folder(path: Path, *, resume: bool, force: bool) -> Iterator[None]:
    """Lock `path` for a run; raise if it cannot be used.

    The marker is written first, to test whether writing works. A folder with files needs `resume`, or `force`
    (`clear_output` may then remove the earlier run); both raise for folders that regard did not write. If the
    block fails before it has written anything, a new folder is removed again.
    """
    path = Path(path)
    is_new = not path.exists()
    _prepare(path, resume=resume, force=force)
    with lock_folder(path):
        _prepare(path, resume=resume, force=force)  # another run may have ended in this folder in the meantime
        try:
            yield
        except BaseException:
            if is_new and {entry.name for entry in path.iterdir()} <= {MARKER, LOCK}:
                with contextlib.suppress(OSError):  # some systems cannot remove open files
                    for name in (MARKER, LOCK):
                        (path / name).unlink(missing_ok=True)
                    path.rmdir()
            raise


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock a folder for the block; raise if another process (or another block in this process) has locked it."""
    try:
        file = (folder / LOCK).open("a+b")
    except OSError:  # for example a read-only folder: the first write will report it
        yield
        return
    with file:
        try:
            _lock(file)
        except OSError as error:
            if error.errno in _IS_LOCKED:
                raise _refuse(folder, "is in use by another training run. Wait until it ends, or choose") from None
            # The file system does not support locks: train without one.
        yield


if sys.platform == "win32":
    import msvcrt

    def _lock(file: IO[bytes]) -> None:
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(file: IO[bytes]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def check_output(path: Path, *, resume: bool, force: bool) -> None:
    """Raise if `path` cannot be used for a run, without writing anything."""
    if resume and force:
        raise UsageError("--resume conflicts with --force. Use only one of them.", argument="resume")
    with storage_errors(path, len(_MARKER_TEXT)):
        if path.exists() and not path.is_dir():
            raise _refuse(path, "is a file. Give a folder, or choose")
        names = sorted(entry.name for entry in path.iterdir()) if path.exists() else []
        names = [name for name in names if name not in (MARKER, LOCK) and not is_temporary(name)]
        if names:
            _check_files(path, names, resume=resume, force=force)


def clear_output(path: Path) -> None:
    """Remove only the files that an earlier run wrote. Call it inside `output_folder`.

    Checkpoints are removed before the model. If the process is killed in between, the model can still be loaded, or
    --force can replace the folder again. No old checkpoints remain that a later --resume could mistake for those of the
    new run.
    """
    with storage_errors(path, 0):
        for checkpoint in _own_checkpoints(path):
            discard_folder(checkpoint)
        for name in RUN_FILES:
            (path / name).unlink(missing_ok=True)
        remove_files(path)


def is_written_by_regard(path: Path) -> bool:
    """Return whether a folder has the marker of a run, the manifest of a model, or a checkpoint with a manifest."""
    return (path / MARKER).is_file() or _has_model(path) or bool(_own_checkpoints(path))


def _prepare(path: Path, *, resume: bool, force: bool) -> None:
    check_output(path, resume=resume, force=force)
    write_file(path / MARKER, _MARKER_TEXT, parents=True)  # test by writing: permissions alone are not enough


def _refuse(path: Path, problem: str) -> UsageError:
    return UsageError(f"--out {path} {problem} another --out.", argument="out", value=str(path), path=path)


def _check_files(path: Path, names: list[str], *, resume: bool, force: bool) -> None:
    shown = [name for name in names if name not in (MANIFEST, COMMIT)] or names  # list the model and checkpoints first
    shown.sort(key=lambda name: (not name.startswith(("model.", "checkpoint-")), name not in RUN_FILES))
    files = shorten_list(shown)
    if not is_written_by_regard(path):
        flag = " --resume" * resume + " --force" * force
        conflict = f", so{flag} cannot be used" if flag else ""
        raise _refuse(path, f"is not empty and was not written by regard ({files}){conflict}. Choose")
    if resume or force:
        return
    if not _own_checkpoints(path):
        content, advice = ("a model without a checkpoint" if _has_model(path) else "a run without a checkpoint"), ""
    elif _has_model(path):
        content, advice = "a run and its model", " Train it further with --resume and more --steps or --minutes."
    else:
        content, advice = "an unfinished run", " Resume it with --resume."
    raise _refuse(path, f"already contains {content} ({files}).{advice} Replace it with --force, or choose")


def _has_model(path: Path) -> bool:
    return locate(path, MANIFEST).is_file()


def _own_checkpoints(path: Path) -> list[Path]:
    """Return checkpoint folders with a manifest; without one, they may belong to another program."""
    folders = [manifest.parent for manifest in sorted(path.glob(f"checkpoint-*/{MANIFEST}"))]
    return [folder for folder in folders if not folder.is_symlink()]
