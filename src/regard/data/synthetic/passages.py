"""Short passages with questions: the answer is a span of the passage, or there is none.

Each sentence of a passage has another verb, so that a question (who, what, where, when) has one answer.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from regard.data.squad import Question
from regard.data.synthetic.clauses import LOCATED_VERBS_OF_PEOPLE, PAST_TIME_PHRASES, draw_object, people_for
from regard.data.synthetic.english import english_text, write_english
from regard.data.synthetic.lexicon import Verb
from regard.data.synthetic.meaning import Clause, Nominal, Sentence
from regard.data.synthetic.nouns import NAMES
from regard.data.synthetic.phrases import draw_nominal, draw_place
from regard.data.synthetic.sampling import Rng, draw_split
from regard.data.synthetic.words import Word, Written, char_spans

_NUM_SENTENCES = (3, 4, 5)


@dataclass(frozen=True)
class _Fact:
    """A sentence of a passage, and the span that answers each kind of question."""

    clause: Clause
    text: str
    spans: dict[str, tuple[int, int]]


def questions(split: str, *, count: int | None = None, seed: int = 0, impossible: float = 0.0) -> list[Question]:
    """Questions with their passages: train, validation or test. A share of `impossible` has no answer (SQuAD v2)."""
    drawn = draw_split(
        "questions",
        split,
        lambda rng: _draw(rng, impossible),
        lambda question: question.passage,
        count=count,
        seed=seed,
    )
    return [dataclasses.replace(question, id=f"{split}-{number}") for number, question in enumerate(drawn, start=1)]


def _draw(rng: Rng, impossible: float) -> Question:
    num_sentences = rng.pick(_NUM_SENTENCES)
    verbs: list[Verb] = []
    while len(verbs) <= num_sentences:
        verb = rng.pick(LOCATED_VERBS_OF_PEOPLE)
        if verb not in verbs:
            verbs.append(verb)
    *facts, missing = [_draw_fact(rng, verb) for verb in verbs]
    passage = " ".join(fact.text for fact in facts)
    if rng.chance(impossible):
        return Question("", _ask(missing, rng.pick(sorted(missing.spans))), passage, (), impossible=True)
    index = rng.pick(range(num_sentences))
    fact = facts[index]
    kind = rng.pick(sorted(fact.spans))
    before = sum(len(earlier.text) + 1 for earlier in facts[:index])
    start, end = fact.spans[kind]
    return Question("", _ask(fact, kind), passage, ((before + start, fact.text[start:end]),))


def _draw_fact(rng: Rng, verb: Verb) -> _Fact:
    subject = rng.pick(NAMES) if rng.chance(0.5) else rng.pick(people_for(verb))
    clause = Clause(
        subject=draw_nominal(rng, subject, definite=True, plural=False, adjectives=0.2),
        verb=verb,
        past=True,
        object=draw_object(rng, verb, definite=True),
        place=draw_place(rng),
        time=rng.pick(PAST_TIME_PHRASES) if rng.chance(0.5) else None,
    )
    written = write_english(Sentence(main=clause))
    text = written.text(spaced_question_mark=False)
    return _Fact(clause, text, _spans(clause, written, text))


def _spans(clause: Clause, written: Written, text: str) -> dict[str, tuple[int, int]]:
    """The characters that answer each kind of question."""
    word_spans = dict(zip(written.words, char_spans(text, [word.form for word in written.words]), strict=True))
    place = clause.place.nominal if clause.place is not None else None
    answers = {
        kind: _subtree(written, written.head_words[nominal])
        for kind, nominal in (("who", clause.subject), ("what", clause.object), ("where", place))
        # One asks for people with "whom".
        if isinstance(nominal, Nominal) and not (kind == "what" and "human" in nominal.noun.tags)
    }
    if clause.time is not None:
        answers["when"] = [word for word in written.words if _expresses_time(word, clause)]
    return {
        kind: (min(word_spans[word][0] for word in words), max(word_spans[word][1] for word in words))
        for kind, words in answers.items()
    }


def _subtree(written: Written, head: Word) -> list[Word]:
    """A word and all its dependents."""
    group = [head]
    for word in group:
        group += [other for other in written.words if other.head is word]
    return group


def _expresses_time(word: Word, clause: Clause) -> bool:
    return any(node is clause and str(role).startswith("time") for node, role in word.sources)


def _ask(fact: _Fact, kind: str) -> str:
    """The sentence of a fact as a question, without the part that answers it."""
    clause = dataclasses.replace(fact.clause, place=None, time=None)
    if kind == "who":
        clause.subject = None
    elif kind == "what":
        clause.object = None
    return english_text(Sentence(main=clause, question=kind))
