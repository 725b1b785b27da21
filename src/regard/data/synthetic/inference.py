"""Pairs of sentences with labels: entailment, contradiction or neither, or with their similarity.

The second sentence is made from the meaning of the first by a change with a known effect: without a detail it is
entailed, with "not" it is contradicted, with another detail it is neither.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable

from regard.data.labelled import LabelledPair
from regard.data.synthetic.clauses import (
    LOCATED_VERBS_OF_PEOPLE,
    PAST_TIME_PHRASES,
    draw_clause,
    draw_object,
    people_for,
)
from regard.data.synthetic.english import english_text
from regard.data.synthetic.lexicon import Verb
from regard.data.synthetic.meaning import Clause, Nominal, Sentence
from regard.data.synthetic.nouns import NAMES, Noun
from regard.data.synthetic.phrases import draw_nominal, draw_place
from regard.data.synthetic.sampling import Rng, draw_split

ENTAILS, CONTRADICTS, NEITHER = "entails", "contradicts", "neither"
MAX_SIMILARITY = 5.0  # of sentences with the same meaning


def inferences(split: str, *, count: int | None = None, seed: int = 0) -> list[LabelledPair]:
    """Pairs labelled entails, contradicts or neither: train, validation or test."""
    return draw_split("inferences", split, _draw_inference, lambda pair: pair.first, count=count, seed=seed)


def similarities(split: str, *, count: int | None = None, seed: int = 0) -> list[LabelledPair]:
    """Pairs with a number from 0 (nothing in common) to 5 (the same meaning): train, validation or test."""
    return draw_split("similarities", split, _draw_similarity, lambda pair: pair.first, count=count, seed=seed)


def _draw_inference(rng: Rng) -> LabelledPair:
    premise = _draw_event(rng)
    label = rng.pick((ENTAILS, CONTRADICTS, NEITHER))
    hypothesis = _remove_details(rng, premise)
    if label == CONTRADICTS:
        hypothesis.polarity = "not"
    elif label == NEITHER:
        hypothesis = _change_part(rng, hypothesis)
    return LabelledPair(_text(premise), _text(hypothesis), label)


def _draw_similarity(rng: Rng) -> LabelledPair:
    first = second = _draw_event(rng)
    for _ in range(rng.pick((0, 1, 2, 3, 4))):
        second = _change_part(rng, second) if rng.chance(0.6) else _remove_details(rng, second)
    if rng.chance(0.2):
        second = _draw_event(rng)
    parts, others = _parts(first), _parts(second)
    shared = 2 * len(parts & others) / (len(parts) + len(others))
    return LabelledPair(_text(first), _text(second), round(MAX_SIMILARITY * shared, 2))


def _draw_event(rng: Rng) -> Clause:
    """A past event with a subject, an object, and a place or a time."""
    verb = rng.pick(LOCATED_VERBS_OF_PEOPLE)
    clause = draw_clause(rng, verb, past=True, definite=True)
    clause.subject = draw_nominal(rng, rng.pick(_subjects(verb)), definite=True, adjectives=0.4)
    clause.object = draw_object(rng, verb, definite=True)
    if rng.chance(0.6):
        clause.place = draw_place(rng)
    if clause.place is None or rng.chance(0.4):
        clause.time = rng.pick(PAST_TIME_PHRASES)
    return clause


def _subjects(verb: Verb) -> tuple[Noun, ...]:
    return people_for(verb) + NAMES


def _remove_details(rng: Rng, clause: Clause) -> Clause:
    """The clause without its place or time, and maybe without adjectives: entailed by `clause`."""
    removed = "both"
    if clause.place is not None and clause.time is not None:
        removed = rng.pick(("place", "time", "both"))
    shorter = dataclasses.replace(clause)
    if removed != "time":
        shorter.place = None
    if removed != "place":
        shorter.time = None
    if rng.chance(0.5):
        shorter.subject, shorter.object = _without_adjectives(clause.subject), _without_adjectives(clause.object)
    return shorter


def _without_adjectives(argument: object) -> Nominal | None:
    """The nominal with at most the adjective "other", which determines its referent."""
    if not isinstance(argument, Nominal):
        return None
    other = tuple(adjective for adjective in argument.adjectives if adjective.english == "other")
    return dataclasses.replace(argument, adjectives=other)


def _change_part(rng: Rng, clause: Clause) -> Clause:
    """The clause with another subject, object or verb: neither entailed nor contradicted."""
    verb = clause.verb
    assert verb is not None, "events have a verb"
    change = rng.pick(("subject", "object", "verb"))
    if change == "subject":
        subjects = [noun for noun in _subjects(verb) if noun is not _noun(clause.subject)]
        return dataclasses.replace(clause, subject=draw_nominal(rng, rng.pick(subjects), definite=True, adjectives=0.3))
    if change == "object":
        while True:
            object_ = draw_object(rng, verb, definite=True)
            if object_.noun is not _noun(clause.object):
                return dataclasses.replace(clause, object=object_)
    verbs = [
        other
        for other in LOCATED_VERBS_OF_PEOPLE
        if other is not verb and _noun(clause.object) in other.objects and _noun(clause.subject) in _subjects(other)
    ]
    return dataclasses.replace(clause, verb=rng.pick(verbs)) if verbs else _change_part(rng, clause)


def _noun(argument: object) -> Noun | None:
    return argument.noun if isinstance(argument, Nominal) else None


def _parts(clause: Clause) -> set[Hashable]:
    """The parts of a meaning that similarity counts."""
    parts: set[Hashable] = {("verb", clause.verb), ("polarity", clause.polarity)}
    if clause.time is not None:
        parts.add(("time", clause.time.name))
    place = clause.place.nominal if clause.place is not None else None
    for role, argument in (("subject", clause.subject), ("object", clause.object), ("place", place)):
        if isinstance(argument, Nominal):
            parts.add((role, argument.noun, argument.plural))
            parts |= {(role, adjective) for adjective in argument.adjectives}
    return parts


def _text(clause: Clause) -> str:
    return english_text(Sentence(main=clause))
