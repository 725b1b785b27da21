"""Opinions on meals, hotels, films and prices, labelled positive or negative.

Single words do not decide: "not" inverts an adjective, and the clause after "but" decides, so a model has to combine
words.
"""

from __future__ import annotations

from dataclasses import dataclass

from regard.data.labelled import Labelled
from regard.data.synthetic.sampling import Rng, draw_split
from regard.data.synthetic.table_files import read_table
from regard.data.synthetic.words import capitalize

POSITIVE, NEGATIVE = "positive", "negative"
_OPPOSITE = {POSITIVE: NEGATIVE, NEGATIVE: POSITIVE}
_PLURALS = {"sausages"}
_ENDINGS = {
    POSITIVE: ["I will come back.", "We recommend it.", "What a lovely evening.", "My sister was happy.", ""],
    NEGATIVE: ["I will never come back.", "We want our money back.", "What a waste of time.", "My sister left.", ""],
}
_DEGREES = ("", "very ", "really ", "quite ", "")


@dataclass(frozen=True)
class _Topic:
    name: str
    subjects: list[str]
    words: dict[str, list[str]]  # by label


TOPICS = tuple(
    _Topic(name, subjects.split(";"), {POSITIVE: positive.split(";"), NEGATIVE: negative.split(";")})
    for name, subjects, positive, negative in read_table("opinions")
)


def opinions(split: str, *, count: int | None = None, seed: int = 0) -> list[Labelled]:
    """Texts labelled positive or negative: train, validation or test."""
    return draw_split("opinions", split, _draw, lambda opinion: opinion.text, count=count, seed=seed)


def _draw(rng: Rng) -> Labelled:
    label = rng.pick((POSITIVE, NEGATIVE))
    topics = rng.pick(TOPICS), rng.pick(TOPICS)
    shape = rng.pick(("one", "and", "but", "although", "two"))
    first = _judge(rng, topics[0], _OPPOSITE[label] if shape in ("but", "although") else label)
    text = first if shape == "one" else _join(shape, first, _judge(rng, topics[1], label))
    ending = rng.pick(_ENDINGS[label])
    return Labelled(f"{capitalize(text)}. {ending}".strip(), (label,))


def _join(shape: str, first: str, second: str) -> str:
    if shape == "although":
        return f"although {first}, {second}"
    if shape == "two":
        return f"{first}. {capitalize(second)}"
    return f"{first}, but {second}" if shape == "but" else f"{first} and {second}"


def _judge(rng: Rng, topic: _Topic, label: str) -> str:
    """A judgement, sometimes by negation: "the soup was not cold"."""
    subject = rng.pick(topic.subjects)
    verb = "were" if subject in _PLURALS else "was"
    start = f"{rng.pick(('the', 'their', 'our'))} {subject} {verb}"
    if rng.chance(0.3):
        return f"{start} {rng.pick(('not', 'never', 'not at all'))} {rng.pick(topic.words[_OPPOSITE[label]])}"
    return f"{start} {rng.pick(_DEGREES)}{rng.pick(topic.words[label])}"
