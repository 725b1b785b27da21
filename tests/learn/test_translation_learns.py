"""A small Transformer learns in seconds to translate numbers that it has not seen.

Numbers below ten thousand in English and German, where units come before tens and all is one word (forty-two,
zweiundvierzig): tokens must be found, moved and joined. It trains on 2,700 numbers and is tested on 200 others; a
translation counts if every letter is right.
"""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.metrics.translation import chrf
from regard.training.callbacks import read_metrics

ENGLISH = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
ENGLISH_TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
GERMAN = (
    "null", "ein", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "elf", "zwölf",
    "dreizehn", "vierzehn", "fünfzehn", "sechzehn", "siebzehn", "achtzehn", "neunzehn",
)  # fmt: skip
GERMAN_TENS = ("", "", "zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig")

TRAINED, ASKED = 2700, 200
SHAPE: dict[str, Any] = dict(size="tiny", d_model=64, head_dim=16, d_ff=128, vocab_size=400, batch_tokens=1024)


def english(n: int) -> str:
    if n < 20:
        return ENGLISH[n]
    if n < 100:
        return ENGLISH_TENS[n // 10] + (f"-{ENGLISH[n % 10]}" if n % 10 else "")
    if n < 1000:
        return f"{ENGLISH[n // 100]} hundred" + (f" and {english(n % 100)}" if n % 100 else "")
    joint = " and " if n % 1000 < 100 else " "
    return f"{english(n // 1000)} thousand" + (joint + english(n % 1000) if n % 1000 else "")


def german(n: int) -> str:
    if n >= 1000:
        return german_part(n // 1000) + "tausend" + (german(n % 1000) if n % 1000 else "")
    return german_part(n) + ("s" if n % 100 == 1 else "")


def german_part(n: int) -> str:
    """A number to which something is added: ein, not eins."""
    if n < 20:
        return GERMAN[n]
    if n < 100:
        return (f"{GERMAN[n % 10]}und" if n % 10 else "") + GERMAN_TENS[n // 10]
    return f"{GERMAN[n // 100]}hundert" + (german_part(n % 100) if n % 100 else "")


def test_the_language_is_right() -> None:
    numbers = {
        1: ("one", "eins"),
        17: ("seventeen", "siebzehn"),
        21: ("twenty-one", "einundzwanzig"),
        101: ("one hundred and one", "einhunderteins"),
        1007: ("one thousand and seven", "eintausendsieben"),
        9836: ("nine thousand eight hundred and thirty-six", "neuntausendachthundertsechsunddreißig"),
    }
    assert {n: (english(n), german(n)) for n in numbers} == numbers


@pytest.mark.parametrize(
    ("settings", "exact"),
    [
        (dict(recipe="default", warmup_steps=30), 0.9),
        # The rate and warm-up of 2017 are made for a hundred thousand steps; here it must do with less.
        (dict(recipe="paper", warmup_steps=80, learning_rate=0.005), 0.8),
    ],
    ids=["default", "paper"],
)
def test_unseen_numbers_are_translated(settings: dict[str, Any], exact: float, tmp_path: Path) -> None:
    numbers = random.Random(0).sample(range(1, 10_000), TRAINED + ASKED)
    file = tmp_path / "numbers.tsv"
    file.write_text("".join(f"{english(n)}\t{german(n)}\n" for n in numbers[:TRAINED]), encoding="utf-8")
    run = tmp_path / "run"
    translator = regard.train("translate", file, out=run, steps=250, num_evals=5, **SHAPE, **settings)
    asked = numbers[TRAINED:]
    outputs = [translation.text for translation in translator([english(n) for n in asked], num_beams=1)]
    right = sum(output == german(n) for output, n in zip(outputs, asked, strict=True)) / ASKED
    assert right >= exact
    assert chrf(outputs, [german(n) for n in asked]).value >= 95
    losses = [row["validation_loss"] for row in read_metrics(run) if "validation_loss" in row]
    # Once it has nothing left to learn, label smoothing lets the plain loss move a little.
    assert all(b < a + 0.02 for a, b in itertools.pairwise(losses)), "the loss on held-out numbers falls all the way"
    assert losses[-1] < 0.4
