"""The front door: help, version, unknown names, exit codes, and what happens at the end of a pipe."""

from __future__ import annotations

import dataclasses
import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from regard.cli.flags import field_comments
from regard.cli.main import VERBS
from regard.generation.settings import SearchConfig
from regard.models.transformer_settings import TransformerConfig
from regard.tasks.settings import TranslateConfig
from regard.training.settings import TrainingConfig

Run = Callable[..., Any]
ARGUMENTS = {"train": "Translate", "import": "Import", "export": "Export"}  # the rest call theirs Arguments
CONFIGS = (TrainingConfig, TranslateConfig, TransformerConfig, SearchConfig)
HIDDEN = {"vocab_size", "source_vocab_size", "heads_at", "architecture"}  # follow from the data, or are not for flags


def arguments_of(verb: str) -> type:
    module = importlib.import_module(f"regard.cli.{VERBS[verb][0]}")
    found: type = getattr(module, ARGUMENTS.get(verb, "Arguments"))
    return found


def flag(name: str) -> str:
    return "--" + name.rstrip("_").replace("_", "-")


def words(text: str) -> str:
    """Help text without frames and line breaks."""
    return " ".join(text.replace("│", " ").split())


def test_help_lists_every_command(regard: Run) -> None:
    for arguments in ((), ("--help",), ("-h",), ("help",)):
        said = regard(*arguments)
        assert said.code == 0
        assert said.err == ""
        assert all(f"\n  {verb}" in said.out for verb in VERBS)


def test_version(regard: Run) -> None:
    assert regard("--version") == (0, f"regard {version('regard')}\n", "")


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_a_command_shows_all_its_flags_with_their_meaning(regard: Run, verb: str) -> None:
    said = regard(verb, *(["translate"] if verb == "train" else []), "--help")
    assert said.code == 0
    assert said.err == ""
    shown = words(said.out)
    owner = arguments_of(verb)
    for field in dataclasses.fields(owner):
        positional = "Positional" in str(owner.__annotations__[field.name])
        assert (field.name.upper() if positional else flag(field.name)) in said.out
        assert words(field_comments(owner)[field.name]) in shown, field.name
    assert "{None}" not in said.out
    assert "--json" in said.out


def test_the_help_of_training_shows_every_setting(regard: Run) -> None:
    shown = words(regard("train", "translate", "--help").out)
    for owner in CONFIGS:
        for field in dataclasses.fields(owner):
            if field.name in HIDDEN:
                assert flag(field.name) + " " not in shown
            else:
                assert flag(field.name) in shown
                assert words(field_comments(owner)[field.name]) in shown, field.name


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["trian"], "Did you mean 'train'?"),
        (["train", "translat"], "Did you mean 'translate'?"),
        (["plan", "transformer-bas"], "Did you mean 'transformer-base'?"),
        (["plan", "tiny", "--recipe", "papper"], "Did you mean 'paper'?"),
        (["train", "translate", "--out", "x", "--size", "smal"], "Did you mean 'small'?"),
        (["train", "translate", "--out", "x", "--recipe", "papre"], "Did you mean 'paper'?"),
        (["train", "translate", "--out", "x", "--device", "gpu"], "Known: auto, cpu, cuda, mps"),
        (["train", "translate", "--out", "x", "--device", "cuda:77"], "Try --device cpu or auto"),
        (["train", "translate", "--out", "x", "--step", "3"], "--steps"),
        (["train", "translate", "--out", "x", "--norm", "batch"], "rms"),
        (["train", "translate", "--out", "x", "--steps", "three"], "three"),
        (["train", "translate", "--out", "x", "--steps", "3", "--minutes", "3"], "not both"),
        (["train", "translate", "--out", "x", "--save-every", "0"], "save_every must be more than 0"),
        (["train", "translate", "--out", "x", "--validation", "y.tsv"], "needs training files"),
        (["translate", "x", "y", "--beam", "3"], "--beams"),
        (["look", "x"], "TEXT"),
        (["translate"], "MODEL"),
        (["doctor", "--jsno"], "--json"),
    ],
)
def test_wrong_use_is_answered_with_what_was_meant(
    regard: Run, arguments: list[str], hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = regard(*arguments)
    assert said.code == 2
    assert said.out == ""
    assert hint in said.err
    assert list(tmp_path.iterdir()) == []


# --- A process of its own -------------------------------------------------------------------------------------


def start(*arguments: object, **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "regard", *map(str, arguments)],
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        **options,
    )


def test_a_filter_between_other_programs(model: Path) -> None:
    process = start("translate", model, "--beams", 1, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    out, err = process.communicate(b"one two three four\n\nfive\n", timeout=60)
    assert process.returncode == 0, err
    assert out.count(b"\n") == 3
    assert err == b""


@pytest.mark.skipif(os.name == "nt", reason="this system closes pipes in another way")
@pytest.mark.parametrize("arguments", [("--help",), ("plan", "tiny")])
def test_a_reader_who_leaves_is_no_failure(arguments: tuple[str, ...]) -> None:
    """As in `regard … | head -0`: the reading end is closed before anything is written."""
    receive, send = os.pipe()
    process = start(*arguments, stdout=send)
    os.close(send)
    os.close(receive)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert err == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_an_answer_that_cannot_be_written_is_a_failure_in_words() -> None:
    with Path("/dev/full").open("wb") as full:
        process = start("--version", stdout=full)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert b"the answer cannot be written: No space left on device" in err
    assert b"Traceback" not in err


@pytest.mark.skipif(os.name == "nt", reason="this system has no exit status of signals")
def test_ctrl_c_while_waiting_for_a_line(model: Path) -> None:
    import signal
    import time

    process = start("translate", model, "--beams", 1, "--stream", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"one two three four\n")
    process.stdin.flush()
    assert process.stdout.readline().strip(), "a stream answers before its input ends"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == b"regard: stopped by Ctrl-C.\n"


@pytest.mark.parametrize("verb", ["look", "tokens"])
def test_a_name_that_is_too_long_is_told_in_words(regard: Run, model: Path, verb: str, tmp_path: Path) -> None:
    said = regard(verb, model, "one two", "--out", tmp_path / ("x" * 300 + ".html"))
    assert said.code != 0
    assert "File name too long" in said.err
    assert "x" * 300 in said.err
