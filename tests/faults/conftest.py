"""Fixtures of the fault tests: small data files, flags of a small model, and the command line.

The language is a toy: the digits of a number as words, translated into its digits from last to first.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from regard.cli.main import main

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
NUMBERS = range(100, 400)
SHAPE = {"size": "tiny", "d-model": 24, "num-heads": 2, "head-dim": 12, "d-ff": 48, "num-encoder-layers": 1}
PACE = {"vocab-size": 300, "batch-tokens": 512, "log-every": 1, "warmup-steps": 10, "num-evals": 3}
SMALL = {**SHAPE, "num-decoder-layers": 1, **PACE}
LANGUAGE_MODEL = {
    "size": "tiny",
    "d-model": 24,
    "num-heads": 2,
    "head-dim": 12,
    "d-ff": 48,
    "num-layers": 2,
    "context-length": 32,
    **PACE,
}


@pytest.fixture(scope="session")
def rows() -> list[tuple[str, str]]:
    return [(" ".join(WORDS[int(digit)] for digit in str(n)), " ".join(reversed(str(n)))) for n in NUMBERS]


@pytest.fixture(scope="session")
def pairs_file(rows: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "pairs.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def small() -> list[str]:
    """Flags of a training with short steps."""
    return [word for name, value in SMALL.items() for word in (f"--{name}", str(value))]


@pytest.fixture(scope="session")
def text_file(rows: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "text.txt"
    path.write_text("".join(f"{source} is {target}.\n" for source, target in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def small_text_generator() -> list[str]:
    """The same for a language model."""
    return [word for name, value in LANGUAGE_MODEL.items() for word in (f"--{name}", str(value))]


@pytest.fixture(scope="session")
def base(text_file: Path, small_text_generator: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pretrained language model."""
    folder = tmp_path_factory.mktemp("base") / "base"
    assert main(["train", "generate", str(text_file), "--out", str(folder), "--steps", "5", *small_text_generator]) == 0
    return folder


@pytest.fixture
def regard(capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run a command in this process: exit code, stdout, stderr. An unexpected exception fails the test."""

    def run(*arguments: object) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main([str(argument) for argument in arguments])
        said = capfd.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture(scope="session")
def resumed_step() -> Callable[[str], int | None]:
    """A function that reads from the output of a command the step from which it resumed; None if it did not resume."""

    def read(printed: str) -> int | None:
        found = re.search(r"^resum\D*([\d,]+)", printed, re.MULTILINE)
        return int(found[1].replace(",", "")) if found else None

    return read


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a command in a process, which ends with the test at the latest. `program` replaces `python -m regard`."""
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: object, threads: int = 1, program: str | None = None) -> subprocess.Popen[str]:
        called = ["-m", "regard"] if program is None else ["-c", program]
        process = subprocess.Popen(
            [sys.executable, *called, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        )
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()
