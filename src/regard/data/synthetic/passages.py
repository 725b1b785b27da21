"""Short passages with questions: the answer is a span of the passage, or there is none.

Each sentence of a passage has another verb, so that a question (who, what, where, when) has one answer.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from regard.data.squad import Question
from regard.data.synthetic.clauses import LOCATED_DEEDS, PAST_TIME_PHRASES, draw_object, people_for
from regard.data.synthetic.dice import Dice
from regard.data.synthetic.english import english_text, write_english
from regard.data.synthetic.lexicon import Verb
from regard.data.synthetic.meaning import Clause, Nominal, Place, Sentence
from regard.data.synthetic.nouns import NAMES
from regard.data.synthetic.phrases import draw_nominal, draw_place
from regard.data.synthetic.splits import draw_split
from regard.data.synthetic.words import Word, Written, char_spans

KINDS = ("who", "what", "where", "when")
SENTENCES = (3, 4, 5)


@dataclass(frozen=True)
class _Fact:
    """A sentence of a passage, and the span that answers each kind of question."""

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
        verb = dice.pick(LOCATED_DEEDS)
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
    doer = dice.pick(NAMES) if dice.chance(0.5) else dice.pick(people_for(verb))
    clause = Clause(
        subject=draw_nominal(dice, doer, definite=True, plural=False, adjectives=0.2),
        verb=verb,
        past=True,
        object=draw_object(dice, verb, negated=False, definite=True),
        place=draw_place(dice),
        time=dice.pick(PAST_TIME_PHRASES) if dice.chance(0.5) else None,
    )
    written = write_english(Sentence(main=clause))
    text = written.text(spaced_question_mark=False)
    return _Fact(clause, text, _spans(clause, written, text))


def _spans(clause: Clause, written: Written, text: str) -> dict[str, tuple[int, int]]:
    """The characters that answer each kind of question."""
    places = char_spans(text, [word.form for word in written.words])
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
    """A word and all its dependents."""
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
    return english_text(Sentence(main=clause, question=kind))
