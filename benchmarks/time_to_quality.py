"""Time to quality: how soon the default recipe is as good as the recipe of 2017 is at its end.

    python benchmarks/time_to_quality.py [--minutes 15] [--out runs/time-to-quality]

Multi30k, English to German. The paper's recipe trains for the whole time with each of three warm-ups; the lowest of
the three final validation losses (plain cross-entropy, without label smoothing, of the averaged weights) is the
goal. Then the default recipe trains for a third of the time, with the same size, vocabulary, batches and dropout.
Printed: every loss, when the default recipe first met the goal, and the ratio of the times.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import regard
from common import data_folder
from regard.training.metrics_log import read_metrics
from regard.training.recipes import paper_learning_rate

SHAPE: dict[str, Any] = dict(
    size="tiny",
    encoder_layers=4,
    decoder_layers=4,
    width=128,
    hidden=256,
    pieces=4000,
    separate_vocabularies=True,
    dropout=0.15,
    batch_tokens=4096,
)
Curve = Sequence[tuple[float, float]]  # (seconds, validation loss)


def train(folder: Path, out: Path, *, minutes: float, force: bool, **settings: Any) -> Curve:
    regard.train(
        "translate",
        [folder / "train.en.gz", folder / "train.de.gz"],
        validation=[folder / "val.en.gz", folder / "val.de.gz"],
        out=out,
        minutes=minutes,
        validations=20,
        seed=0,
        force=force,
        **SHAPE,
        **settings,
    )
    return [(row["seconds"], row["validation_loss"]) for row in read_metrics(out) if "validation_loss" in row]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--warmups", type=int, nargs="+", default=[400, 1000, 2500])
    parser.add_argument("--out", type=Path, default=Path("runs/time-to-quality"))
    parser.add_argument("--force", action="store_true", help="replace earlier runs in --out")
    asked = parser.parse_args()
    folder = data_folder(asked.data, "multi30k")
    if folder is None:
        raise SystemExit("Multi30k was not found: give --data FOLDER with train.en.gz, train.de.gz …")

    finals = {}
    for warmup in asked.warmups:
        rate = paper_learning_rate(SHAPE["width"], warmup)
        curve = train(
            folder,
            asked.out / f"paper-{warmup}",
            minutes=asked.minutes,
            force=asked.force,
            recipe="paper",
            warmup_steps=warmup,
            learning_rate=rate,
        )
        finals[warmup] = curve[-1][1]
        print(f"paper, warm-up {warmup}: {finals[warmup]:.4f} after {curve[-1][0]:.0f} s", flush=True)
    best = min(finals, key=lambda warmup: finals[warmup])
    goal, whole = finals[best], 60 * asked.minutes

    curve = train(folder, asked.out / "default", minutes=asked.minutes / 3, force=asked.force)
    for seconds, loss in curve:
        print(f"default: {loss:.4f} after {seconds:.0f} s", flush=True)
    met = next((seconds for seconds, loss in curve if loss <= goal), None)
    print(f"goal: {goal:.4f}, the paper's recipe with warm-up {best} after {whole:.0f} s")
    if met is None:
        print(f"default: not met within a third of the time ({curve[-1][1]:.4f} after {curve[-1][0]:.0f} s)")
    else:
        print(f"default: met after {met:.0f} s, 1 / {whole / met:.1f} of the time")


if __name__ == "__main__":
    main()
