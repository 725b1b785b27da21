"""The manifest of a folder: which files belong to it, how long they are, and their checksums.

`regard-manifest.json` is written last and carries a checksum of itself, so a torn or altered folder is
noticed wherever the damage lies. It guards against accidents; it is no signature against somebody who forges
both. It knows nothing of what the files mean.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from regard.utils.atomic_files import FileRecord
from regard.utils.errors import FolderError

MANIFEST = "regard-manifest.json"

_FORMAT = 1
_CHUNK = 1 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Manifest:
    """The files of a folder by name; all of them lie directly in it."""

    files: Mapping[str, FileRecord]

    def to_text(self) -> str:
        """The one spelling of this manifest: any other spelling counts as damage."""
        files = {
            name: {"bytes": record.num_bytes, "sha256": record.sha256} for name, record in sorted(self.files.items())
        }
        body = {"files": files, "format": _FORMAT}
        seal = hashlib.sha256(json.dumps(body, sort_keys=True).encode("ascii")).hexdigest()
        return json.dumps({**body, "seal": seal}, indent=2, sort_keys=True) + "\n"


def read_manifest(path: Path) -> Manifest:
    """Read a manifest and check it against its own checksum."""
    raw = path.read_bytes()
    damaged = FolderError(f"{path} is damaged: its checksum does not fit. Restore the folder from a copy.", path=path)
    try:
        values = json.loads(raw)
        version = values["format"]
        records = {
            str(name): FileRecord(sha256=str(entry["sha256"]), num_bytes=int(entry["bytes"]))
            for name, entry in values["files"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise damaged from None
    if isinstance(version, int) and version > _FORMAT:
        raise FolderError(
            f"{path} has format {version}, and this version of regard reads up to {_FORMAT}: update regard.",
            path=path,
            argument="format",
            value=version,
        )
    manifest = Manifest(records)
    if manifest.to_text().encode("ascii") != raw or not all(map(_is_sound, records.items())):
        raise damaged
    return manifest


def problems(
    manifest: Manifest, locate: Callable[[str], Path], names: Iterable[str], *, thorough: bool = True
) -> list[str]:
    """What is wrong with the listed `names`, one sentence a file; without `thorough` only sizes are compared."""
    found = []
    for name in names:
        record, path = manifest.files[name], locate(name)
        try:
            num_bytes = path.stat().st_size
            if num_bytes < record.num_bytes:
                found.append(f"{name} was truncated or altered: {num_bytes:,} of {record.num_bytes:,} bytes are there")
            elif num_bytes > record.num_bytes:
                found.append(f"{name} was altered: {num_bytes:,} bytes instead of {record.num_bytes:,}")
            elif thorough and checksum(path) != record.sha256:
                found.append(f"{name} was altered: its checksum does not fit the manifest")
        except FileNotFoundError:
            found.append(f"{name} is missing")
        except OSError as error:
            found.append(f"{name} cannot be read: {error.strerror or error}")
    return found


def checksum(path: Path) -> str:
    """The SHA-256 of a file, read in chunks."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _is_sound(entry: tuple[str, FileRecord]) -> bool:
    name, record = entry
    plain = name == Path(name).name and name not in ("", ".", "..", MANIFEST)
    return plain and record.num_bytes >= 0 and _SHA256.fullmatch(record.sha256) is not None
