"""Random sentences as meanings: statements, questions, relative clauses, coordination, pronouns.

Each function draws one kind of sentence that makes sense in both languages and has exactly one translation.
"""

from __future__ import annotations

from collections.abc import Callable

from regard.data.synthetic.clauses import (
    DIRECT,
    DITRANSITIVE,
    INTRANSITIVE,
    LOCATED,
    ORDINARY,
    TRANSITIVE,
    copular,
    draw_event,
    draw_object,
    draw_subject,
    draw_tense,
    drop_foregone,
    event,
    say,
    verbs_named,
)
from regard.data.synthetic.dice import Dice, Weighted
from regard.data.synthetic.lexicon import ADJECTIVE, VERB, VERBS, Adjective, Verb, predicates
from regard.data.synthetic.meaning import Clause, Coordination, Gap, Nominal, Place, Pronoun, Sentence, nominals
from regard.data.synthetic.nouns import INSTITUTIONS, NAMES, Noun, matching
from regard.data.synthetic.patterns import CONNECTORS, DATES, DEGREES, PREPOSITIONS
from regard.data.synthetic.phrases import ALL_RANKS, GENDERED, PEOPLE, draw_nominal, draw_person, draw_pronoun
from regard.data.synthetic.scenes import draw_person_scene, draw_thing_scene

_ASKED_FOR_THINGS = verbs_named(
    "eat drink buy sell write find lose break open close clean wash paint repair use prepare hide steal forget "
    "borrow carry wear visit build"
)
# Verbs that can follow with the same object: "bought the apple and ate it".
_SEQUELS: dict[Verb, frozenset[Verb]] = {
    VERB["buy"]: verbs_named("eat drink wear use paint repair lose forget hide wash open break clean"),
    VERB["find"]: verbs_named("open hide wash sell repair use forget"),
    VERB["steal"]: verbs_named("hide sell lose"),
    VERB["borrow"]: verbs_named("use repair lose forget clean"),
    VERB["build"]: verbs_named("paint sell clean admire"),
    VERB["paint"]: verbs_named("sell admire"),
    VERB["see"]: verbs_named("follow draw watch admire feed buy"),
    VERB["prepare"]: verbs_named("eat drink"),
    VERB["repair"]: verbs_named("use sell clean paint"),
    VERB["lose"]: verbs_named("find"),
    VERB["write"]: verbs_named("hide forget lose sell"),
    VERB["wash"]: verbs_named("wear eat use"),
    VERB["open"]: verbs_named("clean close"),
    VERB["feed"]: verbs_named("wash watch draw"),
    VERB["hide"]: verbs_named("find forget"),
}
_SEQUEL_PAIRS: tuple[tuple[Verb, Verb, tuple[Noun, ...]], ...] = tuple(
    (first, second, shared)
    for first, seconds in _SEQUELS.items()
    for second in DIRECT
    if second in seconds
    for shared in (tuple(n for n in first.objects if n in second.objects and "human" not in n.tags),)
    if shared
)
_SHARED_OBJECTS: tuple[tuple[Verb, Verb, tuple[Noun, ...]], ...] = tuple(
    (first, second, shared)
    for first in DIRECT
    for second in DIRECT
    if first is not second and "present" not in first.flags | second.flags
    for shared in (tuple(n for n in first.objects if n in second.objects and "kin" not in n.tags),)
    if len(shared) >= 3
)
_CAN_BE_HEADS = frozenset(matching("human animal -kin"))
# Verbs and the adjectives that explain them.
_REACTIONS: tuple[tuple[tuple[Verb, ...], tuple[Adjective, ...]], ...] = tuple(
    (tuple(VERB[verb] for verb in verbs.split()), tuple(ADJECTIVE[name] for name in names.split()))
    for verbs, names in (
        ("cry leave stay", "tired sick sad scared hungry worried"),
        ("smile laugh sing dance", "happy generous polite brave"),
    )
)
_LOSSES = verbs_named("lose forget break")
# "The waiters who see the girls fall." is ambiguous: the girls may fall.
_PERCEPTION = verbs_named("see hear watch help")


