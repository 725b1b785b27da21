"""A language model of Python, trained on Python's own standard library: how many of its functions parse?

    python benchmarks/python_code.py [--steps 2400] [--samples 200] [--out runs/python]

The programs of the standard library, tests and tables left out; every twentieth file is held out. After training, the
model goes on from `def ` at the left margin, and `ast.parse` says whether the function that comes out is one. Beside
it stand n-grams of characters from the same files, and the model's loss on the held-out files.
"""

from __future__ import annotations

import argparse
import json
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Any

import regard
from regard.experiments.code import PROMPT, CharacterNGrams, ParseRate, first_function, parse_rate, python_files
from regard.tasks.generate.predictor import TextGenerator

TABLES = ("encodings", "pydoc_data")  # folders of character tables and of help texts
SHAPE: dict[str, Any] = dict(size="tiny", context_length=256, vocab_size=2000, batch_tokens=1024)
LENGTH = 800  # characters of a sample of n-grams; a model's 256 tokens are about as many
NEW_TOKENS = 256
TOGETHER = 50  # samples that are written at a time
HELD_OUT = 20  # every so many files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2400)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0.2, 0.5, 0.8, 1.0])
    parser.add_argument("--orders", type=int, nargs="+", default=[3, 6])
    parser.add_argument("--folder", type=Path, default=Path(sysconfig.get_paths()["stdlib"]))
    parser.add_argument("--out", type=Path, default=Path("runs/python"))
    parser.add_argument("--trained", action="store_true", help="take the model that is already in --out")
    asked = parser.parse_args()

    files = python_files(asked.folder, without=TABLES)
    texts = [file.read_text(encoding="utf-8") for file in files]
    train = [text for number, text in enumerate(texts) if number % HELD_OUT]
    print(f"{len(files)} files, {sum(map(len, texts)) / 1e6:.1f} M characters; {len(train)} files are trained on")
    start = time.process_time()
    generator = regard.load(asked.out) if asked.trained else learn(train, texts[::HELD_OUT], asked)
    assert isinstance(generator, TextGenerator)
    print(f"{(time.process_time() - start) / 60:.1f} minutes of CPU time")
    together = "\n\n".join(train)
    print(f"{'model':<34}{'parses':>8}{'whole':>8}{'copied':>8}   of {asked.samples} functions")
    for temperature in asked.temperatures:
        found = parse_rate(sampled(generator, temperature), asked.samples, training_text=together)
        say(f"GPT, temperature {temperature}", found)
    for order in asked.orders:
        grams = CharacterNGrams(together, order)
        for temperature in asked.temperatures:
            found = parse_rate(
                lambda count, t=temperature, g=grams: g.write(count, length=LENGTH, temperature=t),
                asked.samples,
                training_text=together,
            )
            say(f"{order}-grams, temperature {temperature}", found)
    print("\nfour of them, temperature 0.8:\n")
    for text in sampled(generator, 0.8)(4):
        print(first_function(text)[0])


def learn(train: list[str], validation: list[str], asked: argparse.Namespace) -> Any:
    with tempfile.TemporaryDirectory() as place:
        files = {}
        for name, texts in (("train", train), ("validation", validation)):
            files[name] = Path(place) / f"{name}.jsonl"
            files[name].write_text("".join(json.dumps({"text": t}) + "\n" for t in texts), encoding="utf-8")
        return regard.train(
            "generate",
            files["train"],
            validation=files["validation"],
            out=asked.out,
            steps=asked.steps,
            progress=True,
            force=True,
            **SHAPE,
        )


def sampled(generator: TextGenerator, temperature: float) -> Any:
    def write(count: int) -> list[str]:
        found: list[str] = []
        while len(found) < count:
            prompts = [PROMPT] * min(TOGETHER, count - len(found))
            sampling = dict(temperature=temperature, top_k=None, max_new_tokens=NEW_TOKENS, seed=len(found))
            found += [text.text for text in generator(prompts, **sampling)]
        return found

    return write


def say(name: str, found: ParseRate) -> None:
    print(f"{name:<34}{found.share:>8.0%}{found.finished:>8}{found.copied:>8}", flush=True)


if __name__ == "__main__":
    main()
