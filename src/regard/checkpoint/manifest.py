"""The manifest of a folder: a list of its files with their sizes and checksums.

`regard-manifest.json` is written last and includes its own checksum, to detect truncated or altered folders.
It protects against accidental damage; it is not a signature.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from regard.utils.atomic_files import FileRecord
from regard.utils.errors import FolderError

MANIFEST = "regard-manifest.json"
Manifest = Mapping[str, FileRecord]  # keyed by file name; there are no subfolders

_FORMAT = 1
_SHA256 = re.compile(r"[0-9a-f]{64}")


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
        raise FolderError(
            f"the format of {path} must be at most {_FORMAT}, got {version}. Update regard.",
            path=path,
            argument="format",
            value=version,
        )
    if manifest_text(manifest).encode("ascii") != raw or not all(_is_valid(*entry) for entry in manifest.items()):
        raise damaged
    return manifest


def find_damage(
    manifest: Manifest, locate: Callable[[str], Path], names: Iterable[str], *, sizes_only: bool = False
) -> list[str]:
    """Check the files `names` against a manifest; return one message per damaged file."""
    messages = []
    for name in names:
        record, path = manifest[name], locate(name)
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
