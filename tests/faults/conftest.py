"""What the faults share: a small file of pairs, a model small enough to train in a second, and the command line.

The language is a toy: the digits of a number as words, translated into its digits from last to first.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from regard.cli.main import main

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
NUMBERS = range(100, 400)
SHAPE = {"size": "tiny", "width": 24, "heads": 2, "head-width": 12, "hidden": 48, "encoder-layers": 1}
PACE = {"pieces": 300, "batch-tokens": 512, "log-every": 1, "warmup-steps": 10, "validations": 3}
SMALL = {**SHAPE, "decoder-layers": 1, **PACE}
WRITER = {"size": "tiny", "width": 24, "heads": 2, "head-width": 12, "hidden": 48, "layers": 2, "context": 32, **PACE}


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
    """Flags of a training that takes about a hundredth of a second a step."""
    return [word for name, value in SMALL.items() for word in (f"--{name}", str(value))]


@pytest.fixture(scope="session")
def text_file(rows: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "text.txt"
    path.write_text("".join(f"{source} is {target}.\n" for source, target in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def small_writer() -> list[str]:
    """The same for a language model."""
    return [word for name, value in WRITER.items() for word in (f"--{name}", str(value))]


@pytest.fixture(scope="session")
def base(text_file: Path, small_writer: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model to go on from."""
    folder = tmp_path_factory.mktemp("base") / "base"
    assert main(["train", "generate", str(text_file), "--out", str(folder), "--steps", "5", *small_writer]) == 0
    return folder


@pytest.fixture
def regard(capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run a command in this process: exit code, stdout, stderr. A traceback would fail the test by itself."""

    def run(*arguments: object) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main([str(argument) for argument in arguments])
        said = capfd.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a command as a process of its own; what still runs after the test is ended."""
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: object, threads: int = 1) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "regard", *map(str, arguments)],
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
