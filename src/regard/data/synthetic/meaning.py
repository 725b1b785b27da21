"""The meaning of a sentence, independent of a language: a small tree of nominals and clauses.

The same tree is written in English and in French. Words from the same node are translations of each other, which gives
the gold alignment. Nodes are compared by identity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from regard.data.synthetic.lexicon import Adjective, Verb
from regard.data.synthetic.nouns import Noun
from regard.data.synthetic.patterns import Phrase


@dataclass(eq=False, slots=True, kw_only=True)
class Nominal:
    """A noun with its modifiers: "the queen's small black cat"."""

    noun: Noun
    determiner: str = "the"  # "", "the", "a", "some", "any", "this", "every", "several" or a possessive
    plural: bool = False
    numeral: Phrase | None = None
    adjectives: tuple[Adjective, ...] = ()  # in the English order
    possessor: Nominal | None = None
    place: Place | None = None
    relative: Clause | None = None

    @property
    def gender(self) -> str:
        return self.noun.gender

    @property
    def person(self) -> int:
        return 3


@dataclass(eq=False, slots=True, kw_only=True)
class Coordination:
    """Two nominals joined by 'and': plural, and masculine in French unless both are feminine."""

    first: Nominal
    second: Nominal

    @property
    def plural(self) -> bool:
        return True

    @property
    def gender(self) -> str:
        return "f" if self.first.gender == self.second.gender == "f" else "m"

    @property
    def person(self) -> int:
        return 3


@dataclass(eq=False, slots=True, kw_only=True)
class Pronoun:
    """A personal pronoun; `it` and `they` take their gender from their antecedent."""

    gender: str
    plural: bool = False
    person: int = 3
    human: bool = False  # he or she rather than it
    antecedent: Nominal | None = None


@dataclass(eq=False, slots=True)
class Gap:
    """The head noun inside its relative clause: who, that."""

    nominal: Nominal

    @property
    def plural(self) -> bool:
        return self.nominal.plural

    @property
    def gender(self) -> str:
        return self.nominal.gender

    @property
    def person(self) -> int:
        return 3


Argument: TypeAlias = Nominal | Coordination | Pronoun | Gap


@dataclass(eq=False, slots=True)
class Place:
    """A preposition and its noun: "near the old bridge"."""

    preposition: Phrase
    nominal: Nominal


@dataclass(eq=False, slots=True, kw_only=True)
class Clause:
    """A subject and its predicate: a verb with its arguments, or 'is' with an adjective."""

    subject: Argument | None  # None: the question word is the subject, as in "Who ate the cake?"
    verb: Verb | None = None
    adjective: Adjective | None = None
    degree: Phrase | None = None
    past: bool = False
    polarity: str = ""  # "", "not" or "never"
    passive: bool = False  # the subject is the patient, `agent` the doer
    silent_subject: bool = False  # the same as in the first clause: "sings and dances"
    object: Argument | None = None
    agent: Nominal | None = None
    recipient: Nominal | None = None
    frequency: Phrase | None = None
    manner: Phrase | None = None
    place: Place | None = None
    time: Phrase | None = None


@dataclass(eq=False, slots=True, kw_only=True)
class Sentence:
    """One or two clauses; `question` is "", "yes-no", "who", "what", "where", "when" or "why"."""

    main: Clause
    question: str = ""
    connector: Phrase | None = None
    second: Clause | None = None


def arguments(clause: Clause) -> list[Argument]:
    """The arguments of a clause and the noun of its place."""
    found: list[Argument | None] = [clause.subject, clause.object, clause.agent, clause.recipient]
    if clause.place is not None:
        found.append(clause.place.nominal)
    return [argument for argument in found if argument is not None]


def nominals(sentence: Sentence) -> list[Nominal]:
    """All nominals of a sentence, also nested ones, each once."""
    waiting = arguments(sentence.main)
    if sentence.second is not None:
        waiting += arguments(sentence.second)
    found: list[Nominal] = []
    while waiting:
        argument = waiting.pop()
        if isinstance(argument, Coordination):
            waiting += (argument.first, argument.second)
        elif isinstance(argument, Nominal) and argument not in found:
            found.append(argument)
            waiting += _inside(argument)
    return found


def _inside(nominal: Nominal) -> list[Argument]:
    inner: list[Argument] = []
    if nominal.possessor is not None:
        inner.append(nominal.possessor)
    if nominal.place is not None:
        inner.append(nominal.place.nominal)
    if nominal.relative is not None:
        inner += arguments(nominal.relative)
    return inner


def clauses(sentence: Sentence, known: list[Nominal]) -> list[Clause]:
    """The clauses of a sentence whose nominals are `known`, also relative clauses."""
    found = [sentence.main]
    if sentence.second is not None:
        found.append(sentence.second)
    found += [nominal.relative for nominal in known if nominal.relative is not None]
    return found