def draw_transitive(dice: Dice) -> Sentence:
    return Sentence(main=draw_event(dice, TRANSITIVE, modify=0.35))


def draw_intransitive(dice: Dice) -> Sentence:
    return Sentence(main=draw_event(dice, INTRANSITIVE, modify=0.4))


def draw_ditransitive(dice: Dice) -> Sentence:
    """ "The boy gave the flower to the queens." """
    verb = dice.pick(DITRANSITIVE)
    polarity = "not" if dice.chance(0.2) else ""
    clause = event(dice, verb, past=dice.chance(0.7), polarity=polarity)
    clause.recipient = draw_nominal(dice, dice.pick(PEOPLE), definite=True, adjectives=0.15)
    return Sentence(main=clause)


def draw_copular(dice: Dice) -> Sentence:
    return Sentence(main=copular(dice, modify=0.35))


def _head(dice: Dice, noun: Noun, *, ranks: tuple[int, ...] = ALL_RANKS) -> Nominal:
    """The definite noun that a relative clause modifies."""
    head = draw_nominal(dice, noun, definite=True, adjectives=0.15, ranks=ranks)
    head.determiner = "the"
    return head


def draw_subject_relative(dice: Dice) -> Sentence:
    """ "The girl who sees the dogs sleeps." """
    inner_verb = dice.pick(TRANSITIVE if dice.chance(0.8) else INTRANSITIVE)
    noun = dice.pick([noun for noun in inner_verb.subjects if noun in _CAN_BE_HEADS])
    head = _head(dice, noun)
    past = "present" not in inner_verb.flags and (inner_verb in _PERCEPTION or dice.chance(0.5))
    inner = Clause(subject=Gap(head), verb=inner_verb, past=past)
    if inner_verb.objects:
        inner.object = draw_object(dice, inner_verb, negated=False)
    head.relative = inner
    return Sentence(main=_main_of(dice, head, noun, past=past))


def _main_of(dice: Dice, head: Nominal, noun: Noun, *, past: bool) -> Clause:
    """A main clause for a subject with a relative clause."""
    polarity = "not" if dice.chance(0.25) else ""
    acts = [verb for verb in INTRANSITIVE if noun in verb.subjects]
    # "The kings who love the village dance" is ambiguous: it may be a dance of the village.
    is_misleading = head.plural and not past and not polarity
    if acts and not is_misleading and dice.chance(0.5):
        return Clause(subject=head, verb=dice.pick(acts), past=past, polarity=polarity)
    clause = say(dice, head, noun, past=past, polarity=polarity)
    if clause.adjective is not None and (clause.adjective.rank >= 5 or clause.adjective in head.adjectives):
        head.adjectives = ()
    else:
        head.adjectives = tuple(adjective for adjective in head.adjectives if adjective.rank >= 5)
    return clause


def draw_object_relative(dice: Dice) -> Sentence:
    """ "The letters that the king wrote are important.", "Paul found the key that his sister lost." """
    first, second, shared = dice.pick(_SHARED_OBJECTS)
    noun = dice.pick(shared)
    past = dice.chance(0.6)
    if dice.chance(0.5) and predicates(noun):
        head = _head(dice, noun, ranks=(5, 6))
        head.relative = Clause(
            subject=draw_subject(dice, first, past=past, definite=True), verb=first, past=past, object=Gap(head)
        )
        return Sentence(main=_main_of(dice, head, noun, past=past))
    head = _head(dice, noun)
    head.relative = Clause(
        subject=draw_subject(dice, first, past=past, definite=True), verb=first, past=past, object=Gap(head)
    )
    polarity = "not" if dice.chance(0.2) else ""
    subject = draw_subject(dice, second, past=past, definite=True)
    return Sentence(main=Clause(subject=subject, verb=second, past=past, polarity=polarity, object=head))


