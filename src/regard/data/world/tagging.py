"""Sentences with a tag for each word: parts of speech, or the names of people and institutions and dates.

The sentences are those of the translation world, whose grammar knows both. It knows no tokens.
"""

from __future__ import annotations

from regard.data.tagged import Tagged
from regard.data.world.nouns import INSTITUTIONS, NAMES
from regard.data.world.patterns import DATES
from regard.data.world.splits import SIZES
from regard.data.world.translation import WorldPair, sentences
from regard.errors import unknown

_NAMES: dict[tuple[str, ...], str] = {
    **{(name.english,): "person" for name in NAMES},
    **{tuple(name.english.split()): "institution" for name in INSTITUTIONS},
    **{tuple(date.name.split()[1:]): "date" for date in DATES},
}
_LONGEST = max(map(len, _NAMES))


def parts_of_speech(split: str, *, count: int | None = None, seed: int = 0) -> list[Tagged]:
    """Words with the tags of Universal Dependencies: train, validation or test."""
    return [Tagged(pair.source_words, pair.source_pos) for pair in _sentences(split, count, seed)]


def named_entities(split: str, *, count: int | None = None, seed: int = 0) -> list[Tagged]:
    """Words with the tags of IOB2: person, institution and date."""
    return [Tagged(pair.source_words, _names(pair.source_words)) for pair in _sentences(split, count, seed)]


def _sentences(split: str, count: int | None, seed: int) -> list[WorldPair]:
    if split not in SIZES:
        raise unknown("split of the built-in world", split, SIZES)
    return sentences(split, count=SIZES[split] if count is None else count, seed=seed)


def _names(words: tuple[str, ...]) -> tuple[str, ...]:
    tags = ["O"] * len(words)
    place = 0
    while place < len(words):
        length = next((n for n in range(_LONGEST, 0, -1) if words[place : place + n] in _NAMES), 0)
        if length:
            kind = _NAMES[words[place : place + length]]
            tags[place : place + length] = [f"B-{kind}"] + [f"I-{kind}"] * (length - 1)
        place += max(1, length)
    return tuple(tags)
