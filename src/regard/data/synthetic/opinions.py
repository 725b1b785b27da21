"""Opinions on meals, hotels, films and prices, labelled positive or negative.

Single words do not decide: "not" inverts an adjective, and what follows "but" counts more, so a model has to combine
words.
"""

from __future__ import annotations

from dataclasses import dataclass

from regard.data.labelled import Labelled
from regard.data.synthetic.dice import Dice
from regard.data.synthetic.splits import draw_split

POSITIVE, NEGATIVE = "positive", "negative"
# topic | things | positive words | negative words
_TOPIC_LINES = """
food    | soup;cake;coffee;bread;pizza;salad;cheese;sausages;dessert;breakfast   | delicious;fresh;excellent;tasty;perfect       | cold;salty;bitter;dry;awful
service | waiter;waitress;manager;staff;receptionist;cook                        | polite;friendly;patient;attentive;generous   | rude;slow;lazy;impatient;unfriendly
room    | room;bed;bathroom;kitchen;garden;terrace                               | clean;comfortable;quiet;bright;spacious       | dirty;noisy;dark;cramped;smelly
film    | film;story;ending;music;actress;actor;dialogue                         | moving;funny;brilliant;exciting;clever        | boring;predictable;tedious;silly;lifeless
price   | price;menu;wine list;ticket;discount                                   | fair;reasonable;honest;attractive             | outrageous;unfair;excessive;absurd
"""  # noqa: E501
_PLURALS = {"sausages"}
_ENDINGS = {
    POSITIVE: ("I will come back.", "We recommend it.", "What a lovely evening.", "My sister was happy.", ""),
    NEGATIVE: ("I will never come back.", "We want our money back.", "What a waste of time.", "My sister left.", ""),
}  # fmt: skip
_DEGREES = ("", "very ", "really ", "quite ", "")


@dataclass(frozen=True)
class _Topic:
    name: str
    things: tuple[str, ...]
    words: dict[str, tuple[str, ...]]


def _topic(line: str) -> _Topic:
    name, things, good, bad = (part.strip() for part in line.split("|"))
    split = {POSITIVE: tuple(good.split(";")), NEGATIVE: tuple(bad.split(";"))}
    return _Topic(name, tuple(things.split(";")), split)


TOPICS = tuple(_topic(line) for line in _TOPIC_LINES.strip().splitlines())


def opinions(split: str, *, count: int | None = None, seed: int = 0) -> list[Labelled]:
    """Texts labelled positive or negative: train, validation or test."""
    return draw_split("opinions", split, _draw, lambda opinion: opinion.text, count=count, seed=seed)


def _draw(dice: Dice) -> Labelled:
    feeling = dice.pick((POSITIVE, NEGATIVE))
    other = NEGATIVE if feeling == POSITIVE else POSITIVE
    first, second = dice.pick(TOPICS), dice.pick(TOPICS)
    shape = dice.pick(("one", "and", "but", "although", "two"))
    if shape == "one":
        text = f"{_judge(dice, first, feeling)}."
    elif shape == "and":
        text = f"{_judge(dice, first, feeling)} and {_judge(dice, second, feeling)}."
    elif shape == "but":
        text = f"{_judge(dice, first, other)}, but {_judge(dice, second, feeling)}."
    elif shape == "although":
        text = f"although {_judge(dice, first, other)}, {_judge(dice, second, feeling)}."
    else:
        text = f"{_judge(dice, first, feeling)}. {_capital(_judge(dice, second, feeling))}."
    ending = dice.pick(_ENDINGS[feeling])
    return Labelled(f"{_capital(text)} {ending}".strip(), (feeling,))


def _judge(dice: Dice, topic: _Topic, feeling: str) -> str:
    """A judgement, sometimes by negation: "the soup was not cold"."""
    thing = dice.pick(topic.things)
    verb = "were" if thing in _PLURALS else "was"
    start = f"{dice.pick(('the', 'their', 'our'))} {thing} {verb}"
    if dice.chance(0.3):
        opposite = NEGATIVE if feeling == POSITIVE else POSITIVE
        return f"{start} {dice.pick(('not', 'never', 'not at all'))} {dice.pick(topic.words[opposite])}"
    return f"{start} {dice.pick(_DEGREES)}{dice.pick(topic.words[feeling])}"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
