"""A training that is killed, or stopped with Ctrl-C, and resumed ends with the weights of an uninterrupted one.

Many kills are made by killing.py, which forks all attempts from one interpreter: twenty for a translator, some for a
language model that is new, starts from pretrained weights, or trains adapters. The other tests start the command line
as a user does.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from regard.checkpoint.training_state import last_good_checkpoint
from regard.training.callbacks import read_metrics
from regard.utils.atomic_files import is_temporary

SAVE_EVERY = 3  # seconds; killing.py's clock advances by one second per step
SEED = 20


class Case(NamedTuple):
    """A training command, and the number of kills."""

    kills: int
    steps: int
    weights: str = "model.safetensors"


CASES = {
    "translate": Case(kills=20, steps=180),
    "generate": Case(kills=6, steps=60),
    "generate-from": Case(kills=6, steps=60),
    "generate-lora": Case(kills=6, steps=60, weights="adapter.safetensors"),
}

Start = Callable[..., "subprocess.Popen[str]"]
ResumedStep = Callable[[str], int | None]

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
needs_signals = pytest.mark.skipif(os.name == "nt", reason="this system sends no POSIX signals")


class Killed(NamedTuple):
    case: Case
    folder: Path  # with an uninterrupted run and a killed one
    observed: Any

    @property
    def attempts(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.observed["attempts"]
        return found


@pytest.fixture(scope="module")
def trainings(pairs_file: Path, small: list[str], text_file: Path, small_text_generator: list[str], base: Path) -> Any:
    """The command of each case, without its steps and its folder."""
    pretrained = ["train", "generate", str(text_file), "--from", str(base), "--batch-tokens", "512", "--log-every", "1"]
    return {
        "translate": ["train", "translate", str(pairs_file), *small],
        "generate": ["train", "generate", str(text_file), *small_text_generator],
        "generate-from": [*pretrained, "--dropout", "0.1"],
        "generate-lora": [*pretrained, "--lora", "--lora-rank", "3"],
    }


@pytest.fixture(scope="module", params=list(CASES))
def killed_often(request: pytest.FixtureRequest, trainings: Any, tmp_path_factory: pytest.TempPathFactory) -> Killed:
    return kill_often(request.param, trainings, tmp_path_factory)


def kill_often(name: str, trainings: dict[str, list[str]], tmp_path_factory: pytest.TempPathFactory) -> Killed:
    """Train once without a kill and once with many."""
    case, folder = CASES[name], tmp_path_factory.mktemp(name)
    training = [*trainings[name], "--steps", str(case.steps)]
    script = Path(__file__).with_name("killing.py")
    done = subprocess.run(
        [sys.executable, str(script), str(folder), str(case.kills), str(SEED), str(SAVE_EVERY), *training],
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    observed = json.loads(done.stdout)
    assert "failed" not in observed, observed["failed"]
    return Killed(case, folder, observed)


@needs_fork
def test_kills_change_no_bit_of_the_weights(killed_often: Killed) -> None:
    assert [attempt["killed"] for attempt in killed_often.attempts] == [True] * killed_often.case.kills
    for name in (killed_often.case.weights, "tokenizer.json"):
        killed, straight = ((killed_often.folder / run / name).read_bytes() for run in ("killed", "straight"))
        assert killed == straight


@needs_fork
def test_every_attempt_resumes_from_the_last_good_checkpoint(killed_often: Killed, resumed_step: ResumedStep) -> None:
    for attempt in killed_often.attempts:
        assert attempt["damaged"] == []
        assert "Traceback" not in attempt["printed"]
        if attempt["started_with"] is not None:
            assert attempt["checkpoint_step"] >= attempt["started_with"]
            resumed = resumed_step(attempt["printed"])
            assert resumed == attempt["started_with"] or (resumed is None and attempt["early"]), attempt
    assert resumed_step(killed_often.observed["last"]) == killed_often.attempts[-1]["checkpoint_step"]


@needs_fork
def test_a_kill_loses_no_more_than_the_time_between_checkpoints(killed_often: Killed) -> None:
    for attempt in killed_often.attempts:
        assert attempt["last_step"] - attempt["checkpoint_step"] <= SAVE_EVERY, attempt


@needs_fork
def test_metrics_are_those_of_the_uninterrupted_run_without_a_step_twice(killed_often: Killed) -> None:
    clocks = ("seconds", "tokens_per_second")
    killed, straight = (
        [
            {name: value for name, value in row.items() if name not in clocks}
            for row in read_metrics(killed_often.folder / run)
        ]
        for run in ("killed", "straight")
    )
    assert [row["step"] for row in killed] == list(range(1, killed_often.case.steps + 1))
    assert killed == straight


@needs_fork
def test_nothing_temporary_is_left_after_many_kills(killed_often: Killed) -> None:
    assert [path for path in (killed_often.folder / "killed").rglob("*") if is_temporary(path.name)] == []


# --- The command line as a user starts it ---------------------------------------------------------------------

HELD_STEP = 15
# `regard`, but the trainer waits at a step, before its checkpoint, until it is interrupted or killed.
HELD = f"""
import sys, time
from regard.cli.main import main
from regard.training.callbacks import ProgressReporter
report = ProgressReporter.on_step_end
def on_step_end(self, trainer):
    report(self, trainer)
    while trainer.state.step == {HELD_STEP} and not trainer.interrupted:
        time.sleep(0.01)
