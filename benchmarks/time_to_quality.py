"""Time to quality: how soon the default recipe is as good as the recipe of 2017 is at its end.

    python benchmarks/time_to_quality.py [--steps 1500] [--jobs 2] [--out runs/time-to-quality]

Multi30k, English to German; the same size, vocabularies, batches and dropout for both. First the time of a step: short
trainings of both recipes in turn, and the median of the ratios, so that a machine whose speed wanders does no harm.
Then the paper's recipe trains for `--steps` with each of three warm-ups, and the lowest of the final validation losses
(plain cross-entropy, without label smoothing, of the averaged weights) is the goal. The default recipe trains for as
many steps as fit into a third of that time. These trainings are counted in steps, not in seconds, so they may run side
by side, `--jobs` at a time, each with one thread; those that an earlier call has finished in `--out` are read, not
repeated. Printed: every loss, when the default recipe first met the goal, and the share of the paper's time that this
is.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

import regard
from common import MULTI30K_SHAPE, data_folder
from regard.checkpoint.folder import is_model_folder
from regard.training.callbacks import read_metrics

ROUND = (5, 25)  # the steps of a round that are timed


def train(folder: Path, out: Path, **settings: Any) -> Sequence[dict[str, Any]]:
    """Train, and return the rows of metrics.jsonl."""
    regard.train(
        "translate",
        [folder / "train.en.gz", folder / "train.de.gz"],
        validation=[folder / "val.en.gz", folder / "val.de.gz"],
        out=out,
        seed=0,
        **MULTI30K_SHAPE,
        **settings,
    )
    return read_metrics(out)


def train_once(folder: Path, out: Path, *, force: bool, **settings: Any) -> Sequence[dict[str, Any]]:
    """Train, unless that was done before."""
    if not force and out.is_dir():
        rows = read_metrics(out)
        if rows and rows[-1]["step"] == settings["steps"] and is_model_folder(out):
            return rows
    return train(folder, out, force=True, **settings)


def seconds_per_step(folder: Path, recipe: str) -> float:
    first, last = ROUND
    with tempfile.TemporaryDirectory() as out:
        settings = dict(recipe=recipe, steps=last, log_every=5, num_evals=0, save_every=1e6, max_new_tokens=1)
        clock = {row["step"]: row["seconds"] for row in train(folder, Path(out) / "run", **settings)}
    return float(clock[last] - clock[first]) / (last - first)


def _one_thread() -> None:
    torch.set_num_threads(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--steps", type=int, default=1500, help="of the paper's recipe")
    parser.add_argument("--jobs", type=int, default=2, help="trainings side by side, each with one thread")
    parser.add_argument("--rounds", type=int, default=5, help="pairs of short trainings that time a step")
    parser.add_argument("--ratio", type=float, default=None, help="time of a step, default / paper, if known already")
    parser.add_argument("--warmups", type=int, nargs="+", default=[400, 750, 1500])
    parser.add_argument("--out", type=Path, default=Path("runs/time-to-quality"))
    parser.add_argument("--force", action="store_true", help="repeat what is already in --out")
    asked = parser.parse_args()
    folder = data_folder(asked.data, "multi30k")
    if folder is None:
        raise SystemExit("Multi30k was not found: give --data FOLDER with train.en.gz, train.de.gz …")

    ratio = asked.ratio
    if ratio is None:
        rounds = []
        for _ in range(asked.rounds):
            times = {name: seconds_per_step(folder, name) for name in ("paper", "default")}
            print(f"a step: paper {times['paper']:.3f} s, default {times['default']:.3f} s", flush=True)
            rounds.append(times)
        ratio = statistics.median(times["default"] / times["paper"] for times in rounds)
    print(f"time of a step, default / paper: {ratio:.3f}", flush=True)

    steps = int(asked.steps / 3 / ratio)
    plans: dict[str, dict[str, Any]] = {
        f"paper-{warmup}": dict(recipe="paper", steps=asked.steps, warmup_steps=warmup) for warmup in asked.warmups
    }
    plans["default"] = dict(steps=steps, num_evals=20)
    with ProcessPoolExecutor(asked.jobs, mp_context=get_context("spawn"), initializer=_one_thread) as pool:
        waiting = {
            name: pool.submit(train_once, folder, asked.out / name, force=asked.force, **plan)
            for name, plan in plans.items()
        }
        found = {}
        for name, future in waiting.items():
            found[name] = future.result()
            final = found[name][-1]
            print(f"{name}: validation loss {final['validation_loss']:.4f} after {final['step']:,} steps", flush=True)
    goal, best = min((found[f"paper-{warmup}"][-1]["validation_loss"], warmup) for warmup in asked.warmups)
    rows = found["default"]
    curve = [(row["step"], row["validation_loss"]) for row in rows if "validation_loss" in row]
    for step, loss in curve:
        print(f"default: validation loss {loss:.4f} after {step:,} steps", flush=True)
    print(f"goal: {goal:.4f}, the paper's recipe with warm-up {best}, {asked.steps:,} steps")
    met = next((step for step, loss in curve if loss <= goal), None)
    if met is None:
        print(f"default: not met within a third of the time ({curve[-1][1]:.4f} after {steps:,} steps)")
    else:
        print(f"default: met after {met:,} steps, 1 / {asked.steps / (met * ratio):.1f} of the time")


if __name__ == "__main__":
    main()
