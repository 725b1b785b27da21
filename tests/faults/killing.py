"""Kills a training run with SIGKILL at random moments and resumes it each time; prints its observations as JSON.

test_kill_and_resume.py runs this script. Importing torch takes seconds, so the script imports it once, and each attempt
is a fork that runs the command line's own `main`. An attempt kills itself at a random function call: an early kill
counts calls from the start, which hits reading and resuming; a late kill counts calls from the end of a random step, or
from the start of the next checkpoint. An attempt that reaches HOLD kills itself there. The trainer's clock advances by
one second per step. So no outcome depends on the speed of the machine.

usage: killing.py <folder for the killed run> <kills> <seed> <save-every> <arguments of regard train …>
"""

from __future__ import annotations

import json
import math
import os
import random
import signal
import sys
from pathlib import Path
from typing import NamedTuple

import torch._dynamo  # noqa: F401  (torch's optimizers import it; this and the next ones are here for the forks)

import regard.tasks.generate.objective
import regard.tasks.translate.objective
import regard.training.run  # noqa: F401
from regard.checkpoint.training_state import last_good_checkpoint
from regard.cli.main import main
from regard.training.callbacks import ProgressReporter, read_metrics
from regard.training.trainer import Trainer
from regard.utils.atomic_files import is_temporary

EARLY_FRACTION = 0.25  # of the kills count calls from the start
EARLY_CALLS = 200_000  # more than reading the data and a few steps take
LATE_CALLS = 20_000  # more than a step takes
SAVE_CALLS = 6_000  # about as many as a checkpoint takes
LAST_KILL = 0.7  # of the steps: no late kill is planned after it
HOLD = 0.8  # of the steps: an attempt gets no further


class KillPoint(NamedTuple):
    """The moment of a kill: a number of function calls after a step has ended, or after the start (step 0).

    With `in_save`, the calls are counted from the start of the first checkpoint after the step.
    """

    step: float = math.inf
    calls: int = 0
    in_save: bool = False


NEVER = KillPoint()


class StepClock:
    """A clock for the trainer that counts steps as seconds."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def kill_after(calls: int) -> None:
    """Kill this process at the given number of function calls from now, Python's and C's."""

    def count(frame: object, event: str, _: object) -> None:
        nonlocal calls
        calls -= event in ("call", "c_call")
        if calls <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)


def arm(point: KillPoint, *, hold: float) -> None:
    """Kill this process at the given point, at step `hold` at the latest; time passes by steps."""
    clock, report, save = StepClock(), ProgressReporter.on_step_end, Trainer.save
    Trainer.__init__.__kwdefaults__["clock"] = clock  # type: ignore[misc]
    is_armed = point.step == 0
    if is_armed:
        kill_after(point.calls)

    def reached(trainer: Trainer, *, in_save: bool) -> None:
        nonlocal is_armed
        if trainer.state.step >= hold:
            os.kill(os.getpid(), signal.SIGKILL)
        if trainer.state.step >= point.step and in_save == point.in_save and not is_armed:
            is_armed = True
            kill_after(point.calls)

    def on_step_end(self: ProgressReporter, trainer: Trainer) -> None:
        clock.now += 1  # checkpoints are saved after this callback
        report(self, trainer)
        reached(trainer, in_save=False)

    def save_checkpoint(self: Trainer) -> None:
        reached(self, in_save=True)
        save(self)

    ProgressReporter.on_step_end = on_step_end  # type: ignore[method-assign]
    Trainer.save = save_checkpoint  # type: ignore[method-assign]


def run_attempt(arguments: list[str], log: Path, point: KillPoint = NEVER, *, hold: float = math.inf) -> int:
    """Run `regard` in a child process up to its kill point, and return its exit code."""
    child = os.fork()
    if child == 0:
        stream = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(stream, 1)
        os.dup2(stream, 2)
        arm(point, hold=hold)
        os._exit(main(arguments))
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def kill_points(kills: int, steps: int, random_: random.Random) -> list[KillPoint]:
    """Return early and late kill points in random order, the late ones with increasing steps."""
    early = set(random_.sample(range(kills), round(EARLY_FRACTION * kills)))
    late_steps = iter(sorted(random_.sample(range(1, int(LAST_KILL * steps)), kills - len(early))))
    points = []
    for number in range(kills):
        if number in early:
            points.append(KillPoint(0, random_.randrange(1, EARLY_CALLS)))
        elif number % 2:
            points.append(KillPoint(next(late_steps), random_.randrange(1, SAVE_CALLS), in_save=True))
        else:
            points.append(KillPoint(next(late_steps), round(LATE_CALLS ** random_.random())))
    return points


def kill_often(run: Path, arguments: list[str], points: list[KillPoint], *, hold: float) -> list[dict[str, object]]:
    """Kill and resume a run at each point, and return what was observed of each attempt."""
    attempts: list[dict[str, object]] = []
    log = run.parent / "attempt.log"
    for point in points:
        before = last_good_checkpoint(run)
        code = run_attempt([*arguments, "--resume"], log, point, hold=hold)
        after = last_good_checkpoint(run)
        attempts.append(
            {
                "killed": code == -signal.SIGKILL,
                "early": point.step == 0,
                "started_with": before.step if before else None,
                "printed": log.read_text(encoding="utf-8", errors="replace"),
                "checkpoint_step": after.step if after else 0,
                "last_step": max((row["step"] for row in read_metrics(run)), default=0),
                "damaged": list(after.skipped) if after else [],
                "in_save": any(is_temporary(path.name) for path in run.rglob("*")),
            }
        )
    return attempts


def run_all(folder: Path, kills: int, seed: int, save_every: str, arguments: list[str]) -> dict[str, object]:
    """Train without a kill and with many, and return the observations."""
    steps = int(arguments[arguments.index("--steps") + 1])
    straight, killed, log = folder / "straight", folder / "killed", folder / "run.log"
    if run_attempt([*arguments, "--out", str(straight)], log) != 0:
        return {"failed": log.read_text(encoding="utf-8")}
    killed.mkdir()
    arguments = [*arguments, "--out", str(killed), "--save-every", save_every]
    attempts = kill_often(killed, arguments, kill_points(kills, steps, random.Random(seed)), hold=HOLD * steps)
    if run_attempt([*arguments, "--resume"], log) != 0:
        return {"failed": log.read_text(encoding="utf-8")}
    return {"attempts": attempts, "last": log.read_text(encoding="utf-8")}


if __name__ == "__main__":
    place, number, random_seed, saving, *rest = sys.argv[1:]
    print(json.dumps(run_all(Path(place), int(number), int(random_seed), saving, rest)))
