"""Write folders atomically, with a manifest: they appear complete or not at all, even if the process is killed.

The manifest, `regard-manifest.json`, lists the files of a folder with their sizes and checksums. It is written last and
includes its own checksum, to detect truncated or altered folders. It protects against accidental damage; it is not a
signature.

A folder is staged under a temporary name and synced. If the target does not exist yet, one atomic `rename` makes it
visible. Otherwise the target may have other content (a model in a run folder with checkpoints, metrics and the user's
notes). Then the staged folder is renamed to `.regard-commit` inside the target, and is valid from then on:
`locate` looks there first. Finally its files move to the target, the manifest last. Readers repair nothing, so reading
works on read-only disks; the next writer finishes an interrupted merge.

If files were replaced one by one without a commit folder, neither version would be complete in between. Single
files are written by `utils/atomic_files.py`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from regard.utils.atomic_files import Content, FileRecord, content_of, remove, sync_folder, temporary_path, write_synced
from regard.utils.errors import FolderError

MANIFEST = "regard-manifest.json"
COMMIT = ".regard-commit"  # a valid version whose files have not been moved to the folder yet

Manifest = Mapping[str, FileRecord]  # keyed by file name; there are no subfolders

_FORMAT = 1
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ATTEMPTS = 5  # number of reads, if a writer replaces the files during each of them

T = TypeVar("T")


# --- Manifests ----------------------------------------------------------------------------------------------


def manifest_text(manifest: Manifest) -> str:
    """Return the JSON text of a manifest. `read_manifest` accepts only this exact text."""
    files = {name: {"bytes": record.num_bytes, "sha256": record.sha256} for name, record in sorted(manifest.items())}
    body = {"files": files, "format": _FORMAT}
    seal = hashlib.sha256(json.dumps(body, sort_keys=True).encode("ascii")).hexdigest()
    return json.dumps({**body, "seal": seal}, indent=2, sort_keys=True) + "\n"


def read_manifest(path: Path) -> Manifest:
    """Read a manifest and verify its own checksum."""
    raw = path.read_bytes()
    damaged = FolderError(f"{path} is damaged: its checksum does not match. Restore the folder from a copy.", path=path)
    try:
        values = json.loads(raw)
        version = values["format"]
        manifest = {
            str(name): FileRecord(sha256=str(entry["sha256"]), num_bytes=int(entry["bytes"]))
            for name, entry in values["files"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise damaged from None
    if isinstance(version, int) and version > _FORMAT:
        message = f"the format of {path} must be at most {_FORMAT}, got {version}. Update regard."
        raise FolderError(message, path=path, argument="format", value=version)
    if manifest_text(manifest).encode("ascii") != raw or not all(_is_valid(*entry) for entry in manifest.items()):
        raise damaged
    return manifest


def find_damage(folder: Path, manifest: Manifest, *, sizes_only: bool = False) -> list[str]:
    """Check the files of a folder against a manifest; return one message per damaged file."""
    messages = []
    for name, record in manifest.items():
        path = locate(folder, name)
        try:
            num_bytes = path.stat().st_size
            if num_bytes != record.num_bytes:
                verb = "truncated or altered" if num_bytes < record.num_bytes else "altered"
                messages.append(f"{name} was {verb}: {num_bytes:,} bytes instead of {record.num_bytes:,}")
            elif not sizes_only and checksum(path) != record.sha256:
                messages.append(f"{name} was altered: its checksum does not match the manifest")
        except FileNotFoundError:
            messages.append(f"{name} is missing")
        except OSError as error:
            messages.append(f"{name} cannot be read: {error.strerror or error}")
    return messages


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _is_valid(name: str, record: FileRecord) -> bool:
    is_plain_name = name == Path(name).name and name not in ("", ".", "..", MANIFEST)
    return is_plain_name and record.num_bytes >= 0 and _SHA256.fullmatch(record.sha256) is not None


# --- Folders ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def staged_folder(parent: Path, contents: Mapping[str, Content]) -> Iterator[Path]:
    """Create a temporary folder in `parent` with these files and their manifest, all synced.

    The block moves it into place with `put_folder`; afterwards any remaining files are removed.
    """
    with temporary_path(parent) as staged:
        staged.mkdir()
        manifest = {name: write_synced(staged / name, content) for name, content in contents.items()}
        write_synced(staged / MANIFEST, content_of(manifest_text(manifest)))
        sync_folder(staged)
        yield staged


def put_folder(staged: Path, target: Path) -> None:
    """Make a staged folder the valid version of `target`, in one rename.

    Other files in `target` stay unchanged. Files that only its previous manifest lists are removed, except a card
    that the user edited.
    """
    if not target.exists():
        staged.rename(target)
        sync_folder(target.parent)
        return
    finish_merge(target)
    staged.rename(target / COMMIT)
    sync_folder(target)
    finish_merge(target)


def discard_folder(folder: Path) -> None:
    """Remove a folder. Rename it first, so that a kill leaves a temporary folder and not half of this one."""
    with temporary_path(folder.parent) as discarded:
        folder.rename(discarded)


def finish_merge(folder: Path) -> None:
    """Move the files of a valid commit into the folder, or remove an invalid one. If killed, call it again."""
    commit = folder / COMMIT
    if not commit.is_dir():
        return
    if not (commit / MANIFEST).exists():  # already merged, or copied only in part: nothing is committed
        remove(commit)
        return
    names = set(read_manifest(commit / MANIFEST))
    for obsolete in set(_previous_manifest(folder)) - names:
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


def remove_files(folder: Path) -> None:
    """Remove the files that `put_folder` wrote, except a card that the user edited."""
    with contextlib.suppress(FolderError):  # a damaged commit is removed below
        finish_merge(folder)
    remove(folder / COMMIT)
    with contextlib.suppress(FolderError, FileNotFoundError):  # a damaged manifest lists no files
        for name in read_manifest(folder / MANIFEST):
            if not is_edited_card(folder, name):
                (folder / name).unlink(missing_ok=True)
    (folder / MANIFEST).unlink(missing_ok=True)


def is_edited_card(folder: Path, name: str) -> bool:
    """Return whether `name` is a Markdown file that the user wrote or changed."""
    card = folder / name
    if not name.endswith(".md") or not card.is_file():
        return False
    record = _previous_manifest(folder).get(name)
    return record is None or record.sha256 != checksum(card)


def locate(folder: Path, name: str) -> Path:
    """Return the path of the valid file `name`, which is in the commit folder until it is moved to `folder`."""
    staged = folder / COMMIT / name
    return staged if (folder / COMMIT / MANIFEST).exists() and staged.exists() else folder / name


def read_consistent(folder: Path, read: Callable[[Path], T]) -> T:
    """Return `read(folder)`. Retry if a writer replaced its files during the read, so that versions are not mixed."""
    for _ in range(_ATTEMPTS - 1):
        before = _version(folder)
        try:
            result = read(folder)
        except FolderError:
            if _version(folder) == before:
                raise
        else:
            if _version(folder) == before:
                return result
    return read(folder)


def _version(folder: Path) -> tuple[bytes, tuple[str, ...]]:
    """Return a value that changes whenever `put_folder` changes a file: the manifest and the names in the commit."""
    try:
        manifest = locate(folder, MANIFEST).read_bytes()
    except OSError:
        manifest = b""
    return manifest, tuple(sorted(entry.name for entry in folder.glob(f"{COMMIT}/*")))


def _previous_manifest(folder: Path) -> Manifest:
    try:
        return read_manifest(folder / MANIFEST)
    except (FolderError, OSError):  # missing or damaged: no file is known to be written by regard
        return {}
