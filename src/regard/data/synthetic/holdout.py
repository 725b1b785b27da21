"""Which combinations of words are held out from training.

This depends on the words alone, not on the seed: a combination (adjective with noun, verb with object, two nouns that
'it' could refer to) is always held out or never.
"""

from __future__ import annotations

import itertools
from functools import cache

from regard.data.synthetic.lexicon import Adjective, Verb
from regard.data.synthetic.meaning import Argument, Clause, Coordination, Gap, Nominal, Pronoun, Sentence, nominals
from regard.data.synthetic.nouns import Noun
from regard.data.synthetic.sampling import percentile
from regard.data.synthetic.scenes import RIVALS

_MODIFIER_PERCENT, _OBJECT_PERCENT, _RIVALS_PERCENT = 6, 6, 15


@cache
def is_held_out_modifier(adjective: Adjective, noun: Noun) -> bool:
    """Whether this adjective never modifies this noun in training, as attribute or predicate."""
    return not noun.is_name and percentile(f"modifier {adjective.english} {noun.english}") < _MODIFIER_PERCENT


@cache
def is_held_out_object(verb: Verb, noun: Noun) -> bool:
    """Whether this verb never has this object in training."""
    # Verbs with one kind of object only ("light" a room) would lose all objects.
    return "active" not in verb.flags and percentile(f"object {verb.name} {noun.english}") < _OBJECT_PERCENT


@cache
def is_held_out_rivals(one: Noun, other: Noun) -> bool:
    """Whether these two nouns, which 'it' could refer to, never occur together in a training sentence."""
    first, second = sorted((one.english, other.english))
    return frozenset((one, other)) in RIVALS and percentile(f"rivals {first} {second}") < _RIVALS_PERCENT


def has_held_out_combination(sentence: Sentence) -> bool:
    """Whether any combination of words in this sentence is held out."""
    known = nominals(sentence)
    clauses = (sentence.main, sentence.second, *(nominal.relative for nominal in known))
    return (
        any(is_held_out_rivals(one.noun, other.noun) for one, other in itertools.combinations(known, 2))
        or any(is_held_out_modifier(adjective, nominal.noun) for nominal in known for adjective in nominal.adjectives)
        or any(clause is not None and _is_held_out(clause) for clause in clauses)
    )


def _is_held_out(clause: Clause) -> bool:
    if clause.adjective is not None:
        return any(is_held_out_modifier(clause.adjective, noun) for noun in _nouns(clause.subject))
    patient = clause.subject if clause.passive else clause.object
    return clause.verb is not None and any(is_held_out_object(clause.verb, noun) for noun in _nouns(patient))


def _nouns(argument: Argument | None) -> list[Noun]:
    """The nouns of an argument, also those that pronouns and relative clauses refer to."""
    match argument:
        case Nominal():
            return [argument.noun]
        case Gap():
            return [argument.nominal.noun]
        case Coordination():
            return [argument.first.noun, argument.second.noun]
        case Pronoun(antecedent=Nominal() as antecedent):
            return [antecedent.noun]
        case _:
            return []
