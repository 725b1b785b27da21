"""Which combinations of words are held out from training, and which split a sentence belongs to.

Both depend on the words alone, not on the seed. A combination (adjective with noun, verb with object, two nouns that
'it' could refer to) is always held out or never. A checksum of its English text puts a sentence into the training,
validation or test set. So the sets are disjoint for any number of sentences.
"""

from __future__ import annotations

import itertools
import zlib
from functools import cache

from regard.data.synthetic.lexicon import Adjective, Verb
from regard.data.synthetic.meaning import (
    Argument,
    Clause,
    Coordination,
    Gap,
    Nominal,
    Pronoun,
    Sentence,
    clauses,
    nominals,
)
from regard.data.synthetic.nouns import Noun
from regard.data.synthetic.scenes import RIVALS

_EDITION = "j"  # other letters hold out other combinations; with this one, every word is frequent in training
_SHARE_OF_MODIFIERS = 6  # percent, like those below
_SHARE_OF_OBJECTS = 6
_SHARE_OF_RIVALS = 15
_SHARE_OF_TEST = 6
_SHARE_OF_VALIDATION = 3


def _hundredth(text: str) -> int:
    """A number from 0 to 99, evenly distributed over texts."""
    return zlib.crc32(f"{_EDITION}{text}".encode()) % 9973 % 100


@cache
def is_held_out_modifier(adjective: Adjective, noun: Noun) -> bool:
    """Whether this adjective never modifies this noun in training, as attribute or predicate."""
    return not noun.is_name and _hundredth(f"modifier {adjective.english} {noun.english}") < _SHARE_OF_MODIFIERS


@cache
def is_held_out_object(verb: Verb, noun: Noun) -> bool:
    """Whether this verb never has this object in training."""
    # Verbs with one kind of object only ("light" a room) would lose all objects.
    return "active" not in verb.flags and _hundredth(f"object {verb.name} {noun.english}") < _SHARE_OF_OBJECTS


@cache
def is_held_out_rivals(one: Noun, other: Noun) -> bool:
    """Whether these two nouns, which 'it' could refer to, never occur together in a training sentence."""
    if frozenset((one, other)) not in RIVALS:
        return False
    first, second = sorted((one.english, other.english))
    return _hundredth(f"rivals {first} {second}") < _SHARE_OF_RIVALS


def held_out_combinations(sentence: Sentence) -> list[tuple[str, str, str]]:
    """The combinations of this sentence that do not occur in training, as (kind, word, word)."""
    known = nominals(sentence)
    combinations = [
        ("rivals", one.noun.english, other.noun.english)
        for one, other in itertools.combinations(known, 2)
        if is_held_out_rivals(one.noun, other.noun)
    ]
    combinations += [
        ("modifier", adjective.english, nominal.noun.english)
        for nominal in known
        for adjective in nominal.adjectives
        if is_held_out_modifier(adjective, nominal.noun)
    ]
    for clause in clauses(sentence, known):
        combinations += _held_out_in_clause(clause)
    return combinations


def _held_out_in_clause(clause: Clause) -> list[tuple[str, str, str]]:
    if clause.adjective is not None:
        return [
            ("modifier", clause.adjective.english, noun.english)
            for noun in _nouns_meant(clause.subject)
            if is_held_out_modifier(clause.adjective, noun)
        ]
    if clause.verb is not None:
        return [
            ("object", clause.verb.name, noun.english)
            for noun in _nouns_meant(clause.subject if clause.passive else clause.object)
            if is_held_out_object(clause.verb, noun)
        ]
    return []


def _nouns_meant(argument: Argument | None) -> list[Noun]:
    """The nouns of an argument, also those that pronouns and relative clauses refer to."""
    if isinstance(argument, Nominal):
        return [argument.noun]
    if isinstance(argument, Gap):
        return [argument.nominal.noun]
    if isinstance(argument, Coordination):
        return [argument.first.noun, argument.second.noun]
    if isinstance(argument, Pronoun) and argument.antecedent is not None:
        return [argument.antecedent.noun]
    return []


def split_of(source: str) -> str:
    """The split of a sentence without held-out combinations, by its English text."""
    place = _hundredth(source)
    if place < _SHARE_OF_TEST:
        return "test"
    if place < _SHARE_OF_TEST + _SHARE_OF_VALIDATION:
        return "validation"
    return "train"
