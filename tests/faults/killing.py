"""Kills a training with SIGKILL at random moments and resumes it each time; prints what it observed as JSON.

A script, run by test_kill_and_resume.py. Importing torch takes seconds, so it is imported once, and every attempt is a
fork of this process that runs the command line's own `main`. A kill comes at a random time after the start, which hits
reading, resuming and the first steps; or at a random time after a random step was logged by the attempt, which hits
steps and checkpoints in the middle. An attempt that is to be killed never ends by itself: near the end of the
training
it waits for the kill. So no outcome depends on the speed of the machine.

usage: killing.py <folder for the killed run> <kills> <seed> <save-every> <arguments of regard train …>
"""

from __future__ import annotations

import itertools
import json
import math
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch._dynamo  # noqa: F401  (torch's optimizers import it; this and the next ones are here for the forks)

import regard.tasks.generate.objective
import regard.tasks.translate.objective
import regard.training.run  # noqa: F401
from regard.checkpoint.training_state import last_good_checkpoint
from regard.cli.main import main
from regard.training.callbacks import ProgressReporter
from regard.training.progress import METRICS, read_metrics
from regard.training.trainer import Trainer

POLL = 0.005
EARLY_SHARE = 0.25  # of the kills come at a random time after the start, whatever the step
EARLY_SECONDS = 0.6
LATE_SECONDS = 0.05  # about a step and a save
LAST_KILL = 0.7  # of the steps: no late kill is planned after it
HOLD = 0.8  # of the steps: here an attempt waits to be killed


class Attempt:
    """One process of the training; with `hold_at` it stops at a step and waits."""

    def __init__(self, arguments: list[str], log: Path, *, hold_at: float = math.inf) -> None:
        self.log = log
        self.pid = os.fork()
        if self.pid == 0:
            stream = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(stream, 1)
            os.dup2(stream, 2)
            hold(hold_at)
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

    def printed(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")


def hold(step: float) -> None:
    """Let the trainer of this process wait for ever at a step, before the checkpoint of that step."""
    report = ProgressReporter.on_step_end

    def on_step_end(self: ProgressReporter, trainer: Trainer) -> None:
        report(self, trainer)
        while trainer.state.step >= step:
            time.sleep(POLL)

    ProgressReporter.on_step_end = on_step_end  # type: ignore[method-assign]


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


def wait_for(attempt: Attempt, run: Path, step: int, *, resumes: bool) -> None:
    """Until the step is logged: by this attempt, if it `resumes`, since an earlier one may have come further."""
    while not attempt.is_over() and resumes and "resuming from step" not in attempt.printed():
        time.sleep(POLL)
    while not attempt.is_over() and last_row(run)["step"] < step:
        time.sleep(POLL)


def kill_often(
    run: Path, arguments: list[str], *, kills: int, steps: int, random_: random.Random
) -> list[dict[str, object]]:
    """Kill and resume; what was observed of each attempt."""
    early = set(random_.sample(range(kills), round(EARLY_SHARE * kills)))
    late_steps = iter(sorted(random_.sample(range(1, int(LAST_KILL * steps)), kills - len(early))))
    attempts: list[dict[str, object]] = []
    for number in range(kills):
        before = last_good_checkpoint(run)
        attempt = Attempt([*arguments, "--resume"], run.parent / "attempt.log", hold_at=HOLD * steps)
        if number in early:
            time.sleep(EARLY_SECONDS * random_.random())
        else:
            wait_for(attempt, run, next(late_steps), resumes=before is not None)
            time.sleep(LATE_SECONDS * random_.random())
        killed = attempt.kill()
        after = last_good_checkpoint(run)
        rows = read_metrics(run)
        at = [0.0, *(row["seconds"] for row in rows)]
        attempts.append(
            {
                "killed": killed,
                "early": number in early,
                "started_with": before.step if before else None,
                "printed": attempt.printed(),
                "checkpoint_step": after.step if after else 0,
                "checkpoint_seconds": after.state["train_state"]["seconds"] if after else 0.0,
                "damaged": list(after.skipped) if after else [],
                "last_seconds": at[-1],
                "slowest_step": max((b - a for a, b in itertools.pairwise(at)), default=0.0),
            }
        )
    return attempts


def run_all(folder: Path, kills: int, seed: int, save_every: str, arguments: list[str]) -> dict[str, object]:
    steps = int(arguments[arguments.index("--steps") + 1])
    straight, killed = folder / "straight", folder / "killed"
    plain = Attempt([*arguments, "--out", str(straight)], folder / "straight.log")
    if plain.wait() != 0:
        return {"failed": plain.printed()}
    killed.mkdir()
    often = [*arguments, "--out", str(killed), "--save-every", save_every]
    attempts = kill_often(killed, often, kills=kills, steps=steps, random_=random.Random(seed))
    last = Attempt([*often, "--resume"], folder / "last.log")
    if last.wait() != 0:
        return {"failed": last.printed()}
    return {"attempts": attempts, "last": last.printed()}


if __name__ == "__main__":
    place, number, random_seed, saving, *rest = sys.argv[1:]
    print(json.dumps(run_all(Path(place), int(number), int(random_seed), saving, rest)))
