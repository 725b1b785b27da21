"""The manifest detects every change to itself and to the files that it lists."""

from __future__ import annotations

import hashlib
import json

import pytest

from regard.checkpoint.atomic_folders import MANIFEST, checksum, find_damage, manifest_text, read_manifest
from regard.utils.atomic_files import FileRecord
from regard.utils.errors import FolderError


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"eleven char")
    (tmp_path / "b.bin").write_bytes(bytes(range(256)) * 13)
    files = {name: record(tmp_path / name) for name in ("a.txt", "b.bin")}
    (tmp_path / MANIFEST).write_text(manifest_text(files), encoding="ascii")
    return tmp_path


def record(path):
    raw = path.read_bytes()
    return FileRecord(sha256=hashlib.sha256(raw).hexdigest(), num_bytes=len(raw))


def found(folder, **options):
    return find_damage(folder, read_manifest(folder / MANIFEST), **options)


def damaged(folder, **options):
    return [message.split()[0] for message in found(folder, **options)]


def test_an_intact_folder_has_no_damage(folder):
    assert found(folder) == []
    assert set(read_manifest(folder / MANIFEST)) == {"a.txt", "b.bin"}


def test_checksum_of_a_large_file(tmp_path):
    raw = b"prime" * 700_001
    (tmp_path / "x").write_bytes(raw)
    assert checksum(tmp_path / "x") == hashlib.sha256(raw).hexdigest()


def test_any_flipped_bit_of_the_manifest_is_detected(folder):
    raw = (folder / MANIFEST).read_bytes()
    for position in range(len(raw)):
        for bit in range(8):
            altered = bytearray(raw)
            altered[position] ^= 1 << bit
            (folder / MANIFEST).write_bytes(altered)
            with pytest.raises(FolderError):
                read_manifest(folder / MANIFEST)


def test_a_truncated_manifest_is_detected(folder):
    raw = (folder / MANIFEST).read_bytes()
    for length in range(len(raw)):
        (folder / MANIFEST).write_bytes(raw[:length])
        with pytest.raises(FolderError):
            read_manifest(folder / MANIFEST)


@pytest.mark.parametrize("text", ["null", "[]", "3", '{"files": 3, "format": 1}', "[" * 100_000, '{"files": {"a": 1}}'])
def test_other_json_is_damage(tmp_path, text):
    (tmp_path / MANIFEST).write_text(text, encoding="utf-8")
    with pytest.raises(FolderError):
        read_manifest(tmp_path / MANIFEST)


def test_a_newer_format_is_named(folder):
    values = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    (folder / MANIFEST).write_text(json.dumps({**values, "format": 7}), encoding="utf-8")
    with pytest.raises(FolderError):
        read_manifest(folder / MANIFEST)


@pytest.mark.parametrize("name", ["../a", "/etc/passwd", "x/y", "", "..", MANIFEST])
def test_names_outside_the_folder_are_refused(tmp_path, name):
    text = manifest_text({name: FileRecord(sha256="0" * 64, num_bytes=1)})
    (tmp_path / MANIFEST).write_text(text, encoding="ascii")
    with pytest.raises(FolderError):
        read_manifest(tmp_path / MANIFEST)


def test_each_kind_of_damage_is_named(folder):
    (folder / "a.txt").write_bytes(b"elev")
    (folder / "b.bin").unlink()
    assert damaged(folder) == ["a.txt", "b.bin"]
    (folder / "a.txt").write_bytes(b"eleven chars and more")
    assert damaged(folder) == ["a.txt", "b.bin"]
    (folder / "a.txt").write_bytes(b"eleven Char")
    assert damaged(folder) == ["a.txt", "b.bin"]
    assert damaged(folder, sizes_only=True) == ["b.bin"]
    (folder / "b.bin").mkdir()
    assert len(found(folder)) == 2
