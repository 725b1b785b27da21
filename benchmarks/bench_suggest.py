"""Autocomplete: the time of one call of a `Suggester` in a warm process, on a model of the demo's size.

    python benchmarks/bench_suggest.py [--model FOLDER]

Without --model, a tiny model is trained for a few steps on the stories of the built-in synthetic dataset; its quality
does not affect the time. There is a call for every prefix of a sentence, as if a user typed it.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import regard
from regard.tasks.suggest.predictor import Suggester

TEXT = "The old man was tired because he had carried the table"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=None)
    asked = parser.parse_args()
    generator = regard.load(asked.model) if asked.model else regard.train("generate", steps=30, size="tiny")
    suggester = Suggester.adapt(generator)
    assert suggester is not None, "a language model"
    times = []
    for end in [1, *range(1, len(TEXT))]:  # the first call warms up
        start = time.perf_counter()
        suggester(TEXT[:end])
        times.append(1e3 * (time.perf_counter() - start))
    warm = sorted(times[1:])
    print(f"{suggester}")
    print(f"suggest: median {statistics.median(warm):.1f} ms, slowest of {len(warm)} {warm[-1]:.1f} ms (mark 50 ms)")


if __name__ == "__main__":
    main()
