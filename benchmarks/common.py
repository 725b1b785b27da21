"""Shared code of the benchmarks: data folders, libraries in processes of their own, memory."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from regard.data.pairs import Pair, read_pairs
from regard.data.synthetic.translation import sentences

# The translator of the Multi30k benchmarks: small, because 29,000 pairs are few.
MULTI30K_SHAPE: dict[str, Any] = dict(
    size="tiny",
    num_encoder_layers=4,
    num_decoder_layers=4,
    d_model=128,
    d_ff=256,
    vocab_size=4000,
    separate_vocabularies=True,
    dropout=0.15,
    batch_tokens=4096,
)


def data_folder(asked: Path | None, name: str) -> Path | None:
    """The folder of a data set: what was asked for, or REGARD_DATA/name, or ../shared/data/name; None if absent."""
    places = [asked] if asked else [Path(os.environ.get("REGARD_DATA", "../shared/data")) / name]
    return next((place for place in places if place.is_dir()), None)


def multi30k_pairs(asked: Path | None, target: str = "de") -> tuple[Sequence[Pair], Sequence[Pair]]:
    """Training and validation pairs of Multi30k, or of the built-in synthetic dataset where it is missing."""
    folder = data_folder(asked, "multi30k")
    if folder is None:
        print("Multi30k was not found: using the built-in synthetic dataset")
        train, validation = ([Pair(s.source, s.target) for s in sentences(split)] for split in ("train", "validation"))
        return train, validation
    train, validation = (
        read_pairs([folder / f"{split}.en.gz", folder / f"{split}.{target}.gz"]).examples for split in ("train", "val")
    )
    return train, validation


class Tool:
    """A tool in a process of its own, as its users run it: threads that wait busily disturb nobody else."""

    def __init__(self, make: Callable[..., Callable[..., Any]], *args: Any) -> None:
        """`make(*args)` is called over there, and gives what `run` calls."""
        self._pipe, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("spawn").Process(
            target=_serve, args=(theirs, make, *args), daemon=True
        )
        self._process.start()

    def run(self, *asked: Any) -> tuple[Any, float]:
        """What the tool gives, and how many seconds it took."""
        self._pipe.send(asked)
        return self._pipe.recv()  # type: ignore[no-any-return]

    def close(self) -> None:
        self._pipe.send(None)
        self._process.join()


def _serve(pipe: Connection, make: Callable[..., Callable[..., Any]], *args: Any) -> None:
    run = make(*args)
    while (asked := pipe.recv()) is not None:
        start = time.perf_counter()
        found = run(*asked)
        pipe.send((found, time.perf_counter() - start))
        time.sleep(0.3)  # until what spins has gone to sleep


def memory(name: str) -> float:
    """A line of what Linux knows about this process's memory, in MB: VmRSS is in RAM now, VmHWM was at the most."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(f"{name}:")]
    return int(line.split()[1]) * 1024 / 1e6