def draw_yes_no(dice: Dice) -> Sentence:
    """ "Does the cat sleep?", "Was the street wide?" """
    if dice.chance(0.3):
        clause = copular(dice, modify=0.1)
        clause.polarity = ""
        return Sentence(main=clause, question="yes-no")
    verb = dice.pick(INTRANSITIVE if dice.chance(0.25) else TRANSITIVE)
    return Sentence(main=event(dice, verb, past=draw_tense(dice, verb), definite=True, asked=True), question="yes-no")


def draw_open_question(dice: Dice) -> Sentence:
    """who, what, where, when, why."""
    kind = dice.pick(("who", "what", "where", "when", "why"))
    if kind == "who":
        verb = dice.pick([verb for verb in TRANSITIVE if PEOPLE[0] in verb.subjects])
        clause = Clause(
            subject=None, verb=verb, past=draw_tense(dice, verb), object=draw_object(dice, verb, negated=False)
        )
    elif kind == "what":
        verb = dice.pick([verb for verb in DIRECT if verb in _ASKED_FOR_THINGS])
        subject = draw_subject(dice, verb, past=True, definite=True, asked=True)
        clause = Clause(subject=subject, verb=verb, past=dice.chance(0.6))
    elif kind == "why" and dice.chance(0.4):
        clause = copular(dice, modify=0)
        clause.polarity, clause.degree = "", None
    else:
        allowed = [verb for verb in ORDINARY if verb in LOCATED or (kind != "where" and "present" not in verb.flags)]
        verb = dice.pick(allowed)
        clause = event(dice, verb, past=kind == "when" or dice.chance(0.5), definite=True, asked=True)
    return Sentence(main=clause, question=kind)


def draw_coordination(dice: Dice) -> Sentence:
    """Two subjects, two verbs, or two clauses."""
    kind = dice.pick(("subjects", "subjects", "verbs", "clauses", "clauses", "reason"))
    if kind == "subjects":
        return Sentence(main=_joint_subject(dice))
    past = dice.chance(0.5)
    if kind == "reason":
        return _reaction(dice, past=past)
    if kind == "verbs":
        return _joint_verbs(dice, past=past)
    connector = dice.pick(("and", "but") if past else ("and", "but", "while"))
    verbs = [verb for verb in ORDINARY if "present" not in verb.flags]
    first = event(dice, dice.pick(verbs), past=past, definite=True)
    polarity = "not" if connector == "but" and dice.chance(0.5) else ""
    second = event(dice, dice.pick(verbs), past=past, polarity=polarity, definite=True)
    if isinstance(second.subject, Pronoun) and second.subject.human:
        second.subject = Nominal(noun=dice.pick(NAMES), determiner="")  # 'he' could refer to the first clause
    return Sentence(main=first, connector=CONNECTORS[connector], second=second)


def _reaction(dice: Dice, *, past: bool) -> Sentence:
    verbs, adjectives = dice.pick(_REACTIONS)
    adjective = dice.pick(adjectives)
    about = draw_nominal(dice, dice.pick(PEOPLE), definite=True, adjectives=0)
    degree = dice.pick((None, DEGREES["very"], DEGREES["really"]))
    main = Clause(subject=draw_person(dice, GENDERED, definite=True), verb=dice.pick(verbs), past=past)
    if isinstance(main.subject, Pronoun):
        main.subject = Nominal(noun=dice.pick(NAMES), determiner="")
    reason = Clause(subject=about, adjective=adjective, degree=degree, past=past)
    return Sentence(main=main, connector=CONNECTORS["because"], second=reason)


def _joint_subject(dice: Dice) -> Clause:
    verb = dice.pick(ORDINARY)
    one, other = dice.pick(verb.subjects), dice.pick(verb.subjects)
    pair = Coordination(
        first=draw_nominal(dice, one, definite=True, adjectives=0.1),
        second=draw_nominal(dice, other, definite=True, adjectives=0.1),
    )
    if {"human"} <= one.tags & other.tags and dice.chance(0.3):
        shared = [adjective for adjective in predicates(one) if adjective in predicates(other)]
        return Clause(subject=pair, adjective=dice.pick(shared), past=dice.chance(0.5))
    clause = Clause(subject=pair, verb=verb, past=draw_tense(dice, verb))
    if verb.objects:
        clause.object = draw_object(dice, verb, negated=False)
    return clause


