"""The output folder of a run: refused early, replaced only where regard wrote it, and no file of the user lost."""

from __future__ import annotations

import os
import shutil

import pytest
import torch

from regard.checkpoint import output
from regard.checkpoint.atomic_folders import COMMIT, staged_folder
from regard.checkpoint.folder import read_model, write_model
from regard.checkpoint.output import LOCK, MARKER, check_output, clear_output, is_written_by_regard, output_folder
from regard.checkpoint.training_state import last_good_checkpoint, write_checkpoint
from regard.utils import atomic_files
from regard.utils.atomic_files import content_of
from regard.utils.errors import FolderError, UsageError


def names(path):
    """The names in a folder, without the lock file."""
    return sorted(entry.name for entry in path.iterdir() if entry.name != LOCK)


def prepare_output(path, *, resume, force):
    """Prepare a folder as a run does before its first step."""
    with output_folder(path, resume=resume, force=force):
        if force:
            clear_output(path)


@pytest.fixture
def run(tmp_path):
    """A finished run with some files of the user."""
    path = tmp_path / "run"
    prepare_output(path, resume=False, force=False)
    write_checkpoint(path, 3, tensors={"a": torch.ones(2)}, state={})
    write_model(path, config={"x": 1}, tensors={"a": torch.ones(2)}, texts={"tokenizer.json": "{}", "README.md": "#"})
    for name in ("metrics.jsonl", "report.html", "notes.txt"):
        (path / name).write_text("x", encoding="utf-8")
    (path / "checkpoint-9").mkdir()
    (path / "checkpoint-9" / "optimizer.pt").touch()
    return path


USERS = ["checkpoint-9", "notes.txt"]


def test_a_new_folder_is_created_with_its_parents(tmp_path):
    prepare_output(tmp_path / "a" / "b", resume=False, force=False)
    assert names(tmp_path / "a" / "b") == [MARKER]


@pytest.mark.parametrize(("resume", "force"), [(False, False), (True, False), (False, True)])
def test_new_and_empty_folders_are_accepted_with_every_flag(tmp_path, resume, force):
    for _ in range(2):  # the second time only the marker of a run that was killed at once is there
        prepare_output(tmp_path / "run", resume=resume, force=force)
        assert names(tmp_path / "run") == [MARKER]


def test_a_run_is_refused_without_a_flag(run):
    assert "--force" in refusal(run)


def refusal(run):
    with pytest.raises(UsageError) as refused:
        prepare_output(run, resume=False, force=False)
    assert (refused.value.argument, refused.value.path) == ("out", run)
    return str(refused.value)


def test_the_files_of_a_run_are_named(run):
    said = refusal(run)
    assert "checkpoint-3" in said and "model.safetensors" in said
    assert "regard-" not in said, "manifest and marker tell a user nothing"


def test_resume_is_offered_where_there_is_a_checkpoint(run):
    assert "--resume" in refusal(run)
    shutil.rmtree(run / "checkpoint-3")
    assert "--resume" not in refusal(run)
    for name in ("regard-manifest.json", "model.safetensors", "config.json", "tokenizer.json", "README.md"):
        (run / name).unlink()
    assert "--resume" not in refusal(run)
    write_checkpoint(run, 3, tensors={"a": torch.ones(2)}, state={})
    assert "--resume" in refusal(run)


@pytest.mark.parametrize("problem", [UsageError("wrong"), KeyboardInterrupt()], ids=["error", "Ctrl-C"])
def test_a_run_that_fails_before_it_writes_leaves_no_folder(tmp_path, problem):
    def fail(path, *files):
        with pytest.raises(type(problem)), output_folder(path, resume=False, force=False):
            for name in files:
                (path / name).touch()
            raise problem

    fail(tmp_path / "run")
    assert not (tmp_path / "run").exists()
    (tmp_path / "mine").mkdir()
    fail(tmp_path / "mine")
    assert names(tmp_path / "mine") == [MARKER], "a folder that was there stays"
    fail(tmp_path / "kept", "metrics.jsonl")
    assert names(tmp_path / "kept") == [MARKER, "metrics.jsonl"]


def test_checking_a_folder_changes_nothing(tmp_path):
    check_output(tmp_path / "new", resume=False, force=False)
    assert not (tmp_path / "new").exists()


def test_resume_changes_nothing(run):
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    prepare_output(run, resume=True, force=False)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    assert last_good_checkpoint(run).step == 3


