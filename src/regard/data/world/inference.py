"""Pairs of sentences: what follows from the first, what contradicts it, what is neither; and how alike they are.

The second sentence comes from the meaning of the first by a change whose effect is known: leaving out a detail keeps
it true, a "not" makes it false, another detail leaves it open. It knows no tokens.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable

from regard.data.labelled import LabelledPair
from regard.data.world.clauses import LOCATED, TRANSITIVE, draw_object, event
from regard.data.world.dice import Dice
from regard.data.world.english import write_english
from regard.data.world.lexicon import Verb
from regard.data.world.meaning import Clause, Nominal, Sentence
from regard.data.world.nouns import NAMES, Noun
from regard.data.world.patterns import PAST_TIMES
from regard.data.world.phrases import PEOPLE, draw_nominal, draw_place
from regard.data.world.splits import draw_split
from regard.data.world.words import join

ENTAILS, CONTRADICTS, NEITHER = "entails", "contradicts", "neither"
MOST_ALIKE = 5.0  # two sentences that say the same
_DEEDS: tuple[Verb, ...] = tuple(
    verb for verb in TRANSITIVE if verb in LOCATED and verb.is_direct and PEOPLE[0] in verb.subjects
)
_TIMES = tuple(PAST_TIMES.values())


def inferences(split: str, *, count: int | None = None, seed: int = 0) -> list[LabelledPair]:
    """Pairs labelled entails, contradicts or neither: train, validation or test."""
    return draw_split("inferences", split, _draw_inference, lambda pair: pair.first, count=count, seed=seed)


def similarities(split: str, *, count: int | None = None, seed: int = 0) -> list[LabelledPair]:
    """Pairs with a number from 0 (nothing in common) to 5 (the same): how much of their meaning they share."""
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
    return LabelledPair(_text(first), _text(second), round(MOST_ALIKE * _shared(first, second), 2))


def _deed(dice: Dice) -> Clause:
    """Somebody did something to something, somewhere or some time."""
    verb = dice.pick(_DEEDS)
    clause = event(dice, verb, past=True, definite=True)
    clause.subject = draw_nominal(dice, dice.pick(_doers(verb)), definite=True, adjectives=0.4)
    clause.object = draw_object(dice, verb, negated=False, definite=True)
    if dice.chance(0.6):
        clause.place = draw_place(dice)
    if clause.place is None or dice.chance(0.4):
        clause.time = dice.pick(_TIMES)
    return clause


def _doers(verb: Verb) -> tuple[Noun, ...]:
    return tuple(noun for noun in PEOPLE if noun in verb.subjects and "kin" not in noun.tags) + NAMES


def _less(dice: Dice, clause: Clause) -> Clause:
    """The same without the place or the time, and perhaps without adjectives: true whenever `clause` is."""
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
    """Another doer, another object or another deed: it may be so or not."""
    verb = clause.verb
    assert verb is not None, "a deed has a verb"
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
        deed for deed in _DEEDS if deed is not verb and _suits(clause.object, deed.objects) and _done_by(clause, deed)
    ]
    return dataclasses.replace(clause, verb=dice.pick(others)) if others else _other(dice, clause)


def _is_about(argument: object, noun: object) -> bool:
    return isinstance(argument, Nominal) and argument.noun is noun


def _suits(argument: object, nouns: tuple[object, ...]) -> bool:
    return isinstance(argument, Nominal) and argument.noun in nouns


def _done_by(clause: Clause, verb: Verb) -> bool:
    return isinstance(clause.subject, Nominal) and clause.subject.noun in _doers(verb)


def _shared(first: Clause, second: Clause) -> float:
    """The share of the parts of both meanings that they have in common."""
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
    written = write_english(Sentence(main=clause))
    return join((word.form for word in written.words), spaced_question_mark=False)
