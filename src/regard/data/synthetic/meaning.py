"""The meaning of a sentence, independent of a language: a small tree of nominals and clauses.

The same tree is written in English and in French. Words from the same node are translations of each other, which gives
the gold alignment. Nodes are compared by identity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from regard.data.synthetic.lexicon import Adjective, Noun, Phrase, Verb


@dataclass(eq=False, slots=True, kw_only=True)
class Nominal:
    """A noun with its modifiers: "the queen's small black cat"."""

    person: ClassVar[int] = 3
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


@dataclass(eq=False, slots=True, kw_only=True)
class Coordination:
    """Two nominals joined by 'and': plural, and masculine in French unless both are feminine."""

    person: ClassVar[int] = 3
    plural: ClassVar[bool] = True
    first: Nominal
    second: Nominal

    @property
    def gender(self) -> str:
        return "f" if self.first.gender == self.second.gender == "f" else "m"


@dataclass(eq=False, slots=True, kw_only=True)
class Pronoun:
    """A personal pronoun; `it` and `they` take their gender from their antecedent."""

    gender: str
    plural: bool = False
    person: int = 3
    human: bool = False  # True for he and she, False for it
    antecedent: Nominal | None = None


@dataclass(eq=False, slots=True)
class Gap:
    """The head noun inside its relative clause: who, that."""

    person: ClassVar[int] = 3
    nominal: Nominal

    @property
    def plural(self) -> bool:
        return self.nominal.plural

    @property
    def gender(self) -> str:
        return self.nominal.gender


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
    passive: bool = False  # the subject is the patient
    silent_subject: bool = False  # the subject of the first clause is not repeated: "sings and dances"
    object: Argument | None = None
    agent: Nominal | None = None  # of a passive clause
    recipient: Nominal | None = None
    frequency: Phrase | None = None
    manner: Phrase | None = None
    place: Place | None = None
    time: Phrase | None = None

    @property
    def person_index(self) -> int:
        """The index of the subject's form in a table with the forms for I, he, we and they."""
        return 1 if self.subject is None else 2 * self.subject.plural + (self.subject.person == 3)


@dataclass(eq=False, slots=True, kw_only=True)
class Sentence:
    """One or two clauses; `question` is "", "yes-no", "who", "what", "where", "when" or "why"."""

    main: Clause
    question: str = ""
    connector: Phrase | None = None
    second: Clause | None = None


def _arguments(clause: Clause | None) -> list[Argument]:
    """The arguments of a clause and the noun of its place."""
    if clause is None:
        return []
    place = clause.place.nominal if clause.place is not None else None
    arguments = (clause.subject, clause.object, clause.agent, clause.recipient, place)
    return [argument for argument in arguments if argument is not None]


def nominals(sentence: Sentence) -> list[Nominal]:
    """All nominals of a sentence, including nested ones, each once."""
    pending = _arguments(sentence.main) + _arguments(sentence.second)
    visited: list[Nominal] = []
    while pending:
        argument = pending.pop()
        if isinstance(argument, Coordination):
            pending += (argument.first, argument.second)
        elif isinstance(argument, Nominal) and argument not in visited:
            visited.append(argument)
            if argument.possessor is not None:
                pending.append(argument.possessor)
            if argument.place is not None:
                pending.append(argument.place.nominal)
            pending += _arguments(argument.relative)
    return visited
