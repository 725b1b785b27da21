"""Sentences with the ambiguous words bank, spring and run; the context determines the sense."""

from __future__ import annotations

import re
from dataclasses import dataclass

from regard.data.synthetic.sampling import Rng, draw_split
from regard.data.synthetic.table_files import read_table
from regard.data.synthetic.words import capitalize
from regard.utils.errors import unknown

_PATTERNS = read_table("senses")
_CHOICE = re.compile(r"\[([^\]]*)\]")
SENSES: dict[str, tuple[str, ...]] = {
    word: tuple(dict.fromkeys(sense for other, sense, _ in _PATTERNS if other == word))
    for word in dict.fromkeys(word for word, _, _ in _PATTERNS)
}


@dataclass(frozen=True)
class SenseSentence:
    """A sentence with an ambiguous word, its position and its sense."""

    text: str
    word: str
    start: int  # index of the first character of the word
    sense: str


def sense_sentences(word: str, split: str = "train", *, count: int | None = None, seed: int = 0) -> list[SenseSentence]:
    """Sentences with one of the words of SENSES, with about equally frequent senses: train, validation or test."""
    if word not in SENSES:
        raise unknown("word with several senses", word, SENSES)
    count = {"train": 300, "validation": 30, "test": 90}.get(split) if count is None else count
    kind = f"senses of {word}"
    return draw_split(kind, split, lambda rng: _draw(rng, word), lambda drawn: drawn.text, count=count, seed=seed)


def _draw(rng: Rng, word: str) -> SenseSentence:
    sense = rng.pick(SENSES[word])
    pattern = rng.pick([text for *key, text in _PATTERNS if key == [word, sense]])
    text = capitalize(_CHOICE.sub(lambda choice: rng.pick(choice[1].split(";")), pattern)) + "."
    match = re.search(rf"\b{word}\b", text)
    assert match is not None, f"the pattern of {sense} has no {word}"
    return SenseSentence(text, word, match.start(), sense)
