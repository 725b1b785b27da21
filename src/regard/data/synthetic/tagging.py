"""Sentences of the translation dataset with named entities: people, institutions and dates."""

from __future__ import annotations

from regard.data.synthetic.nouns import INSTITUTIONS, NAMES
from regard.data.synthetic.patterns import DATES
from regard.data.synthetic.sampling import SIZES, split_size
from regard.data.synthetic.translation import sentences
from regard.data.tagged import Tagged

_NAMES: dict[tuple[str, ...], str] = {
    **{(name.english,): "person" for name in NAMES},
    **{tuple(name.english.split()): "institution" for name in INSTITUTIONS},
    **{tuple(date.name.split()[1:]): "date" for date in DATES},
}
_LONGEST = max(map(len, _NAMES))


def named_entities(split: str, *, count: int | None = None, seed: int = 0) -> list[Tagged]:
    """Words with IOB2 tags (person, institution and date): train, validation or test."""
    pairs = sentences(split, count=split_size(split, count, SIZES), seed=seed)
    return [Tagged(pair.source_words, _tags(pair.source_words)) for pair in pairs]


def _tags(words: tuple[str, ...]) -> tuple[str, ...]:
    tags = ["O"] * len(words)
    place = 0
    while place < len(words):
        length = next((n for n in range(_LONGEST, 0, -1) if words[place : place + n] in _NAMES), 0)
        if length:
            kind = _NAMES[words[place : place + length]]
            tags[place : place + length] = [f"B-{kind}"] + [f"I-{kind}"] * (length - 1)
        place += max(1, length)
    return tuple(tags)
