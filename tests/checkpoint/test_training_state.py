"""Checkpoints are loaded exactly, damaged ones are skipped, old ones are pruned, files of the user are kept."""

from __future__ import annotations

import json
import math

import hypothesis
import hypothesis.strategies as st
import pytest
import torch

from regard.checkpoint import training_state
from regard.checkpoint.atomic_folders import COMMIT, MANIFEST, put_folder, staged_folder
from regard.checkpoint.training_state import last_good_checkpoint, read_checkpoint, write_checkpoint
from regard.utils.atomic_files import content_of
from regard.utils.errors import FolderError


def tensors(step):
    return {"model.weight": torch.full((7, 5), float(step)), "optimizer.0.m": torch.arange(11) * step}


def write(run, *steps, **options):
    for step in steps:
        write_checkpoint(run, step, tensors=tensors(step), state={"epoch": step / 7}, **options)


def present(run):
    return sorted(path.name for path in run.iterdir())


def damage(path, name="tensors.safetensors"):
    raw = bytearray((path / name).read_bytes())
    raw[-1] ^= 1
    (path / name).write_bytes(raw)


def test_a_checkpoint_is_loaded_exactly(tmp_path):
    state = {
        "rng": torch.get_rng_state().numpy().tobytes().hex(),
        "position": [3, {"file": "a.tsv", "offset": 2**63}],
        "best": math.inf,
        "loss": 0.1 + 0.2,
        "done": False,
        "note": None,
        "ünï": "\ud800 lone, \u0000 nul",
    }
    path = write_checkpoint(tmp_path / "deep" / "run", 13, tensors=tensors(13), state=state)
    assert path == tmp_path / "deep" / "run" / "checkpoint-13"
    for back in (read_checkpoint(path), last_good_checkpoint(tmp_path / "deep" / "run")):
        assert back.step == 13
        assert back.state == state
        assert back.path == path
        assert back.skipped == []
        assert all(torch.equal(back.tensors[name], tensor) for name, tensor in tensors(13).items())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@hypothesis.given(state=st.dictionaries(st.text(), json_values, max_size=5), step=st.integers(0, 10**12))
@hypothesis.settings(
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture], max_examples=60, deadline=None
)
def test_any_json_state_is_loaded_exactly(tmp_path, state, step):
    path = write_checkpoint(tmp_path, step, tensors={}, state=state)
    back = read_checkpoint(path)
    assert repr(back.state) == repr(state)  # repr, because NaN is not equal to itself and −0.0 equals 0.0
    assert back.step == step


@pytest.mark.parametrize(
    ("state", "where"),
    [
        ({"a": {"b": (1, 2)}}, "state['a']['b']"),
        ({"a": [0, {3: "x"}]}, "state['a'][1]"),
        ({"rng": b"bytes"}, "state['rng']"),
        ({"x": torch.zeros(1)}, "state['x']"),
    ],
)
def test_state_that_json_would_change_raises_a_type_error(tmp_path, state, where):
    with pytest.raises(TypeError) as error:
        write_checkpoint(tmp_path, 1, tensors={}, state=state)
    assert where in str(error.value)
    assert present(tmp_path) == []


@pytest.mark.parametrize(("step", "keep"), [(-1, 2), (3, 0)])
def test_impossible_numbers(tmp_path, step, keep):
    with pytest.raises(ValueError):
        write_checkpoint(tmp_path, step, tensors={}, state={}, keep=keep)


def test_a_run_without_checkpoints(tmp_path):
    assert last_good_checkpoint(tmp_path) is None
    assert last_good_checkpoint(tmp_path / "nowhere") is None
    (tmp_path / "file").touch()
    assert last_good_checkpoint(tmp_path / "file") is None


# --- Pruning -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_the_newest_are_kept(tmp_path, keep):
    write(tmp_path, 1, 9, 10, 100, keep=keep)
    assert present(tmp_path) == sorted(f"checkpoint-{step}" for step in [1, 9, 10, 100][-keep:])
    assert last_good_checkpoint(tmp_path).step == 100


def test_files_of_the_user_are_kept(tmp_path):
    write(tmp_path, 1)
    for name in ("notes.txt", "checkpoint-best", "checkpoint-1x", ".regard-tmp-mine", "checkpoint-0.zip"):
        (tmp_path / name).write_text("mine", encoding="utf-8")
    (tmp_path / "checkpoint-0").mkdir()
    (tmp_path / "checkpoint-0" / "optimizer.pt").touch()  # another program's checkpoint
    (tmp_path / "checkpoint-1" / "notes.txt").write_text("mine", encoding="utf-8")
    write(tmp_path, 2, 3)
    assert set(present(tmp_path)) >= {
        "notes.txt",
        "checkpoint-best",
        "checkpoint-1x",
        ".regard-tmp-mine",
        "checkpoint-0.zip",
        "checkpoint-0",
    }


