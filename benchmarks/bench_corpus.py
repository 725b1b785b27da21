"""A corpus of 1 GB: the memory that training needs, and the start-up time of a second run.

    python benchmarks/bench_corpus.py [--megabytes 1000] [--steps 5]

The text is the built-in synthetic dataset's sentences, shuffled and mixed with invented words: twenty chapters, more
than the tokenizer is trained on, repeated. Each run is its own process: the first trains the tokenizer and writes the
ids to the cache, the second reads them. `regard train` itself measures the peak memory of each run, and the time from
the import of torch to the first step of the second.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from common import memory
from regard.data.synthetic.stories import stories

CHAPTERS = 20  # that are written anew; then they come again


def write_corpus(path: Path, megabytes: int) -> None:
    """Chapters until the file is long enough: shuffled synthetic sentences and strange words.

    A tokenizer has it as hard as with real text: a third of the words are invented ones, of which there are 300,000,
    frequent and rare as Zipf's law has it.
    """
    dice = np.random.default_rng(0)
    sentences = np.array("\n".join(stories())[:2_000_000].split(". "))
    syllables = [f"{a}{b}{c}" for a in "bcdfghklmnprstvz" for b in "aeiou" for c in ("", "n", "r", "s")]
    words = np.array(list(map("".join, dice.choice(syllables, size=(300_000, 3)))))
    chapters = []
    for _ in range(CHAPTERS):
        strange = words[np.minimum(dice.zipf(1.2, size=(len(sentences), 4)) - 1, len(words) - 1)]
        rows = zip(dice.permutation(sentences).tolist(), strange.tolist(), strict=True)
        chapters.append("\n".join(f"{one} {' '.join(more)}." for one, more in rows))
    with path.open("w", encoding="utf-8") as file:
        number = 0
        while file.tell() < megabytes * 1_000_000:
            number += 1
            file.write(f"\nChapter {number}.\n{chapters[number % CHAPTERS]}")


def run(corpus: str, out: str, steps: int, results: Any) -> None:
    import torch

    torch.ones(1).add(1)
    before = memory("VmHWM")
    started = time.perf_counter()
    import regard
    from regard.training.trainer import Trainer

    first: list[float] = []
    fit = Trainer.fit

    def timed(self: Trainer, *, resume: bool = False) -> Any:
        first.append(time.perf_counter() - started)
        return fit(self, resume=resume)

    Trainer.fit = timed  # type: ignore[method-assign]
    regard.train("generate", corpus, out=out, steps=steps, size="tiny", num_evals=1)
    results.put((first[0], memory("VmHWM"), before))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=5)
    asked = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as temporary:
        os.environ["REGARD_CACHE"] = str(Path(temporary) / "cache")
        corpus = Path(temporary) / "corpus.txt"
        write_corpus(corpus, asked.megabytes)
        print(f"{corpus.stat().st_size / 1e6:,.0f} MB of text", flush=True)
        for number in (1, 2):
            results = context.Queue()
            process = context.Process(
                target=run, args=(str(corpus), str(Path(temporary) / f"run{number}"), asked.steps, results)
            )
            process.start()
            begun, peak, before = results.get()
            process.join()
            print(
                f"run {number}: first step {begun:.1f} s after torch was loaded (mark 3 s for the second), "
                f"{peak:,.0f} MB at the peak (mark 2,000), of which torch {before:,.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
