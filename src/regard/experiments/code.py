"""Programs from a language model: how many of the functions that it writes does Python accept?

A sample is a function at the left margin: the model goes on from `def `, and the sample ends before the next line
that begins at the margin. What is not finished when the longest length is reached ends with its last whole line. A
sample counts if `ast.parse` accepts it. It is compared with n-grams of characters, which know spelling and nothing of
what was opened further back.
"""

from __future__ import annotations

import ast
import random
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.utils.errors import UsageError

PROMPT = "\n\ndef "
LEFT_OUT = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}  # folders
MARGIN = re.compile(r"\n(?=[^\s)\]}#])")  # a line that begins something new
Write = Callable[[int], Sequence[str]]  # so many texts that go on from PROMPT


@dataclass(frozen=True)
class ParseRate:
    """What became of the samples of one writer."""

    samples: int
    parsed: int
    finished: int  # followed by a new line at the margin
    copied: int  # stand word for word in the training text

    @property
    def share(self) -> float:
        return self.parsed / self.samples


def python_files(folder: Path, *, without: Iterable[str] = ()) -> list[Path]:
    """The .py files below `folder` that Python accepts, tests and installed packages left out, by name."""
    unwanted = LEFT_OUT | set(without)
    files = sorted(
        file for file in folder.rglob("*.py") if not unwanted.intersection(file.relative_to(folder).parts[:-1])
    )
    found = [file for file in files if _is_program(file)]
    if not found:
        raise UsageError(f"{folder} holds no .py files that Python accepts. Give a folder with programs in it.")
    return found


def _is_program(file: Path) -> bool:
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return False
    return bool(text.strip()) and parses(text)


def parses(code: str) -> bool:
    """Whether `code` is a program, as far as its grammar goes. Nothing of it runs."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a doubtful escape is not an error
            ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # ValueError: a null character
        return False
    return True


def first_function(text: str) -> tuple[str, bool]:
    """The function that `text` goes on with after `def `, and whether it was finished."""
    end = MARGIN.search(text)
    body = text[: end.start()] if end else text[: text.rfind("\n") + 1]
    return f"def {body}".rstrip() + "\n", end is not None


def parse_rate(write: Write, count: int, *, training_text: str = "") -> ParseRate:
    """How many of `count` samples parse."""
    if count < 1:
        raise UsageError(f"the number of samples must be at least 1, not {count}.")
    parsed = finished = copied = 0
    for text in write(count):
        code, is_whole = first_function(text)
        if parses(code):
            parsed += 1
            finished += is_whole
            copied += code in training_text
    return ParseRate(count, parsed, finished, copied)


class CharacterNGrams:
    """Each character is drawn as often as it followed the `order` - 1 characters before it."""

    def __init__(self, text: str, order: int) -> None:
        if order < 2:
            raise UsageError(f"the order must be at least 2, that is one character before each, not {order}.")
        self.before = order - 1
        self._following: dict[str, Counter[str]] = defaultdict(Counter)
        for place in range(len(text) - self.before):
            self._following[text[place : place + self.before]][text[place + self.before]] += 1
        self._draws = {key: (list(found), list(found.values())) for key, found in self._following.items()}

    def write(self, count: int, *, length: int, temperature: float = 1.0, seed: int = 0) -> list[str]:
        """`count` texts of at most `length` characters that go on from PROMPT."""
        dice = random.Random(seed)
        return [self._text(dice, length, temperature) for _ in range(count)]

    def _text(self, dice: random.Random, length: int, temperature: float) -> str:
        text = PROMPT
        while len(text) < len(PROMPT) + length:
            known = self._draws.get(text[-self.before :])
            if known is None:  # the end of the training text was reached
                break
            characters, counts = known
            highest = max(counts)
            weights = counts if temperature == 1 else [(n / highest) ** (1 / temperature) for n in counts]
            text += dice.choices(characters, weights)[0]
        return text[len(PROMPT) :]
