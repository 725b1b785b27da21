"""A training that is killed, or stopped with Ctrl-C, and resumed ends with the very weights of one that was not.

The many kills are made by killing.py, which forks the lives of a training from one interpreter: twenty of a translator,
some of a language model that begins anew, goes on from a folder, or learns adapters beside one. The other tests start
the command line as a user does.
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

from regard.checkpoint.atomic import is_temporary
from regard.checkpoint.training_state import last_good_checkpoint
from regard.training.metrics_log import read_metrics

SAVE_EVERY = 0.1
SEED = 20


class Case(NamedTuple):
    """A kind of training, and how it is attacked."""

    kills: int
    steps: int
    weights: str = "model.safetensors"


CASES = {
    "translate": Case(kills=20, steps=180),
    "generate": Case(kills=6, steps=60),
    "generate-from": Case(kills=6, steps=60),
    "generate-lora": Case(kills=6, steps=60, weights="adapter.safetensors"),
}
STEPS = CASES["translate"].steps

Start = Callable[..., "subprocess.Popen[str]"]

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
needs_signals = pytest.mark.skipif(os.name == "nt", reason="this system sends no POSIX signals")


class Attacked(NamedTuple):
    case: Case
    folder: Path  # with an uninterrupted run and a killed one
    seen: Any  # of each life

    @property
    def lives(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.seen["lives"]
        return found


@pytest.fixture(scope="module")
def trainings(pairs_file: Path, small: list[str], text_file: Path, small_writer: list[str], base: Path) -> Any:
    """What is typed for each case, without its steps and its folder."""
    going_on = ["train", "generate", str(text_file), "--from", str(base), "--batch-tokens", "512", "--log-every", "1"]
    return {
        "translate": ["train", "translate", str(pairs_file), *small],
        "generate": ["train", "generate", str(text_file), *small_writer],
        "generate-from": [*going_on, "--dropout", "0.1"],
        "generate-lora": [*going_on, "--lora", "--lora-rank", "3"],
    }


@pytest.fixture(scope="module", params=list(CASES))
def attacked(request: pytest.FixtureRequest, trainings: Any, tmp_path_factory: pytest.TempPathFactory) -> Attacked:
    return attack(request.param, trainings, tmp_path_factory)


def attack(name: str, trainings: dict[str, list[str]], tmp_path_factory: pytest.TempPathFactory) -> Attacked:
    """Train once without a stop and once with many kills."""
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
    seen = json.loads(done.stdout)
    assert "failed" not in seen, seen["failed"]
    return Attacked(case, folder, seen)


@needs_fork
def test_kills_change_no_bit_of_the_weights(attacked: Attacked) -> None:
    assert [life["killed"] for life in attacked.lives] == [True] * attacked.case.kills
    for name in (attacked.case.weights, "tokenizer.json"):
        killed, straight = ((attacked.folder / run / name).read_bytes() for run in ("killed", "straight"))
        assert killed == straight


@needs_fork
def test_every_life_goes_on_from_the_last_good_checkpoint(attacked: Attacked) -> None:
    resumed = 0
    for life in attacked.lives:
        assert life["damaged"] == []
        assert "Traceback" not in life["said"]
        if life["began_with"] is not None:
            assert life["began_with"] > 0
            assert "starting from step 0" not in life["said"]
            assert life["checkpoint_step"] >= life["began_with"]
        if "going on from step" in life["said"]:
            assert f"going on from step {life['began_with']:,} (" in life["said"]
            resumed += 1
    assert resumed >= attacked.case.kills // 3, "too many kills came before the training went on"
    assert f"going on from step {attacked.lives[-1]['checkpoint_step']:,} (" in attacked.seen["last"]


@needs_fork
def test_a_kill_loses_no_more_than_the_time_between_checkpoints(attacked: Attacked) -> None:
    """A step and the writing of a checkpoint come on top of --save-every; under load both can be slow."""
    for life in attacked.lives:
        lost = life["last_seconds"] - life["checkpoint_seconds"]
        assert lost <= SAVE_EVERY + 2 * life["slowest_step"] + 0.02, life
    assert any(life["last_step"] > life["checkpoint_step"] for life in attacked.lives), "no kill came between two saves"


@needs_fork
def test_metrics_are_those_of_the_uninterrupted_run_without_a_step_twice(attacked: Attacked) -> None:
    clocks = ("seconds", "tokens_per_second")
    killed, straight = (
        [
            {name: value for name, value in row.items() if name not in clocks}
            for row in read_metrics(attacked.folder / run)
        ]
        for run in ("killed", "straight")
    )
    assert [row["step"] for row in killed] == list(range(1, attacked.case.steps + 1))
    assert killed == straight


@needs_fork
def test_nothing_temporary_is_left_after_many_kills(attacked: Attacked) -> None:
    assert [path for path in (attacked.folder / "killed").rglob("*") if is_temporary(path.name)] == []


# --- The command line as a user starts it ---------------------------------------------------------------------


def wait_for_step(run: Path, step: int, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while not any(row["step"] >= step for row in read_metrics(run)):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "the training does not come forward"
        time.sleep(0.01)


@needs_signals
def test_a_process_that_is_killed_and_one_that_gets_ctrl_c_end_as_the_uninterrupted_one(
    pairs_file: Path, small: list[str], start: Start, tmp_path: Path
) -> None:
    """Each process is started, stopped and resumed; the weights are those of a process that was left alone."""
    training = ["train", "translate", pairs_file, "--steps", STEPS, *small]
    straight = start(*training, "--out", tmp_path / "straight")
    ends = {"killed": signal.SIGKILL, "interrupted": signal.SIGINT}
    said = {}
    for name, number in ends.items():
        run = tmp_path / name
        process = start(*training, "--out", run, "--save-every", SAVE_EVERY if name == "killed" else 60)
        wait_for_step(run, 20, process)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        said[name] = (process.returncode, out, err)
    assert said["killed"][0] == -signal.SIGKILL
    code, out, err = said["interrupted"]
    assert code == 130
    assert out == ""
    assert "stopped by Ctrl-C after step" in err
    assert "is saved. Go on with:\n" in err
    assert err.endswith("--resume\n")
    assert "Traceback" not in err
    assert not (tmp_path / "interrupted" / "model.safetensors").exists()
    _, err = straight.communicate(timeout=180)
    assert straight.returncode == 0, err
    stopped_at = max(row["step"] for row in read_metrics(tmp_path / "interrupted"))
    for name in ends:
        run = tmp_path / name
        process = start(*training, "--out", run, "--resume")
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert "going on from step" in err
        assert f"model: {run}" in out
        assert [row["step"] for row in read_metrics(run)] == list(range(1, STEPS + 1))
        left_alone = tmp_path / "straight" / "model.safetensors"
        assert (run / "model.safetensors").read_bytes() == left_alone.read_bytes()
        if name == "interrupted":
            assert f"going on from step {stopped_at:,} (" in err, "Ctrl-C must lose no step"


@needs_signals
def test_threads_that_share_the_rows_and_draw_other_pieces_go_on_exactly(
    pairs_file: Path, small: list[str], start: Start, tmp_path: Path
) -> None:
    """Dropout and the cuts of words are drawn by two threads; a kill in the middle changes none of it."""
    steps = 40
    drawn = ["--batch-tokens", 4096, "--dropout", 0.2, "--piece-dropout", 0.2]
    training = ["train", "translate", pairs_file, "--steps", steps, *small, *drawn]
    killed, straight = tmp_path / "killed", tmp_path / "straight"
    process = start(*training, "--out", killed, "--save-every", SAVE_EVERY, threads=2)
    wait_for_step(killed, 15, process)
    process.kill()
    process.communicate(timeout=60)
    runs = [start(*training, "--out", killed, "--resume", threads=2), start(*training, "--out", straight, threads=2)]
    for process in runs:
        _, err = process.communicate(timeout=180)
        assert process.returncode == 0, err
    state = last_good_checkpoint(straight)
    assert state is not None
    assert state.state["machine"]["shares"] == 2
    assert (killed / "model.safetensors").read_bytes() == (straight / "model.safetensors").read_bytes()
