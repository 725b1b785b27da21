"""`regard`: help, version, unknown names, exit codes, listings, and closed or full outputs."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from regard.cli.main import VERBS
from regard.registry import architectures, tasks

Run = Callable[..., Any]
OWN_ARGUMENTS = {"tasks": "Listing", "models": "Listing", "doctor": "Listing"}


def words(text: str) -> str:
    """Help text without frames and line breaks."""
    return " ".join(text.replace("│", " ").split())


def flag(name: str) -> str:
    return "--" + name.rstrip("_").replace("_", "-")


def fields_of(verb: str) -> Iterator[dataclasses.Field[Any]]:
    module = importlib.import_module(f"regard.cli.{VERBS[verb][0] if verb in VERBS else 'predict'}")
    name = OWN_ARGUMENTS.get(verb, f"{verb.title() if verb in VERBS else 'Predict'}Arguments")
    yield from dataclasses.fields(getattr(module, name))


# --- Help ---------------------------------------------------------------------------------------------------


def test_help_lists_every_command_and_task(regard: Run) -> None:
    for arguments in ((), ("--help",), ("-h",), ("help",)):
        done = regard(*arguments)
        assert (done.code, done.err) == (0, "")
        listed = [line.split()[0] for line in done.out.splitlines() if line.startswith("  ")]
        assert listed == [*VERBS, *tasks]


def test_version(regard: Run) -> None:
    assert regard("--version") == (0, f"regard {version('regard')}\n", "")


@pytest.mark.parametrize("verb", [*VERBS, *tasks])
def test_help_shows_every_flag_with_its_description(regard: Run, verb: str) -> None:
    done = regard(verb, *(["translate"] if verb == "train" else []), "--help")
    assert (done.code, done.err) == (0, "")
    shown = words(done.out)
    for field in fields_of(verb):
        positional = "Positional" in str(field.type)
        name = (field.metadata.get("name") or field.name).rstrip("_")
        assert (field.name.upper() if positional else flag(name)) in done.out
        assert words(field.metadata["help"]) in shown, field.name
    assert "--json" in done.out
    if verb in tasks:
        for name, info in tasks[verb].predict_config.model_fields.items():
            assert flag(name) in shown and words(info.description or "?") in shown, name


@pytest.mark.parametrize("task", [name for name in tasks if tasks[name].trainable])
def test_help_of_training_shows_every_setting(regard: Run, task: str) -> None:
    shown = words(regard("train", task, "--help").out)
    spec = tasks[task]
    architecture = architectures[spec.default_architecture]
    assert spec.train_config is not None
    fixed = spec.fixed | architecture.fixed
    settings = {
        **architecture.config.model_fields,
        **spec.predict_config.model_fields,
        **spec.train_config.model_fields,
    }
    for name, info in settings.items():
        if name in fixed and name not in spec.train_config.model_fields:
            assert f"{flag(name)} " not in shown, name
        elif name not in fixed and "dict" not in str(info.annotation) and "Mapping" not in str(info.annotation):
            assert flag(name) in shown and words(info.description or "?") in shown, name


# --- Listings -----------------------------------------------------------------------------------------------


def test_tasks_are_listed(regard: Run) -> None:
    done = regard("tasks", "--json")
    assert done.code == 0
    listed = {entry["name"]: entry for entry in json.loads(done.out)}
    assert list(listed) == list(tasks)
    classify = listed["classify"]
    assert classify["inputs"] == ["text"]
    assert classify["outputs"][0] == "label"
    assert classify["models"][0] == "bert"
    assert (classify["package"], classify["trainable"]) == ("regard", True)
    assert "learning_rate" in classify["schema"]["training"]["properties"]
    assert listed["embed"]["trainable"] is False
    text = regard("tasks").out
    assert all(f"{name}: {tasks[name].summary}" in text for name in tasks)


def test_architectures_are_listed(regard: Run) -> None:
    listed = {entry["name"]: entry for entry in json.loads(regard("models", "--json").out)}
    assert list(listed) == list(architectures)
    assert "tiny" in listed["bert"]["presets"]
    assert "encoder" in listed["bert"]["capabilities"]
    assert "d_model" in listed["bert"]["schema"]["properties"]
    text = regard("models").out
    assert all(f"{name}: {architectures[name].summary}" in text for name in architectures)


# --- Wrong usage --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["trian"], "'train'"),
        (["clasify", "x", "y"], "'classify'"),
        (["train", "translat"], "'translate'"),
        (["plan", "transformer-bas"], "'transformer-base'"),
        (["train", "translate", "--out", "x", "--size", "smal"], "'small'"),
        (["train", "translate", "--out", "x", "--recipe", "papre"], "'paper'"),
        (["train", "translate", "--out", "x", "--device", "gpu"], "auto, cpu, cuda, mps"),
        (["train", "translate", "--out", "x", "--device", "cuda:77"], "cpu"),
        (["train", "translate", "--out", "x", "--step", "3"], "--steps"),
        (["train", "translate", "--out", "x", "--norm", "batch"], "rms"),
        (["train", "translate", "--out", "x", "--steps", "three"], "three"),
        (["train", "translate", "--out", "x", "--steps", "3", "--minutes", "3"], "--minutes"),
        (["train", "translate", "--out", "x", "--save-every", "0"], "save_every"),
        (["train", "translate", "--out", "x", "--validation", "y.tsv"], "--validation"),
        (["translate", "x", "y", "--beam", "3"], "--num-beams"),
        (["look", "x"], "x"),
        (["translate"], "MODEL"),
        (["doctor", "--jsno"], "--json"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_gets_a_hint(
    regard: Run, arguments: list[str], hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = regard(*arguments)
    assert (done.code, done.out) == (2, "")
    assert hint in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("verb", ["look", "tokens"])
def test_a_file_name_that_is_too_long(regard: Run, model: Path, verb: str, tmp_path: Path) -> None:
    done = regard(verb, model, "one two", "--out", tmp_path / ("x" * 300 + ".html"))
    assert (done.code, "x" * 300 in done.err) == (1, True)


# --- Processes ----------------------------------------------------------------------------------------------


def start(*arguments: object, **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "regard", *map(str, arguments)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        **{"stderr": subprocess.PIPE, **options},
    )


def test_a_filter_between_other_programs(model: Path) -> None:
    process = start("translate", model, "--num-beams", 1, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    out, err = process.communicate(b"one two three four\n\nfive\n", timeout=600)
    assert process.returncode == 0, err
    assert out.count(b"\n") == 3
    assert err.count(b"\n") == 1, "one note on the line without text"


@pytest.mark.skipif(os.name == "nt", reason="pipes close in another way on this system")
@pytest.mark.parametrize("arguments", [("--help",), ("models",)])
def test_a_closed_pipe_is_no_failure(arguments: tuple[str, ...]) -> None:
    """As in `regard … | head -0`: the reading end is closed before anything is written."""
    receive, send = os.pipe()
    process = start(*arguments, stdout=send)
    os.close(send)
    os.close(receive)
    _, err = process.communicate(timeout=600)
    assert (process.returncode, err) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_output_that_cannot_be_written_is_a_failure() -> None:
    with Path("/dev/full").open("wb") as full:
        process = start("--version", stdout=full)
        _, err = process.communicate(timeout=600)
    assert process.returncode == 1
    assert b"No space left on device" in err
    assert b"Traceback" not in err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_messages_that_cannot_be_written_change_no_exit_code(tmp_path: Path) -> None:
    out, small = tmp_path / "m", ("--d-model", 16, "--num-heads", 1, "--d-ff", 16, "--num-layers", 1)
    training = ("train", "classify", "--out", out, "--steps", 2, "--vocab-size", 200, *small)
    with Path("/dev/full").open("wb") as full:
        for arguments, code in (((*training, "--json"), 0), (("nothing",), 2)):
            process = start(*arguments, stdout=subprocess.PIPE, stderr=full)
            printed, _ = process.communicate(timeout=600)
            assert process.returncode == code
            assert (json.loads(printed)["step"] if printed else None) == (None if code else 2)
    assert (out / "model.safetensors").is_file()


@pytest.mark.skipif(os.name == "nt", reason="this system has no exit codes of signals")
def test_ctrl_c_while_waiting_for_a_line(model: Path) -> None:
    """After the first line of output the process only waits for input."""
    process = start("translate", model, "--num-beams", 1, "--stream", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(b"one two three four\n")
    process.stdin.flush()
    assert process.stdout.readline().strip(), "a stream answers before its input ends"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=600)
    assert process.returncode == 130
    assert b"Traceback" not in err
