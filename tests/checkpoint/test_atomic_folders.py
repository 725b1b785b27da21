"""Folders that appear whole or not at all: staged, put in place, merged, and finished by the next writer."""

from __future__ import annotations

import pytest

from regard.checkpoint.atomic_folders import (
    COMMIT,
    MANIFEST,
    locate,
    put_folder,
    read_consistent,
    read_manifest,
    staged_folder,
)
from regard.utils.atomic_files import content_of
from regard.utils.errors import FolderError


def test_an_interrupted_stage_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt), staged_folder(tmp_path, {"a": content_of("x")}) as staged:
        assert sorted(path.name for path in staged.iterdir()) == ["a", MANIFEST]
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_a_folder_takes_its_place_and_replaces_another(tmp_path):
    for text in ("first", "second"):
        with staged_folder(tmp_path, {text: content_of(text)}) as staged:
            put_folder(staged, tmp_path / "target")
        assert {path.name for path in (tmp_path / "target").iterdir()} == {text, MANIFEST}
        assert [path.name for path in tmp_path.iterdir()] == ["target"]


def test_a_read_is_repeated_if_the_files_change_meanwhile(tmp_path):
    def put(text):
        with staged_folder(tmp_path, {"a": content_of(text)}) as staged:
            put_folder(staged, tmp_path / "target")

    texts = []

    def read(folder):
        texts.append(locate(folder, "a").read_text(encoding="utf-8"))
        if len(texts) == 1:
            put("second")
            raise FolderError("mixed versions")
        return texts[-1]

    put("first")
    assert read_consistent(tmp_path / "target", read) == "second"
    assert texts == ["first", "second"]


def test_a_pending_commit_is_read_first_and_completed_by_the_next_writer(tmp_path):
    with staged_folder(tmp_path, {"a": content_of("1"), "old": content_of("1")}) as staged:
        put_folder(staged, tmp_path)
    with staged_folder(tmp_path, {"a": content_of("2")}) as staged:
        staged.rename(tmp_path / COMMIT)
    assert locate(tmp_path, "a").read_text(encoding="utf-8") == "2"
    assert set(read_manifest(locate(tmp_path, MANIFEST))) == {"a"}
    with staged_folder(tmp_path, {"b": content_of("3")}) as staged:
        put_folder(staged, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"b", MANIFEST}


def test_a_commit_without_a_manifest_is_not_read_and_removed_by_the_next_writer(tmp_path):
    with staged_folder(tmp_path, {"a": content_of("1")}) as staged:
        put_folder(staged, tmp_path)
    (tmp_path / COMMIT / "part").mkdir(parents=True)
    (tmp_path / COMMIT / "a").write_text("2", encoding="utf-8")
    assert locate(tmp_path, "a").read_text(encoding="utf-8") == "1"
    with staged_folder(tmp_path, {"a": content_of("3")}) as staged:
        put_folder(staged, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"a", MANIFEST}
    assert locate(tmp_path, "a").read_text(encoding="utf-8") == "3"
