"""Sentences with four possible continuations, as in SWAG: only one verb fits the object of the sentence.

"Emma found the cake in the kitchen." continues with "She ate it.", not with "She repaired it." A verb fits the nouns
that the lexicon allows as its objects.
"""

from __future__ import annotations

from regard.data.labelled import MultipleChoiceExample
from regard.data.synthetic.clauses import PAST_TIME_PHRASES, VERBS_OF_PEOPLE
from regard.data.synthetic.english import english_text
from regard.data.synthetic.lexicon import Verb
from regard.data.synthetic.meaning import Clause, Pronoun, Sentence
from regard.data.synthetic.nouns import NAMES, Noun
from regard.data.synthetic.phrases import draw_nominal, draw_place
from regard.data.synthetic.sampling import Rng, draw_split

NUM_ENDINGS = 4
_MAX_OBJECTS = 15  # of the verb of an ending: verbs that take nearly any object fit nearly any sentence
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
    """Sentences with their continuations: train, validation or test."""
    return draw_split("choices", split, _draw, lambda example: example.context, count=count, seed=seed)


def _draw(rng: Rng) -> MultipleChoiceExample:
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
    endings = tuple(english_text(Sentence(main=Clause(subject=she, verb=verb, past=True, object=it))) for verb in verbs)
    return MultipleChoiceExample(english_text(Sentence(main=context)), endings, label)
