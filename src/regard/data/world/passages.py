"""Short passages with questions about them: the answer is a stretch of the passage, or there is none.

A passage tells a few deeds, each with another verb, so that a question about one of them has one answer: who did it,
what was done to, where or when it happened. It knows no tokens.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from regard.data.squad import Question
from regard.data.world.clauses import LOCATED, TRANSITIVE, draw_object
from regard.data.world.dice import Dice
from regard.data.world.english import write_english
from regard.data.world.lexicon import Verb
from regard.data.world.meaning import Clause, Nominal, Place, Sentence
from regard.data.world.nouns import NAMES
from regard.data.world.patterns import PAST_TIMES
from regard.data.world.phrases import PEOPLE, draw_nominal, draw_place
from regard.data.world.splits import draw_split
from regard.data.world.words import Word, Written, char_spans, join

KINDS = ("who", "what", "where", "when")
SENTENCES = (3, 4, 5)
_DEEDS: tuple[Verb, ...] = tuple(
    verb for verb in TRANSITIVE if verb in LOCATED and verb.is_direct and PEOPLE[0] in verb.subjects
)
_TIMES = tuple(PAST_TIMES.values())


@dataclass(frozen=True)
class _Fact:
    """A sentence of a passage, and which of its characters answer which question."""

    clause: Clause
    text: str
    spans: dict[str, tuple[int, int]]


def questions(split: str, *, count: int | None = None, seed: int = 0, impossible: float = 0.0) -> list[Question]:
    """Questions with their passages: train, validation or test. A share of `impossible` has no answer (SQuAD v2)."""
    found = draw_split(
        "questions",
        split,
        lambda dice: _draw(dice, impossible),
        lambda question: question.passage,
        count=count,
        seed=seed,
    )
    return [dataclasses.replace(question, id=f"{split}-{number}") for number, question in enumerate(found, start=1)]


def _draw(dice: Dice, impossible: float) -> Question:
    number = dice.pick(SENTENCES)
    verbs: list[Verb] = []
    while len(verbs) <= number:
        verb = dice.pick(_DEEDS)
        if verb not in verbs:
            verbs.append(verb)
    facts = [_fact(dice, verb) for verb in verbs]
    told, untold = facts[:number], facts[number]
    passage = " ".join(fact.text for fact in told)
    if dice.chance(impossible):
        return Question("", _ask(untold, dice.pick(sorted(untold.spans))), passage, (), impossible=True)
    asked = dice.pick(range(number))
    kind = dice.pick(sorted(told[asked].spans))
    before = sum(len(fact.text) + 1 for fact in told[:asked])
    start, end = told[asked].spans[kind]
    return Question("", _ask(told[asked], kind), passage, ((before + start, told[asked].text[start:end]),))


def _fact(dice: Dice, verb: Verb) -> _Fact:
    doers = tuple(noun for noun in PEOPLE if noun in verb.subjects and "kin" not in noun.tags)
    doer = dice.pick(NAMES) if dice.chance(0.5) else dice.pick(doers)
    clause = Clause(
        subject=draw_nominal(dice, doer, definite=True, plural=False, adjectives=0.2),
        verb=verb,
        past=True,
        object=draw_object(dice, verb, negated=False, definite=True),
        place=draw_place(dice),
        time=dice.pick(_TIMES) if dice.chance(0.5) else None,
    )
    written = write_english(Sentence(main=clause))
    words = [word.form for word in written.words]
    text = join(words, spaced_question_mark=False)
    return _Fact(clause, text, _spans(clause, written, text, words))


def _spans(clause: Clause, written: Written, text: str, words: list[str]) -> dict[str, tuple[int, int]]:
    """For each kind of question the characters of its answer."""
    places = char_spans(text, words)
    index = {word: number for number, word in enumerate(written.words)}
    answers: dict[str, list[Word]] = {}
    for kind, part in (("who", clause.subject), ("what", clause.object), ("where", clause.place)):
        head = part.nominal if isinstance(part, Place) else part
        if isinstance(head, Nominal):
            answers[kind] = _below(written, written.head_words[head])
    if clause.time is not None:
        answers["when"] = [word for word in written.words if _says_time(word, clause)]
    found = {}
    for kind, group in answers.items():
        numbers = [index[word] for word in group]
        found[kind] = places[min(numbers)][0], places[max(numbers)][1]
    if "human" in getattr(getattr(clause.object, "noun", None), "tags", ()):
        del found["what"]  # one asks for people with "whom"
    return found


def _below(written: Written, head: Word) -> list[Word]:
    """A word and all that hang from it."""
    group = [head]
    for word in group:
        group += [other for other in written.words if other.head is word]
    return group


def _says_time(word: Word, clause: Clause) -> bool:
    return any(source[0] is clause and str(source[1]).startswith("time") for source in _pairs(word))


def _pairs(word: Word) -> list[tuple[object, object]]:
    return [source for source in word.sources if isinstance(source, tuple) and len(source) == 2]


def _ask(fact: _Fact, kind: str) -> str:
    """The sentence of a fact as a question, without what is asked for."""
    clause = dataclasses.replace(fact.clause, place=None, time=None)
    if kind == "who":
        clause.subject = None
    elif kind == "what":
        clause.object = None
    written = write_english(Sentence(main=clause, question=kind))
    return join((word.form for word in written.words), spaced_question_mark=False)
