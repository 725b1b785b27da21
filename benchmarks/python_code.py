"""A language model of Python, trained on Python's own standard library: how many of its functions parse?

    python benchmarks/python_code.py [--steps 2400] [--samples 200] [--out runs/python]

The training data are the files of the standard library without tests and tables; every twentieth file is for
validation. After training, the model continues `def ` at the left margin. A sample ends before the next line that
starts at the margin, or with its last whole line if it is not finished. A sample counts if `ast.parse` accepts it. The
baseline are n-grams of characters from the same files, which know spelling but no structure.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import re
import sysconfig
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import regard
from regard.tasks.generate.predictor import TextGenerator
from regard.utils.errors import UsageError

PROMPT = "\n\ndef "
EXCLUDED_FOLDERS = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}
TABLES = ("encodings", "pydoc_data")  # folders of character tables and of help texts
NEXT_STATEMENT = re.compile(r"\n(?=[^\s)\]}#])")  # a line that starts at the margin
SHAPE: dict[str, Any] = dict(size="tiny", context_length=256, vocab_size=2000, batch_tokens=1024)
NGRAM_LENGTH = 800  # characters of a sample of n-grams; 256 tokens of the model are about as many
MAX_NEW_TOKENS = 256
BATCH_SIZE = 50  # samples that are generated together
VALIDATION_EVERY = 20  # files

Generate = Callable[[int], Sequence[str]]  # number of samples → texts that continue PROMPT


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2400)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0.2, 0.5, 0.8, 1.0])
    parser.add_argument("--orders", type=int, nargs="+", default=[3, 6])
    parser.add_argument("--folder", type=Path, default=Path(sysconfig.get_paths()["stdlib"]))
    parser.add_argument("--out", type=Path, default=Path("runs/python"))
    parser.add_argument("--trained", action="store_true", help="use the model in --out instead of training one")
    args = parser.parse_args()

    files = python_files(args.folder, exclude=TABLES)
    texts = [file.read_text(encoding="utf-8") for file in files]
    train = [text for index, text in enumerate(texts) if index % VALIDATION_EVERY]
    print(f"{len(files)} files, {sum(map(len, texts)) / 1e6:.1f} M characters; {len(train)} files for training")
    start = time.process_time()
    generator = regard.load(args.out) if args.trained else train_generator(train, texts[::VALIDATION_EVERY], args)
    assert isinstance(generator, TextGenerator)
    print(f"{(time.process_time() - start) / 60:.1f} minutes of CPU time")
    training_text = "\n\n".join(train)
    print(f"{'model':<34}{'parses':>8}{'whole':>8}{'copied':>8}   of {args.samples} functions")
    for temperature in args.temperatures:
        rate = parse_rate(sampler(generator, temperature), args.samples, training_text=training_text)
        print_rate(f"GPT, temperature {temperature}", rate)
    for order in args.orders:
        ngrams = CharacterNGrams(training_text, order)
        for temperature in args.temperatures:
            rate = parse_rate(
                lambda count, t=temperature, g=ngrams: g.generate(count, length=NGRAM_LENGTH, temperature=t),
                args.samples,
                training_text=training_text,
            )
            print_rate(f"{order}-grams, temperature {temperature}", rate)
    print("\nfour samples, temperature 0.8:\n")
    for text in sampler(generator, 0.8)(4):
        print(first_function(text)[0])


def train_generator(train: list[str], validation: list[str], args: argparse.Namespace) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for name, texts in (("train", train), ("validation", validation)):
            files[name] = Path(folder) / f"{name}.jsonl"
            files[name].write_text("".join(json.dumps({"text": t}) + "\n" for t in texts), encoding="utf-8")
        return regard.train(
            "generate",
            files["train"],
            validation=files["validation"],
            out=args.out,
            steps=args.steps,
            progress=True,
            force=True,
            **SHAPE,
        )


def sampler(generator: TextGenerator, temperature: float) -> Generate:
    def generate(count: int) -> list[str]:
        texts: list[str] = []
        while len(texts) < count:
            prompts = [PROMPT] * min(BATCH_SIZE, count - len(texts))
            options = dict(temperature=temperature, top_k=None, max_new_tokens=MAX_NEW_TOKENS, seed=len(texts))
            texts += [generation.text for generation in generator(prompts, **options)]
        return texts

    return generate


@dataclass(frozen=True)
class ParseRate:
    """How many samples of a model parse."""

    samples: int
    parsed: int
    finished: int  # parsed and followed by a new line at the margin
    copied: int  # parsed and contained in the training text

    @property
    def share(self) -> float:
        return self.parsed / self.samples


def print_rate(name: str, rate: ParseRate) -> None:
    print(f"{name:<34}{rate.share:>8.0%}{rate.finished:>8}{rate.copied:>8}", flush=True)


def python_files(folder: Path, *, exclude: Iterable[str] = ()) -> list[Path]:
    """The .py files below `folder` that Python accepts, without tests and installed packages, by name."""
    excluded = EXCLUDED_FOLDERS | set(exclude)
    candidates = sorted(
        file for file in folder.rglob("*.py") if not excluded.intersection(file.relative_to(folder).parts[:-1])
    )
    files = [file for file in candidates if is_program(file)]
    if not files:
        raise UsageError(f"{folder} has no .py files that Python accepts.", argument="folder", path=folder)
    return files


def is_program(file: Path) -> bool:
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return False
    return bool(text.strip()) and parses(text)


def parses(code: str) -> bool:
    """Whether `code` is a program by its grammar. Nothing of it runs."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape is a warning, not an error
            ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # ValueError: a null character
        return False
    return True


