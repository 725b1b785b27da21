"""Kills a training with SIGKILL at random moments and resumes it each time; prints what it saw as JSON.

A script, run by test_kill_and_resume.py. Importing torch takes seconds, so it is imported once, and every life of
the training is a fork of this process that runs the command line's own `main`. A kill comes a random while after the
start, which hits reading, resuming and the first steps, or a random while after a random step, which hits steps
and checkpoints in the middle. This process looks, and never touches the run.

usage: killing.py <folder for the killed run> <kills> <seed> <save-every> <arguments of regard train …>
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch._dynamo  # noqa: F401  (torch's optimisers import it; this and the next ones are here for the forks)

import regard.cli.flags
import regard.training.translation
import regard.training.writing  # noqa: F401
from regard.checkpoint.training_state import last_good_checkpoint
from regard.cli.main import main
from regard.training.metrics_log import NAME as METRICS
from regard.training.metrics_log import read_metrics

POLL = 0.005
EARLY_SHARE = 0.25  # of the kills come a random while after the start, whatever the step
EARLY_SECONDS = 0.6
LATE_SECONDS = 0.05  # about a step and a save


class Life:
    """One run of the training in a child process."""

    def __init__(self, arguments: list[str], log: Path) -> None:
        self.log = log
        self.pid = os.fork()
        if self.pid == 0:
            stream = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(stream, 1)
            os.dup2(stream, 2)
            os._exit(main(arguments))
        self.code: int | None = None

    def is_over(self) -> bool:
        if self.code is None:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code is not None

    def wait(self) -> int:
        while not self.is_over():
            time.sleep(POLL)
        assert self.code is not None
        return self.code

    def kill(self) -> bool:
        """End it at once; False if it had ended by itself."""
        if self.is_over():
            return False
        os.kill(self.pid, signal.SIGKILL)
        return self.wait() == -signal.SIGKILL

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")


def last_row(run: Path) -> dict[str, float]:
    """The last whole line of metrics.jsonl, without reading the rest: the child needs the processor more."""
    try:
        with (run / METRICS).open("rb") as stream:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - 1000))
            lines = stream.read().decode("utf-8").split("\n")[:-1]
    except FileNotFoundError:
        lines = []
    found: dict[str, float] = json.loads(lines[-1]) if lines else {"step": 0, "seconds": 0.0}
    return found


def wait_for(life: Life, run: Path, step: int, *, resumes: bool) -> None:
    """Until the step is logged: by this life, where it `resumes`, since an earlier one may have come further."""
    while not life.is_over() and resumes and "going on from step" not in life.said():
        time.sleep(POLL)
    while not life.is_over() and last_row(run)["step"] < step:
        time.sleep(POLL)


def attack(run: Path, arguments: list[str], *, kills: int, steps: int, dice: random.Random) -> list[dict[str, object]]:
    """Kill and resume; what was seen of each life."""
    early = set(dice.sample(range(kills), round(EARLY_SHARE * kills)))
    # Rising steps, the last well before the end, so that no life can finish.
    moments = iter(sorted(dice.sample(range(1, int(0.9 * steps)), kills - len(early))))
    lives: list[dict[str, object]] = []
    for number in range(kills):
        before = last_good_checkpoint(run)
        life = Life([*arguments, "--resume"], run.parent / "life.log")
        if number in early:
            time.sleep(EARLY_SECONDS * dice.random())
        else:
            wait_for(life, run, next(moments), resumes=before is not None)
            time.sleep(LATE_SECONDS * dice.random())
        killed = life.kill()
        after = last_good_checkpoint(run)
        rows = read_metrics(run)
        at = [0.0, *(row["seconds"] for row in rows)]
        lives.append(
            {
                "killed": killed,
                "began_with": before.step if before else None,
                "said": life.said(),
                "checkpoint_step": after.step if after else 0,
                "checkpoint_seconds": after.state["position"]["seconds"] if after else 0.0,
                "damaged": list(after.skipped) if after else [],
                "last_step": rows[-1]["step"] if rows else 0,
                "last_seconds": at[-1],
                "slowest_step": max((b - a for a, b in itertools.pairwise(at)), default=0.0),
            }
        )
    return lives


def run_all(folder: Path, kills: int, seed: int, save_every: str, arguments: list[str]) -> dict[str, object]:
    steps = int(arguments[arguments.index("--steps") + 1])
    straight, killed = folder / "straight", folder / "killed"
    plain = Life([*arguments, "--out", str(straight)], folder / "straight.log")
    if plain.wait() != 0:
        return {"failed": plain.said()}
    killed.mkdir()
    often = [*arguments, "--out", str(killed), "--save-every", save_every]
    lives = attack(killed, often, kills=kills, steps=steps, dice=random.Random(seed))
    last = Life([*often, "--resume"], folder / "last.log")
    if last.wait() != 0:
        return {"failed": last.said()}
    return {"lives": lives, "last": last.said()}


if __name__ == "__main__":
    place, number, dice_seed, saving, *rest = sys.argv[1:]
    print(json.dumps(run_all(Path(place), int(number), int(dice_seed), saving, rest)))