def _joint_verbs(dice: Dice, *, past: bool) -> Sentence:
    verb = dice.pick([verb for verb in INTRANSITIVE if not verb.takes_etre])
    first = event(dice, verb, past=past, definite=True)
    if first.subject is not None and first.subject.person == 1:
        first.subject = Nominal(noun=dice.pick(NAMES), determiner="")  # French would repeat je and nous
    noun = first.subject.noun if isinstance(first.subject, Nominal) else PEOPLE[0]
    noun = PEOPLE[0] if noun.is_name else noun
    others = [v for v in INTRANSITIVE if noun in v.subjects and v is not verb and not v.takes_etre]
    if not others:
        return Sentence(main=first)
    second = Clause(subject=first.subject, verb=dice.pick(others), past=past, silent_subject=True)
    return Sentence(main=first, connector=CONNECTORS["and"], second=second)


def draw_object_pronoun(dice: Dice) -> Sentence:
    """ "The girl bought the apples and ate them.", "He wrote the letter but did not send it." """
    first, second, shared = dice.pick(_SEQUEL_PAIRS)
    past = dice.chance(0.75)
    subject = (
        draw_pronoun(dice) if past and dice.chance(0.2) else draw_nominal(dice, dice.pick(GENDERED), definite=True)
    )
    object_ = draw_nominal(dice, dice.pick(shared), adjectives=0.2)
    drop_foregone(object_, first)
    drop_foregone(object_, second)
    if object_.determiner == "every":
        object_.determiner = "the"
    pronoun = Pronoun(gender=object_.gender, plural=object_.plural, antecedent=object_)
    refuses = second not in _LOSSES and dice.chance(0.45)
    return Sentence(
        main=Clause(subject=subject, verb=first, past=past, object=object_),
        connector=CONNECTORS["but" if refuses else "and"],
        second=Clause(
            subject=subject,
            silent_subject=True,
            verb=second,
            past=past,
            polarity="not" if refuses else "",
            object=pronoun,
        ),
    )


def draw_institution(dice: Dice) -> Sentence:
    """ "The agreement on the European Economic Area was signed in August 1992." """
    verb = dice.pick([verb for verb in VERBS if INSTITUTIONS[0] in verb.subjects])
    document = Nominal(noun=dice.pick(verb.objects), plural=dice.chance(0.15))
    who = Nominal(noun=dice.pick(INSTITUTIONS))
    polarity = "not" if dice.chance(0.15) else ""
    date = dice.pick(DATES)
    is_area = who.noun.english.endswith("Area")  # an area cannot sign
    if is_area or dice.chance(0.5):
        document.place = Place(PREPOSITIONS["on a topic"], who)
        return Sentence(main=Clause(subject=document, verb=verb, past=True, passive=True, polarity=polarity, time=date))
    document.determiner = dice.pick(("the", "this"))
    return Sentence(main=Clause(subject=who, verb=verb, past=True, polarity=polarity, object=document, time=date))


_KINDS: Weighted[Callable[[Dice], Sentence]] = Weighted(
    {
        draw_thing_scene: 36.0,
        draw_person_scene: 5.0,
        draw_transitive: 19.0,
        draw_intransitive: 6.0,
        draw_ditransitive: 4.0,
        draw_copular: 10.0,
        draw_subject_relative: 5.0,
        draw_object_relative: 6.0,
        draw_yes_no: 6.0,
        draw_open_question: 5.0,
        draw_coordination: 6.0,
        draw_object_pronoun: 5.0,
        draw_institution: 4.0,
    }
)


def draw_sentence(dice: Dice) -> Sentence:
    """A sentence of any kind in which no noun occurs twice."""
    while True:
        sentence = dice.weighted(_KINDS)(dice)
        nouns = [nominal.noun for nominal in nominals(sentence)]
        if len(set(nouns)) == len(nouns):
            return sentence
