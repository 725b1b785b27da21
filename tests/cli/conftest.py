"""Fixtures for tests of the command line: small trained translators, and a function that runs a command.

The toy task: translate a number in words into its digits, last digit first. A model with one layer learns most of it in
two seconds, so that its outputs are worth comparing. Models are trained once, through the command line.
"""

from __future__ import annotations

import contextlib
import io
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from regard.cli import main as cli
from regard.utils.errors import RegardError

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
SHAPE = {"size": "tiny", "d-model": 32, "num-heads": 2, "head-dim": 16, "d-ff": 64, "num-encoder-layers": 1}
PACE = {"vocab-size": 300, "batch-tokens": 2048, "num-evals": 3, "dropout": 0, "label-smoothing": 0, "log-every": 1}
DEFAULT = {"steps": 150, "learning-rate": 0.01, "muon-learning-rate": 0.05, "warmup-steps": 10}
PAPER = {"recipe": "paper", "steps": 200, "learning-rate": 0.01, "warmup-steps": 50}


class Printed(NamedTuple):
    """Exit code and output of a command."""

    code: int
    out: str
    err: str


class Result(Printed):
    """Exit code and output of a command, and the error that it printed."""

    error: Any = None


class Trained(NamedTuple):
    folder: Path
    result: Result


Run = Callable[..., Result]


def run(*arguments: object, stdin: bytes = b"") -> Result:
    """Run a command in this process. An unexpected exception fails the test with its traceback."""
    out, err = io.StringIO(), io.StringIO()
    errors: list[RegardError] = []
    run_command = cli._run

    def recording(words: list[str]) -> None:
        try:
            run_command(words)
        except RegardError as error:
            errors.append(error)
            raise

    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        patch.setattr(cli, "_run", recording)
        code = cli.main([str(argument) for argument in arguments])
    result = Result(code, out.getvalue(), err.getvalue())
    result.error = errors[0] if errors else None
    return result


def flags(*settings: dict[str, object]) -> list[str]:
    return [word for given in settings for name, value in given.items() for word in (f"--{name}", str(value))]


@pytest.fixture(scope="session")
def regard() -> Run:
    return run


@pytest.fixture(scope="session")
def rows() -> list[tuple[str, str]]:
    numbers = random.Random(0).sample(range(1000, 10_000), 200)
    return [(" ".join(WORDS[int(digit)] for digit in str(n)), " ".join(reversed(str(n)))) for n in numbers]


@pytest.fixture(scope="session")
def pairs_file(rows: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "pairs.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def small() -> list[str]:
    """Flags of a training with short steps, without the number of steps."""
    return flags(SHAPE, {"num-decoder-layers": 1}, PACE)


@pytest.fixture(scope="session")
def trained(pairs_file: Path, small: list[str], tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = tmp_path_factory.mktemp("models") / "default"
    result = run("train", "translate", pairs_file, "--out", folder, *small, *flags(DEFAULT))
    assert result.code == 0, result.err
    return Trained(folder, result)


@pytest.fixture(scope="session")
def model(trained: Trained) -> Path:
    return trained.folder


@pytest.fixture(scope="session")
def paper_model(pairs_file: Path, small: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "paper"
    result = run("train", "translate", pairs_file, "--out", folder, *small, *flags(PAPER))
    assert result.code == 0, result.err
    return folder