def test_force_removes_the_run_and_only_the_run(run):
    prepare_output(run, resume=False, force=True)
    assert names(run) == sorted([MARKER, *USERS])
    assert last_good_checkpoint_of_ours(run) is None


def last_good_checkpoint_of_ours(run):
    (run / "checkpoint-9" / "optimizer.pt").unlink()
    (run / "checkpoint-9").rmdir()
    return last_good_checkpoint(run)


def test_force_also_clears_a_half_written_model(run):
    with staged_folder(run, {"config.json": content_of("{}"), "extra.txt": content_of("x")}) as staged:
        staged.rename(run / COMMIT)
    prepare_output(run, resume=False, force=True)
    assert names(run) == sorted([MARKER, *USERS])


def test_force_copes_with_damage(run):
    (run / "regard-manifest.json").write_text("{", encoding="utf-8")
    (run / "checkpoint-3" / "state.json").unlink()
    (run / COMMIT).mkdir()
    (run / COMMIT / "regard-manifest.json").write_text("{", encoding="utf-8")
    prepare_output(run, resume=False, force=True)
    assert set(USERS) <= set(names(run))
    assert not (run / COMMIT).exists() and not (run / "checkpoint-3").exists()


@pytest.mark.parametrize("flag", ["resume", "force"])
def test_a_folder_without_a_run_is_never_changed(tmp_path, flag):
    home = tmp_path / "home"
    (home / "checkpoint-500").mkdir(parents=True)
    (home / "checkpoint-500" / "optimizer.pt").touch()
    (home / "config.json").write_text("{}", encoding="utf-8")
    (home / "diary.txt").write_text("mine", encoding="utf-8")
    before = sorted(home.rglob("*"))
    assert not is_written_by_regard(home)
    for given in (flag, None):
        with pytest.raises(UsageError) as error:
            prepare_output(home, resume=given == "resume", force=given == "force")
        assert (error.value.argument, error.value.path) == ("out", home)
    assert sorted(home.rglob("*")) == before


def test_a_link_to_a_checkpoint_elsewhere_is_not_followed(run, tmp_path):
    write_checkpoint(tmp_path / "precious", 1, tensors={}, state={})
    (run / "checkpoint-1").symlink_to(tmp_path / "precious" / "checkpoint-1")
    prepare_output(run, resume=False, force=True)
    assert last_good_checkpoint(tmp_path / "precious").step == 1


def test_resume_and_force_conflict(tmp_path):
    with pytest.raises(UsageError) as error:
        prepare_output(tmp_path / "run", resume=True, force=True)
    assert error.value.argument == "resume"
    assert not (tmp_path / "run").exists()


def test_a_file_is_not_a_folder(tmp_path):
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError) as error:
        prepare_output(tmp_path / "file", resume=False, force=True)
    assert (error.value.argument, error.value.path) == ("out", tmp_path / "file")
    with pytest.raises(FolderError):
        prepare_output(tmp_path / "file" / "below", resume=False, force=False)
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_removed(run, monkeypatch):
    before = names(run)

    def refuse(path, content):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(atomic_files, "write_synced", refuse)
    with pytest.raises(FolderError):
        prepare_output(run, resume=False, force=True)
    assert names(run) == before
    assert read_model(run).config == {"x": 1}


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the administrator may write everywhere")
def test_a_folder_without_permission(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(FolderError):
            prepare_output(tmp_path / "run", resume=False, force=False)
    finally:
        tmp_path.chmod(0o700)


def test_force_keeps_an_edited_card(run):
    (run / "README.md").write_text("my own words", encoding="utf-8")
    prepare_output(run, resume=False, force=True)
    assert (run / "README.md").read_text(encoding="utf-8") == "my own words"
    assert not (run / "tokenizer.json").exists()


def test_a_run_that_finished_before_the_lock_is_detected(tmp_path, monkeypatch):
    """Another run writes its model after the first check and before the lock."""
    hold = output.lock_folder

    def late(path):
        write_model(path, config={"x": 1}, tensors={"a": torch.ones(2)}, texts={})
        return hold(path)

    monkeypatch.setattr(output, "lock_folder", late)
    with (
        pytest.raises(UsageError),
        output_folder(tmp_path / "r", resume=False, force=False),
    ):
        pytest.fail("the folder is not ours to use")