def test_pruning_happens_after_the_new_one_is_in_place(tmp_path, monkeypatch):
    write(tmp_path, 1, keep=1)
    seen = []
    monkeypatch.setattr(training_state, "_prune", lambda run, step, keep: seen.extend(present(run)))
    write(tmp_path, 2, keep=1)
    assert seen == ["checkpoint-1", "checkpoint-2"]


def test_a_checkpoint_that_cannot_be_pruned_does_not_stop_training(tmp_path, monkeypatch):
    write(tmp_path, 1)

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(training_state, "_prune", refuse)
    write(tmp_path, 2)
    assert last_good_checkpoint(tmp_path).step == 2


def test_truncated_checkpoints_do_not_count_as_kept(tmp_path):
    write(tmp_path, 1, 2)
    (tmp_path / "checkpoint-2" / "tensors.safetensors").write_bytes(b"")
    write(tmp_path, 3)
    assert present(tmp_path) == ["checkpoint-1", "checkpoint-2", "checkpoint-3"]
    write(tmp_path, 4)
    assert present(tmp_path) == ["checkpoint-2", "checkpoint-3", "checkpoint-4"]


# --- Damage --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tensors.safetensors", "state.json", MANIFEST])
def test_a_checkpoint_truncated_or_altered_anywhere_is_detected(tmp_path, name):
    write(tmp_path, 5)
    path = tmp_path / "checkpoint-5" / name
    raw = path.read_bytes()
    for position in range(0, len(raw), 7):
        path.write_bytes(raw[:position])
        with pytest.raises(FolderError, match=name):
            read_checkpoint(path.parent)
        altered = bytearray(raw)
        altered[position] ^= 0x80
        path.write_bytes(altered)
        with pytest.raises(FolderError, match=name):
            read_checkpoint(path.parent)
    path.unlink()
    with pytest.raises(FolderError):
        read_checkpoint(path.parent)


@pytest.mark.parametrize(
    ("name", "text"),
    [("state.json", "{"), ("state.json", "[]"), ("state.json", '{"step": 5}'), ("tensors.safetensors", "{}")],
)
def test_the_error_names_the_file_that_cannot_be_read(tmp_path, name, text):
    """The manifest is correct, so the damage is in what was written."""
    write(tmp_path, 5)
    source = tmp_path / "checkpoint-5"
    contents = {file: content_of((source / file).read_bytes()) for file in ("state.json", "tensors.safetensors")}
    with staged_folder(tmp_path, {**contents, name: content_of(text)}) as staged:
        put_folder(staged, tmp_path / "altered")
    with pytest.raises(FolderError) as caught:
        read_checkpoint(tmp_path / "altered")
    assert caught.value.path == tmp_path / "altered" / name


def test_damaged_newer_ones_are_skipped_with_a_message_and_kept(tmp_path):
    write(tmp_path, 1, 2, 3, keep=9)
    damage(tmp_path / "checkpoint-3")
    (tmp_path / "checkpoint-2" / MANIFEST).unlink()
    back = last_good_checkpoint(tmp_path)
    assert back.step == 1
    assert len(back.skipped) == 2
    assert "checkpoint-3" in back.skipped[0] and "tensors.safetensors" in back.skipped[0]
    assert "checkpoint-2" in back.skipped[1] and MANIFEST in back.skipped[1]
    assert present(tmp_path) == ["checkpoint-1", "checkpoint-2", "checkpoint-3"]


def test_an_error_is_raised_if_all_checkpoints_are_damaged(tmp_path):
    write(tmp_path, 1, 2)
    damage(tmp_path / "checkpoint-1")
    damage(tmp_path / "checkpoint-2", "state.json")
    with pytest.raises(FolderError):
        last_good_checkpoint(tmp_path)


def test_a_damaged_checkpoint_of_the_same_step_is_renamed(tmp_path):
    write(tmp_path, 1, 2)
    for _ in range(2):
        damage(tmp_path / "checkpoint-2")
        assert last_good_checkpoint(tmp_path).step == 1
        write(tmp_path, 2)
    assert present(tmp_path) == ["checkpoint-1", "checkpoint-2", "checkpoint-2.damaged", "checkpoint-2.damaged-2"]
    assert last_good_checkpoint(tmp_path).skipped == []


