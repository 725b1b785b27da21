"""Labelled examples: opinions, word senses, named entities, inference, similarity, multiple choice and questions.

Each generator takes a split (train, validation or test), a number of examples and a seed.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Hashable
from dataclasses import dataclass, replace

from regard.data.labelled import Labelled, LabelledPair, MultipleChoiceExample
from regard.data.squad import Question
from regard.data.synthetic.clauses import (
    LOCATED_VERBS_OF_PEOPLE,
    PAST_TIME_PHRASES,
    VERBS_OF_PEOPLE,
    draw_clause,
    draw_nominal,
    draw_object,
    draw_place,
    people_for,
)
from regard.data.synthetic.english import EnglishSentence, english_text
from regard.data.synthetic.lexicon import DATES, INSTITUTIONS, NAMES, Noun, Verb, read_table
from regard.data.synthetic.meaning import Clause, Nominal, Pronoun, Sentence
from regard.data.synthetic.realizer import Realization, Word, capitalize, char_spans
from regard.data.synthetic.sampling import SIZES, Rng, draw_split, split_size
from regard.data.synthetic.translation import sentences
from regard.data.tagged import Tagged
from regard.utils.errors import unknown

# --- Opinions -----------------------------------------------------------------------------------------------------

POSITIVE, NEGATIVE = "positive", "negative"
_OPPOSITE = {POSITIVE: NEGATIVE, NEGATIVE: POSITIVE}
_ENDINGS = {
    POSITIVE: ["I will come back.", "We recommend it.", "What a lovely evening.", "My sister was happy.", ""],
    NEGATIVE: ["I will never come back.", "We want our money back.", "What a waste of time.", "My sister left.", ""],
}


Topic = dict[str, list[str]]  # subjects of a topic, and adjectives by label
TOPICS: tuple[Topic, ...] = tuple(
    {"subjects": subjects.split(";"), POSITIVE: positive.split(";"), NEGATIVE: negative.split(";")}
    for _, subjects, positive, negative in read_table("opinions")
)


def opinions(split: str, *, count: int | None = None, seed: int = 0) -> list[Labelled]:
    """Opinions on meals, hotels, films and prices, labelled positive or negative.

    No single word determines the label: "not" inverts an adjective, and with "but" the last clause counts. So a model
    has to combine words.
    """
    return draw_split("opinions", split, _draw_opinion, lambda opinion: opinion.text, count=count, seed=seed)


def _draw_opinion(rng: Rng) -> Labelled:
    label = rng.pick((POSITIVE, NEGATIVE))
    topics = rng.pick(TOPICS), rng.pick(TOPICS)
    shape = rng.pick(("{0}", "{0} and {1}", "{0}, but {1}", "although {0}, {1}", "{0}. {2}"))
    is_contrast = "but" in shape or "although" in shape
    text = first = _judge(rng, topics[0], _OPPOSITE[label] if is_contrast else label)
    if shape != "{0}":
        second = _judge(rng, topics[1], label)
        text = shape.format(first, second, capitalize(second))
    return Labelled(f"{capitalize(text)}. {rng.pick(_ENDINGS[label])}".strip(), (label,))


def _judge(rng: Rng, topic: Topic, label: str) -> str:
    """A judgement, sometimes with a negation: "the soup was not cold"."""
    subject = rng.pick(topic["subjects"])
    start = f"{rng.pick(('the', 'their', 'our'))} {subject} {'were' if subject == 'sausages' else 'was'}"
    if rng.chance(0.3):
        return f"{start} {rng.pick(('not', 'never', 'not at all'))} {rng.pick(topic[_OPPOSITE[label]])}"
    return f"{start} {rng.pick(('', 'very ', 'really ', 'quite ', ''))}{rng.pick(topic[label])}"


# --- Word senses --------------------------------------------------------------------------------------------------

_PATTERNS = read_table("senses")
SENSES: dict[str, tuple[str, ...]] = {
    word: tuple(dict.fromkeys(sense for other, sense, _ in _PATTERNS if other == word))
    for word in dict.fromkeys(word for word, _, _ in _PATTERNS)
}


@dataclass(frozen=True)
class SenseSentence:
    """A sentence with an ambiguous word, its position and its sense."""

    text: str
    word: str
    start: int  # index of the first character of the word
    sense: str


def sense_sentences(word: str, split: str = "train", *, count: int | None = None, seed: int = 0) -> list[SenseSentence]:
    """Sentences with an ambiguous word (bank, spring or run), with about equally frequent senses."""
    if word not in SENSES:
        raise unknown("word with several senses", word, SENSES)
    count = {"train": 300, "validation": 30, "test": 90}.get(split) if count is None else count
    draw = functools.partial(_draw_sense, word=word)
    return draw_split(f"senses of {word}", split, draw, lambda drawn: drawn.text, count=count, seed=seed)


def _draw_sense(rng: Rng, word: str) -> SenseSentence:
    sense = rng.pick(SENSES[word])
    pattern = rng.pick([text for *key, text in _PATTERNS if key == [word, sense]])
    text = capitalize(re.sub(r"\[([^\]]*)\]", lambda choice: rng.pick(choice[1].split(";")), pattern)) + "."
    match = re.search(rf"\b{word}\b", text)
    assert match is not None, f"the pattern of {sense} has no {word}"
    return SenseSentence(text, word, match.start(), sense)


# --- Named entities -----------------------------------------------------------------------------------------------

_ENTITIES: dict[tuple[str, ...], str] = {
    **{(name.english,): "person" for name in NAMES},
    **{tuple(name.english.split()): "institution" for name in INSTITUTIONS},
    **{tuple(date.name.split()[1:]): "date" for date in DATES},
}
_LONGEST = max(map(len, _ENTITIES))


def named_entities(split: str, *, count: int | None = None, seed: int = 0) -> list[Tagged]:
    """Sentences of the translation dataset with IOB2 tags: person, institution and date."""
    pairs = sentences(split, count=split_size(split, count, SIZES), seed=seed)
    return [Tagged(pair.source_words, _tags(pair.source_words)) for pair in pairs]


def _tags(words: tuple[str, ...]) -> tuple[str, ...]:
    tags: list[str] = []
    while len(tags) < len(words):
        ahead = words[len(tags) :]
        length = next((n for n in range(_LONGEST, 0, -1) if ahead[:n] in _ENTITIES), 0)
        kind = _ENTITIES.get(ahead[:length])
        tags += ["O"] if kind is None else [f"B-{kind}"] + [f"I-{kind}"] * (length - 1)
    return tuple(tags)


# --- Inference and similarity -------------------------------------------------------------------------------------

# The second sentence comes from the meaning of the first by a change with a known effect: without a detail it is
# entailed, with "not" it is contradicted, with another detail it is neither.
ENTAILS, CONTRADICTS, NEITHER = "entails", "contradicts", "neither"
MAX_SIMILARITY = 5.0  # for sentences with the same meaning


def inferences(split: str, *, count: int | None = None, seed: int = 0) -> list[LabelledPair]:
    """Pairs of sentences, labelled entails, contradicts or neither."""
    return draw_split("inferences", split, _draw_inference, lambda pair: pair.first, count=count, seed=seed)


def similarities(split: str, *, count: int | None = None, seed: int = 0) -> list[LabelledPair]:
    """Pairs of sentences with a number from 0 (nothing in common) to 5 (the same meaning)."""
    return draw_split("similarities", split, _draw_similarity, lambda pair: pair.first, count=count, seed=seed)


def _draw_inference(rng: Rng) -> LabelledPair:
    premise = _draw_event(rng)
    label = rng.pick((ENTAILS, CONTRADICTS, NEITHER))
    hypothesis = _remove_details(rng, premise)
    if label == CONTRADICTS:
        hypothesis.polarity = "not"
    elif label == NEITHER:
        hypothesis = _change_part(rng, hypothesis)
    return LabelledPair(english_text(premise), english_text(hypothesis), label)


def _draw_similarity(rng: Rng) -> LabelledPair:
    first = second = _draw_event(rng)
    for _ in range(rng.pick((0, 1, 2, 3, 4))):
        second = _change_part(rng, second) if rng.chance(0.6) else _remove_details(rng, second)
    if rng.chance(0.2):
        second = _draw_event(rng)
    parts, others = _parts(first), _parts(second)
    shared = 2 * len(parts & others) / (len(parts) + len(others))
    return LabelledPair(english_text(first), english_text(second), round(MAX_SIMILARITY * shared, 2))


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
    removed = rng.pick(("place", "time", "both")) if clause.place and clause.time else "both"
    place, time = clause.place if removed == "time" else None, clause.time if removed == "place" else None
    shorter = replace(clause, place=place, time=time)
    if rng.chance(0.5):
        shorter.subject, shorter.object = _without_adjectives(clause.subject), _without_adjectives(clause.object)
    return shorter


def _without_adjectives(argument: object) -> Nominal | None:
    """The nominal without adjectives other than "other", which changes what the nominal refers to."""
    if not isinstance(argument, Nominal):
        return None
    return replace(argument, adjectives=tuple(adj for adj in argument.adjectives if adj.english == "other"))


def _change_part(rng: Rng, clause: Clause) -> Clause:
    """The clause with another subject, object or verb: neither entailed nor contradicted."""
    verb = clause.verb
    assert verb is not None, "events have a verb"
    change = rng.pick(("subject", "object", "verb"))
    if change == "subject":
        subjects = [noun for noun in _subjects(verb) if noun is not _noun(clause.subject)]
        return replace(clause, subject=draw_nominal(rng, rng.pick(subjects), definite=True, adjectives=0.3))
    if change == "object":
        while True:
            object_ = draw_object(rng, verb, definite=True)
            if object_.noun is not _noun(clause.object):
                return replace(clause, object=object_)
    verbs = [
        other
        for other in LOCATED_VERBS_OF_PEOPLE
        if other is not verb and _noun(clause.object) in other.objects and _noun(clause.subject) in _subjects(other)
    ]
    return replace(clause, verb=rng.pick(verbs)) if verbs else _change_part(rng, clause)


def _noun(argument: object) -> Noun | None:
    return argument.noun if isinstance(argument, Nominal) else None


def _parts(clause: Clause) -> set[Hashable]:
    """The parts of a meaning that are compared for similarity."""
    parts: set[Hashable] = {("verb", clause.verb), ("polarity", clause.polarity)}
    if clause.time is not None:
        parts.add(("time", clause.time.name))
    place = clause.place.nominal if clause.place is not None else None
    for role, argument in (("subject", clause.subject), ("object", clause.object), ("place", place)):
        if isinstance(argument, Nominal):
            parts.add((role, argument.noun, argument.plural))
            parts |= {(role, adjective) for adjective in argument.adjectives}
    return parts


# --- Multiple choice ----------------------------------------------------------------------------------------------

NUM_ENDINGS = 4
_MAX_OBJECTS = 15  # limit for verbs of endings: a verb that takes nearly any object fits nearly any sentence
_SPECIFIC = tuple(verb for verb in VERBS_OF_PEOPLE if len(verb.objects) <= _MAX_OBJECTS)
_GENERAL = tuple(verb for verb in VERBS_OF_PEOPLE if len(verb.objects) > _MAX_OBJECTS)


def _verbs_for(noun: Noun, verbs: tuple[Verb, ...]) -> tuple[Verb, ...]:
    return tuple(verb for verb in verbs if noun in verb.objects)


# Nouns that "it" can refer to, with verbs for the context and for the endings.
_OBJECTS: tuple[Noun, ...] = tuple(
    noun
    for noun in dict.fromkeys(noun for verb in _SPECIFIC for noun in verb.objects)
    if "human" not in noun.tags and _verbs_for(noun, _GENERAL)
)


def choices(split: str, *, count: int | None = None, seed: int = 0) -> list[MultipleChoiceExample]:
    """Sentences with four possible continuations, as in SWAG: only in one of them does the verb fit the object of the
    sentence.

    "Emma found the cake in the kitchen." continues with "She ate it.", not with "She repaired it." A verb fits the
    nouns that the lexicon allows as its objects.
    """
    return draw_split("choices", split, _draw_choice, lambda example: example.context, count=count, seed=seed)


def _draw_choice(rng: Rng) -> MultipleChoiceExample:
    noun, name = rng.pick(_OBJECTS), rng.pick(NAMES)
    object_ = draw_nominal(rng, noun, definite=True, plural=False, adjectives=0.3)
    context = Clause(
        subject=draw_nominal(rng, name, definite=True, plural=False),
        verb=rng.pick(_verbs_for(noun, _GENERAL)),
        past=True,
        object=object_,
        place=draw_place(rng),
        time=rng.pick(PAST_TIME_PHRASES) if rng.chance(0.5) else None,
    )
    correct = rng.pick(_verbs_for(noun, _SPECIFIC))
    verbs: list[Verb] = []
    while len(verbs) < NUM_ENDINGS - 1:
        verb = rng.pick(_SPECIFIC)
        if noun not in verb.objects and verb not in verbs:
            verbs.append(verb)
    label = rng.pick(range(NUM_ENDINGS))
    verbs.insert(label, correct)
    she, it = Pronoun(gender=name.gender, human=True), Pronoun(gender=noun.gender, antecedent=object_)
    endings = tuple(english_text(Clause(subject=she, verb=verb, past=True, object=it)) for verb in verbs)
    return MultipleChoiceExample(english_text(context), endings, label)


# --- Questions ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Fact:
    """A sentence of a passage, and the span that answers each kind of question."""

    clause: Clause
    text: str
    spans: dict[str, tuple[int, int]]


def questions(split: str, *, count: int | None = None, seed: int = 0, impossible: float = 0.0) -> list[Question]:
    """Questions about short passages: the answer is a span. A fraction `impossible` has no answer (SQuAD v2).

    Each sentence of a passage has a different verb, so that a question (who, what, where, when) has one answer.
    """
    draw = functools.partial(_draw_question, impossible=impossible)
    drawn = draw_split("questions", split, draw, lambda question: question.passage, count=count, seed=seed)
    return [replace(question, id=f"{split}-{number}") for number, question in enumerate(drawn, start=1)]


def _draw_question(rng: Rng, impossible: float) -> Question:
    num_sentences = rng.pick((3, 4, 5))
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
    written = EnglishSentence(Sentence(main=clause))
    return _Fact(clause, written.text, _spans(clause, written))


def _spans(clause: Clause, written: Realization) -> dict[str, tuple[int, int]]:
    """The characters that answer each kind of question."""
    word_spans = dict(zip(written.words, char_spans(written.text, [word.form for word in written.words]), strict=True))
    place = clause.place.nominal if clause.place is not None else None
    answers = {
        kind: _subtree(written, written.head_words[nominal])
        for kind, nominal in (("who", clause.subject), ("what", clause.object), ("where", place))
        # A question about a person would need "whom".
        if isinstance(nominal, Nominal) and not (kind == "what" and "human" in nominal.noun.tags)
    }
    if clause.time is not None:
        answers["when"] = _subtree(written, written.head_words[clause, "time"])
    return {
        kind: (min(word_spans[word][0] for word in words), max(word_spans[word][1] for word in words))
        for kind, words in answers.items()
    }


def _subtree(written: Realization, head: Word) -> list[Word]:
    """A word and all its dependents."""
    group = [head]
    for word in group:
        group += [other for other in written.words if other.head is word]
    return group


def _ask(fact: _Fact, kind: str) -> str:
    """The sentence of a fact as a question, without the part that answers it."""
    clause = replace(fact.clause, place=None, time=None)
    if kind == "who":
        clause.subject = None
    elif kind == "what":
        clause.object = None
    return english_text(clause, kind)
