"""The output folder of a training: whether it may be used, and which of its files an earlier run wrote.

Checked before any work starts, so that an hour of training never ends at a folder that cannot be written. `--force`
removes only files that regard is known to have written; a folder without a sign of regard is never touched.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from regard.checkpoint.atomic_folders import COMMIT, finish_merge, is_edited_card
from regard.checkpoint.lock import LOCK, sole_writer
from regard.checkpoint.manifest import MANIFEST, read_manifest
from regard.utils.atomic_files import (
    content_of,
    is_temporary,
    remove,
    storage_errors,
    sweep,
    temporary_name,
    write_synced,
)
from regard.utils.errors import FolderError, UsageError, shorten_list

MARKER = ".regard-run"  # says that this folder was made for a run, before its first checkpoint exists
RUN_FILES = ("metrics.jsonl", "report.html")  # what a run leaves beside its model and checkpoints

REPLACE = "Replace it: --force."

_MARKER_TEXT = "This folder belongs to a training run of regard; `regard train --force` may replace its files.\n"


@contextlib.contextmanager
def output_folder(path: Path, *, resume: bool, force: bool) -> Iterator[None]:
    """Hold `path` for a run, or raise if it cannot be used.

    A new or empty folder is created and a file is written to it on trial; if the block fails before it has written
    anything, a new folder is removed again. A folder with files needs `resume`, or `force` (`clear_output` may then
    remove what an earlier run wrote); both are refused for folders that regard did not write, and for a folder that
    another training holds.
    """
    path = Path(path)
    is_new = not path.exists()
    _take(path, resume=resume, force=force)
    with sole_writer(path):
        _take(path, resume=resume, force=force)  # another run may have ended here meanwhile
        try:
            yield
        except BaseException:
            if is_new:
                _remove_unused(path)
            raise


def check_output(path: Path, *, resume: bool, force: bool) -> None:
    """Raise if `path` cannot be used for a run, as far as reading shows; nothing is written."""
    if resume and force:
        raise UsageError("--resume continues a run and --force replaces it: give one of the two.", argument="resume")
    with storage_errors(path, len(_MARKER_TEXT)):
        if path.exists() and not path.is_dir():
            raise _refused(f"--out {path} is a file; give a folder.", path)
        present = sorted(entry.name for entry in path.iterdir()) if path.exists() else []
        there = [name for name in present if name not in (MARKER, LOCK) and not is_temporary(name)]
        if there:
            _check_use(path, there, resume=resume, force=force)


def _take(path: Path, *, resume: bool, force: bool) -> None:
    check_output(path, resume=resume, force=force)
    with storage_errors(path, len(_MARKER_TEXT)):
        path.mkdir(parents=True, exist_ok=True)
        sweep(path)
        _try_writing(path)


def _remove_unused(path: Path) -> None:
    """Remove a folder that holds nothing but the marker and the lock of a run."""
    if {entry.name for entry in path.iterdir()} <= {MARKER, LOCK}:
        with contextlib.suppress(OSError):  # some systems keep files that are open
            for name in (MARKER, LOCK):
                (path / name).unlink(missing_ok=True)
            path.rmdir()


def _refused(message: str, path: Path) -> UsageError:
    return UsageError(message, argument="out", value=str(path), path=path)


def looks_like_ours(path: Path) -> bool:
    """Whether regard wrote into this folder: a run's marker, a model's manifest, or a checkpoint's."""
    signs = (path / MARKER, path / MANIFEST, path / COMMIT / MANIFEST)
    return any(sign.is_file() for sign in signs) or bool(_own_checkpoints(path))


def _check_use(path: Path, present: list[str], *, resume: bool, force: bool) -> None:
    there = shorten_list(_telling(present))
    ours = looks_like_ours(path)
    if ours and not resume and not force:
        raise _refused(f"--out {path} already holds {_what_is_there(path, there)} Or choose another folder.", path)
    if not ours and not resume and not force:
        raise _refused(
            f"--out {path} is not empty and was not written by regard ({there}). Choose another folder.", path
        )
    if not ours:
        flag, verb = ("--resume", "resumed") if resume else ("--force", "replaced")
        raise _refused(
            f"--out {path} cannot be {verb} with {flag}: nothing in it shows that regard wrote it ({there}). Choose "
            "another folder.",
            path,
        )


def _telling(present: list[str]) -> list[str]:
    """The names that show a user what a folder holds, the model and its checkpoints first."""
    shown = [name for name in present if name not in (MANIFEST, COMMIT)] or present
    return sorted(shown, key=lambda name: (not name.startswith(("model.", "checkpoint-")), name not in RUN_FILES))


def _what_is_there(path: Path, there: str) -> str:
    """What an earlier run left, and how to use it."""
    model = any((path / manifest).is_file() for manifest in (MANIFEST, f"{COMMIT}/{MANIFEST}"))
    if _own_checkpoints(path):
        if model:
            return (
                f"a run and its model ({there}). Train it further: --resume with more --steps or --minutes. {REPLACE}"
            )
        return f"an unfinished run ({there}). Resume it: --resume. {REPLACE}"
    if model:
        return f"a model without a checkpoint to resume from ({there}). {REPLACE}"
    return f"a run that has saved nothing yet ({there}). {REPLACE}"


def _try_writing(path: Path) -> None:
    """Write, sync and rename the marker: permissions alone do not show whether writing works."""
    trial = path / temporary_name()
    try:
        write_synced(trial, content_of(_MARKER_TEXT))
        trial.replace(path / MARKER)
    finally:
        remove(trial)


def clear_output(path: Path) -> None:
    """Remove what an earlier run wrote, and nothing else. To be called inside `output_folder`.

    Checkpoints go first, then the model: a kill in between leaves a loadable model or a folder that --force
    can replace again, and never checkpoints that a later --resume would mistake for the new run's.
    """
    with storage_errors(path, 0):
        for checkpoint in _own_checkpoints(path):
            discarded = path / temporary_name()
            checkpoint.rename(discarded)
            remove(discarded)
        for name in RUN_FILES:
            (path / name).unlink(missing_ok=True)
        with contextlib.suppress(FolderError):  # a damaged commit is removed below as it is
            finish_merge(path)
        remove(path / COMMIT)
        with contextlib.suppress(FolderError, FileNotFoundError):  # a damaged manifest claims no files
            for name in read_manifest(path / MANIFEST).files:
                if not is_edited_card(path, name):
                    (path / name).unlink(missing_ok=True)
        (path / MANIFEST).unlink(missing_ok=True)


def _own_checkpoints(path: Path) -> list[Path]:
    """Checkpoint folders with a manifest of ours; other programs also call theirs checkpoint-<step>."""
    return [
        manifest.parent
        for manifest in sorted(path.glob(f"checkpoint-*/{MANIFEST}"))
        if not manifest.parent.is_symlink()
    ]
