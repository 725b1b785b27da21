"""Autocomplete: the time of one call of `Writer.suggest` in a warm process, on a model of the demo's size.

    python benchmarks/bench_suggest.py [--model FOLDER]

Without a model, one of size tiny is trained on the built-in world's stories for a few steps: what it has learned does
not change the time. A person types a sentence; every prefix of it is a call.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import regard

TEXT = "The old man was tired because he had carried the table"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=None)
    asked = parser.parse_args()
    writer = regard.load(asked.model) if asked.model else regard.train("generate", steps=30, size="tiny")
    times = []
    for end in [1, *range(1, len(TEXT))]:  # the first call warms up
        start = time.perf_counter()
        writer.suggest(TEXT[:end])
        times.append(1e3 * (time.perf_counter() - start))
    warm = sorted(times[1:])
    print(f"{writer}")
    print(f"suggest: median {statistics.median(warm):.1f} ms, slowest of {len(warm)} {warm[-1]:.1f} ms (mark 50 ms)")


if __name__ == "__main__":
    main()
