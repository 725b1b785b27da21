"""Pairs of sentences with labels: entailment, contradiction or neither, or with their similarity.

The second sentence is made from the meaning of the first by a change with a known effect: without a detail it is
entailed, with "not" it is contradicted, with another detail it is neither.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable

from regard.data.labelled import LabelledPair
from regard.data.synthetic.clauses import LOCATED_DEEDS, PAST_TIME_PHRASES, draw_object, event, people_for
from regard.data.synthetic.dice import Dice
from regard.data.synthetic.english import english_text
from regard.data.synthetic.lexicon import Verb
from regard.data.synthetic.meaning import Clause, Nominal, Sentence
from regard.data.synthetic.nouns import NAMES, Noun
from regard.data.synthetic.phrases import draw_nominal, draw_place
from regard.data.synthetic.splits import draw_split

ENTAILS, CONTRADICTS, NEITHER = "entails", "contradicts", "neither"
MAX_SIMILARITY = 5.0  # of sentences with the same meaning


def inferences(split: str, *, count: int | None = None, seed: int = 0) -> list[LabelledPair]:
    """Pairs labelled entails, contradicts or neither: train, validation or test."""
    return draw_split("inferences", split, _draw_inference, lambda pair: pair.first, count=count, seed=seed)


def similarities(split: str, *, count: int | None = None, seed: int = 0) -> list[LabelledPair]:
    """Pairs with a number from 0 (nothing in common) to 5 (the same meaning): train, validation or test."""
    return draw_split("similarities", split, _draw_similarity, lambda pair: pair.first, count=count, seed=seed)


def _draw_inference(dice: Dice) -> LabelledPair:
    clause = _deed(dice)
    label = dice.pick((ENTAILS, CONTRADICTS, NEITHER))
    if label == ENTAILS:
        other = _less(dice, clause)
    elif label == CONTRADICTS:
        other = dataclasses.replace(_less(dice, clause), polarity="not")
    else:
        other = _other(dice, _less(dice, clause))
    return LabelledPair(_text(clause), _text(other), label)


def _draw_similarity(dice: Dice) -> LabelledPair:
    first = second = _deed(dice)
    for _ in range(dice.pick((0, 1, 2, 3, 4))):
        second = _other(dice, second) if dice.chance(0.6) else _less(dice, second)
    if dice.chance(0.2):
        second = _deed(dice)
    return LabelledPair(_text(first), _text(second), round(MAX_SIMILARITY * _shared(first, second), 2))


def _deed(dice: Dice) -> Clause:
    """A past event with a subject, an object, and a place or a time."""
    verb = dice.pick(LOCATED_DEEDS)
    clause = event(dice, verb, past=True, definite=True)
    clause.subject = draw_nominal(dice, dice.pick(_doers(verb)), definite=True, adjectives=0.4)
    clause.object = draw_object(dice, verb, negated=False, definite=True)
    if dice.chance(0.6):
        clause.place = draw_place(dice)
    if clause.place is None or dice.chance(0.4):
        clause.time = dice.pick(PAST_TIME_PHRASES)
    return clause


def _doers(verb: Verb) -> tuple[Noun, ...]:
    return people_for(verb) + NAMES


def _less(dice: Dice, clause: Clause) -> Clause:
    """The clause without its place or time, and maybe without adjectives: entailed by `clause`."""
    both = clause.place is not None and clause.time is not None
    without = dice.pick(("place", "time", "both")) if both else "both"
    shorter = dataclasses.replace(
        clause,
        place=None if without in ("place", "both") else clause.place,
        time=None if without in ("time", "both") else clause.time,
    )
    if dice.chance(0.5):
        shorter.subject, shorter.object = _bare(clause.subject), _bare(clause.object)
    return shorter


def _bare(argument: object) -> Nominal | None:
    if not isinstance(argument, Nominal):
        return None
    kept = tuple(adjective for adjective in argument.adjectives if adjective.english == "other")
    return dataclasses.replace(argument, adjectives=kept)


def _other(dice: Dice, clause: Clause) -> Clause:
    """The clause with another subject, object or verb: neither entailed nor contradicted."""
    verb = clause.verb
    assert verb is not None, "events have a verb"
    change = dice.pick(("subject", "object", "verb"))
    if change == "subject":
        doers = [noun for noun in _doers(verb) if not _is_about(clause.subject, noun)]
        return dataclasses.replace(clause, subject=draw_nominal(dice, dice.pick(doers), definite=True, adjectives=0.3))
    if change == "object":
        while True:
            object_ = draw_object(dice, verb, negated=False, definite=True)
            if not _is_about(clause.object, object_.noun):
                return dataclasses.replace(clause, object=object_)
    others = [
        other
        for other in LOCATED_DEEDS
        if other is not verb and _suits(clause.object, other.objects) and _suits(clause.subject, _doers(other))
    ]
    return dataclasses.replace(clause, verb=dice.pick(others)) if others else _other(dice, clause)


def _is_about(argument: object, noun: object) -> bool:
    return isinstance(argument, Nominal) and argument.noun is noun


def _suits(argument: object, nouns: tuple[Noun, ...]) -> bool:
    return isinstance(argument, Nominal) and argument.noun in nouns


def _shared(first: Clause, second: Clause) -> float:
    """The share of the parts of both meanings that are the same."""
    one, other = _parts(first), _parts(second)
    return 2 * len(one & other) / (len(one) + len(other))


def _parts(clause: Clause) -> set[Hashable]:
    found: set[Hashable] = {("verb", clause.verb), ("polarity", clause.polarity)}
    if clause.time is not None:
        found.add(("time", clause.time.name))
    place = clause.place.nominal if clause.place is not None else None
    for role, argument in (("subject", clause.subject), ("object", clause.object), ("place", place)):
        if isinstance(argument, Nominal):
            found.add((role, argument.noun, argument.plural))
            found |= {(role, adjective) for adjective in argument.adjectives}
    return found


def _text(clause: Clause) -> str:
    return english_text(Sentence(main=clause))