def first_function(text: str) -> tuple[str, bool]:
    """The function that `text` continues after `def `, and whether it is finished."""
    end = NEXT_STATEMENT.search(text)
    body = text[: end.start()] if end else text[: text.rfind("\n") + 1]
    return f"def {body}".rstrip() + "\n", end is not None


def parse_rate(generate: Generate, count: int, *, training_text: str = "") -> ParseRate:
    """How many of `count` samples parse."""
    if count < 1:
        raise UsageError(f"the number of samples must be at least 1, not {count}.", argument="count", value=count)
    parsed = finished = copied = 0
    for text in generate(count):
        code, is_finished = first_function(text)
        if parses(code):
            parsed += 1
            finished += is_finished
            copied += code in training_text
    return ParseRate(count, parsed, finished, copied)


class CharacterNGrams:
    """Draws each character as often as it followed the `order` - 1 characters before it."""

    def __init__(self, text: str, order: int) -> None:
        if order < 2:
            raise UsageError(f"the order must be at least 2, not {order}.", argument="order", value=order)
        self.context = order - 1
        followers: dict[str, Counter[str]] = defaultdict(Counter)
        for index in range(len(text) - self.context):
            followers[text[index : index + self.context]][text[index + self.context]] += 1
        self._followers = {context: (list(counts), list(counts.values())) for context, counts in followers.items()}

    def generate(self, count: int, *, length: int, temperature: float = 1.0, seed: int = 0) -> list[str]:
        """`count` texts of at most `length` characters that continue PROMPT."""
        rng = random.Random(seed)
        return [self._sample(rng, length, temperature) for _ in range(count)]

    def _sample(self, rng: random.Random, length: int, temperature: float) -> str:
        text = PROMPT
        while len(text) < len(PROMPT) + length:
            followers = self._followers.get(text[-self.context :])
            if followers is None:  # the end of the training text
                break
            characters, counts = followers
            highest = max(counts)
            weights = counts if temperature == 1 else [(n / highest) ** (1 / temperature) for n in counts]
            text += rng.choices(characters, weights)[0]
        return text[len(PROMPT) :]


if __name__ == "__main__":
    main()