ProgressReporter.on_step_end = on_step_end
sys.exit(main(sys.argv[1:]))
"""


def wait_until_held(run: Path, process: subprocess.Popen[str]) -> None:
    while not any(row["step"] >= HELD_STEP for row in read_metrics(run)):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


@needs_signals
def test_a_killed_and_an_interrupted_process_end_as_an_uninterrupted_one(
    pairs_file: Path, small: list[str], start: Start, resumed_step: ResumedStep, tmp_path: Path
) -> None:
    steps = 40
    training = ["train", "translate", pairs_file, "--steps", steps, *small]
    straight = start(*training, "--out", tmp_path / "straight")
    for name, number in {"killed": signal.SIGKILL, "interrupted": signal.SIGINT}.items():
        run = tmp_path / name
        process = start(*training, "--out", run, "--save-every", 1e-9 if name == "killed" else 1e9, program=HELD)
        wait_until_held(run, process)
        process.send_signal(number)
        out, err = process.communicate()
        assert (process.returncode, out) == (-signal.SIGKILL if name == "killed" else 130, "")
        assert "Traceback" not in err
        assert not (run / "model.safetensors").exists()
        if name == "interrupted":
            assert err.endswith("--resume\n"), "the command that resumes"
    _, err = straight.communicate()
    assert straight.returncode == 0, err
    for name, step in {"killed": HELD_STEP - 1, "interrupted": HELD_STEP}.items():
        run = tmp_path / name
        process = start(*training, "--out", run, "--resume")
        out, err = process.communicate()
        assert process.returncode == 0, err
        assert resumed_step(err) == step
        assert f"model: {run}" in out
        assert [row["step"] for row in read_metrics(run)] == list(range(1, steps + 1))
        expected = (tmp_path / "straight" / "model.safetensors").read_bytes()
        assert (run / "model.safetensors").read_bytes() == expected


@needs_signals
def test_threads_that_share_a_batch_and_draw_random_numbers_resume_exactly(
    pairs_file: Path, small: list[str], start: Start, tmp_path: Path
) -> None:
    """Two threads draw dropout and BPE dropout; a kill does not change their random numbers."""
    random_draws = ["--batch-tokens", 4096, "--dropout", 0.2, "--bpe-dropout", 0.2]
    training = ["train", "translate", pairs_file, "--steps", 25, *small, *random_draws]
    killed, straight = tmp_path / "killed", tmp_path / "straight"
    process = start(*training, "--out", killed, "--save-every", 1e-9, threads=2, program=HELD)
    wait_until_held(killed, process)
    process.kill()
    process.communicate()
    runs = [start(*training, "--out", killed, "--resume", threads=2), start(*training, "--out", straight, threads=2)]
    for process in runs:
        _, err = process.communicate()
        assert process.returncode == 0, err
    state = last_good_checkpoint(straight)
    assert state is not None
    assert state.state["machine"]["shares"] == 2
    assert (killed / "model.safetensors").read_bytes() == (straight / "model.safetensors").read_bytes()
