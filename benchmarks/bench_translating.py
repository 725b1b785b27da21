"""Translation on a CPU: the compiled decoder compared with torch's, for a model of the demo's size.

    python benchmarks/bench_translating.py [--model FOLDER] [--file sentences.txt] [--rounds 5] [--steps 400]

The sentences are 200 of the test split of the built-in synthetic dataset, or the lines of a file. They are translated
one at a time and in one batch, with greedy search and with four beams. The backends alternate in one process. Prints
sentences per second, the median of the ratios of all rounds, and the backend that `auto` would choose. Without --model,
a model is first trained on the synthetic dataset, long enough that its translations end.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import regard
from regard.data.synthetic.translation import sentences
from regard.experiments.demo import SETTINGS
from regard.generation.backend import MAX_KERNEL_ROWS, VARIABLE
from regard.tasks.translate.predictor import Translator

COUNT = 200
BACKENDS = ("kernels", "torch")


def seconds(translator: Translator, texts: Sequence[str], backend: str, *, num_beams: int, together: bool) -> float:
    os.environ[VARIABLE] = backend
    time.sleep(0.2)  # until spinning threads sleep
    start = time.perf_counter()
    if together:
        translator(list(texts), num_beams=num_beams)
    else:
        for text in texts:
            translator(text, num_beams=num_beams)
    return time.perf_counter() - start


def compare(translator: Translator, texts: Sequence[str], *, num_beams: int, together: bool, rounds: int) -> None:
    translations = {}
    for backend in BACKENDS:
        os.environ[VARIABLE] = backend
        translations[backend] = [one.text for one in translator(list(texts), num_beams=num_beams)]  # also warms up
    times: dict[str, list[float]] = {backend: [] for backend in BACKENDS}
    for _ in range(rounds):
        for backend in BACKENDS:
            times[backend].append(seconds(translator, texts, backend, num_beams=num_beams, together=together))
    same = sum(a == b for a, b in zip(*translations.values(), strict=True))
    ratio = statistics.median(b / a for a, b in zip(times["kernels"], times["torch"], strict=True))
    speeds = ", ".join(f"{name} {len(texts) / statistics.median(found):.1f}" for name, found in times.items())
    how = "together" if together else "one at a time"
    auto = "torch" if together and num_beams * len(texts) > MAX_KERNEL_ROWS else "the kernels once they are loaded"
    print(
        f"{how}, beams {num_beams}: {speeds} sentences/s; kernels / torch {ratio:.2f}, median of {rounds}; auto uses "
        f"{auto}; {same} of {len(texts)} translations are the same",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=None)
    parser.add_argument("--file", type=Path, default=None, help="sentences, one per line")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=400, help="training steps without --model")
    args = parser.parse_args()
    if args.model:
        translator = regard.load(args.model)
    else:
        translator = regard.train("translate", size="tiny", steps=args.steps, num_evals=1, **SETTINGS)
    assert isinstance(translator, Translator)
    if args.file:
        texts = args.file.read_text(encoding="utf-8").splitlines()[:COUNT]
    else:
        texts = [one.source for one in sentences("test", count=COUNT)]
    print(translator)
    for together in (False, True):
        for num_beams in (1, 4):
            compare(translator, texts, num_beams=num_beams, together=together, rounds=args.rounds)


if __name__ == "__main__":
    main()
