"""Which combinations of words are kept out of training, and which split a sentence belongs to.

Both rules are fixed functions of the words, whatever the seed: a combination (adjective with noun, verb
with object, two nouns that 'it' could mean) is held out or it is not, and a sentence belongs to the
training, validation or test set by a checksum of its English text. So the sets stay disjoint however many
sentences are drawn. It knows nothing about how sentences are drawn or written.
"""

from __future__ import annotations

import itertools
import zlib
from functools import cache

from regard.data.world.lexicon import Adjective, Verb
from regard.data.world.meaning import Argument, Clause, Coordination, Gap, Nominal, Pronoun, Sentence, clauses, nominals
from regard.data.world.nouns import Noun
from regard.data.world.scenes import RIVALS

_EDITION = "j"  # another letter holds out other combinations; this one leaves every word common in training
_SHARE_OF_MODIFIERS = 6  # in a hundred
_SHARE_OF_OBJECTS = 6
_SHARE_OF_RIVALS = 15
_SHARE_OF_TEST = 6
_SHARE_OF_VALIDATION = 3


def _hundredth(text: str) -> int:
    """A number from 0 to 99 that depends on the text alone, spread evenly."""
    return zlib.crc32(f"{_EDITION}{text}".encode()) % 9973 % 100


@cache
def is_held_out_modifier(adjective: Adjective, noun: Noun) -> bool:
    """Whether this adjective is never said of this noun in training, beside it or after 'is'."""
    return not noun.is_name and _hundredth(f"modifier {adjective.english} {noun.english}") < _SHARE_OF_MODIFIERS


@cache
def is_held_out_object(verb: Verb, noun: Noun) -> bool:
    """Whether this verb never has this object in training."""
    # Verbs with one kind of object only ("light" a room) would lose that kind altogether.
    return "active" not in verb.flags and _hundredth(f"object {verb.name} {noun.english}") < _SHARE_OF_OBJECTS


@cache
def is_held_out_rivals(one: Noun, other: Noun) -> bool:
    """Whether these two nouns, between which an 'it' might choose, never meet in a training sentence."""
    if frozenset((one, other)) not in RIVALS:
        return False
    first, second = sorted((one.english, other.english))
    return _hundredth(f"rivals {first} {second}") < _SHARE_OF_RIVALS


def held_out_combinations(sentence: Sentence) -> list[tuple[str, str, str]]:
    """The combinations in this sentence that training never shows, as (kind, word, word)."""
    known = nominals(sentence)
    found = [
        ("rivals", one.noun.english, other.noun.english)
        for one, other in itertools.combinations(known, 2)
        if is_held_out_rivals(one.noun, other.noun)
    ]
    found += [
        ("modifier", adjective.english, nominal.noun.english)
        for nominal in known
        for adjective in nominal.adjectives
        if is_held_out_modifier(adjective, nominal.noun)
    ]
    for clause in clauses(sentence, known):
        found += _held_out_in_clause(clause)
    return found


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
    """The nouns that an argument is about, looking through pronouns and relative clauses."""
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
    """The split that a sentence without held-out combinations belongs to, by its English text."""
    place = _hundredth(source)
    if place < _SHARE_OF_TEST:
        return "test"
    if place < _SHARE_OF_TEST + _SHARE_OF_VALIDATION:
        return "validation"
    return "train"