def test_a_good_checkpoint_of_the_same_step_is_replaced(tmp_path):
    write(tmp_path, 2)
    write_checkpoint(tmp_path, 2, tensors={}, state={"second": True})
    assert present(tmp_path) == ["checkpoint-2"]
    assert last_good_checkpoint(tmp_path).state == {"second": True}


def test_an_interrupted_replacement_is_valid_and_can_be_replaced(tmp_path):
    write(tmp_path, 2)
    write_checkpoint(tmp_path / "other", 2, tensors={}, state={"second": True})
    (tmp_path / "other" / "checkpoint-2").rename(tmp_path / "checkpoint-2" / COMMIT)
    assert last_good_checkpoint(tmp_path).state == {"second": True}
    (tmp_path / "checkpoint-2" / COMMIT / "state.json").replace(tmp_path / "checkpoint-2" / "state.json")
    assert last_good_checkpoint(tmp_path).state == {"second": True}, "killed while the files moved to their places"
    write_checkpoint(tmp_path, 2, tensors={}, state={"third": True})
    assert last_good_checkpoint(tmp_path).state == {"third": True}
    assert present(tmp_path / "checkpoint-2") == sorted(["state.json", "tensors.safetensors", MANIFEST])


def test_a_successor_from_an_older_version_is_the_valid_checkpoint(tmp_path):
    write(tmp_path, 1, 2)
    write_checkpoint(tmp_path / "other", 2, tensors={}, state={"second": True})
    successor = (tmp_path / "other" / "checkpoint-2").rename(tmp_path / "checkpoint-2.new")
    back = last_good_checkpoint(tmp_path)
    assert (back.path, back.state) == (successor, {"second": True})
    damage(successor, "state.json")
    back = last_good_checkpoint(tmp_path)
    assert (back.path.name, len(back.skipped)) == ("checkpoint-2", 1)


def test_the_next_checkpoint_of_the_step_replaces_a_successor(tmp_path):
    write(tmp_path, 2)
    (tmp_path / "checkpoint-2").rename(tmp_path / "checkpoint-2.new")
    write_checkpoint(tmp_path, 2, tensors={}, state={"third": True})
    assert present(tmp_path) == ["checkpoint-2"]
    assert last_good_checkpoint(tmp_path).state == {"third": True}


def test_a_successor_is_pruned_and_a_damaged_one_is_kept(tmp_path):
    write(tmp_path, 1, 2)
    for step in (1, 2):
        (tmp_path / f"checkpoint-{step}").rename(tmp_path / f"checkpoint-{step}.new")
    write(tmp_path, 3)
    assert present(tmp_path) == ["checkpoint-2.new", "checkpoint-3"]
    damage(tmp_path / "checkpoint-2.new")
    write(tmp_path, 2)
    assert present(tmp_path) == ["checkpoint-2", "checkpoint-2.new.damaged", "checkpoint-3"]


def test_later_checkpoints_are_never_changed(tmp_path):
    write(tmp_path, 50)
    write(tmp_path, 3, 4, 5)
    assert present(tmp_path) == ["checkpoint-4", "checkpoint-5", "checkpoint-50"]


def test_the_step_comes_from_the_state_file_not_from_the_name(tmp_path):
    write(tmp_path, 7)
    (tmp_path / "checkpoint-7").rename(tmp_path / "best")
    assert read_checkpoint(tmp_path / "best").step == 7


def test_paths_that_are_not_checkpoints(tmp_path):
    with pytest.raises(FolderError):
        read_checkpoint(tmp_path / "nowhere")
    with pytest.raises(FolderError):
        read_checkpoint(tmp_path)


def test_a_checkpoint_pruned_while_it_is_read_is_not_reported_as_damaged(tmp_path, monkeypatch):
    write(tmp_path, 1, 2)
    real = training_state.read_checkpoint
    calls = []

    def pruned_meanwhile(path):
        calls.append(path.name)
        if len(calls) == 1:
            write(tmp_path, 3, 4)
        return real(path)

    monkeypatch.setattr(training_state, "read_checkpoint", pruned_meanwhile)
    back = last_good_checkpoint(tmp_path)
    assert back.step == 4
    assert back.skipped == []


def test_the_state_is_readable_json(tmp_path):
    write(tmp_path, 7)
    record = json.loads((tmp_path / "checkpoint-7" / "state.json").read_text(encoding="utf-8"))
    assert record == {"step": 7, "state": {"epoch": 1.0}}
