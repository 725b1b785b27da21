"""Random sentences as meanings: statements, questions, relative clauses, coordination, pronouns.

Each function draws one kind of sentence that makes sense in both languages and has exactly one translation.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from regard.data.synthetic.clauses import (
    DIRECT,
    DITRANSITIVE,
    INTRANSITIVE,
    LOCATED,
    ORDINARY,
    TRANSITIVE,
    draw_clause,
    draw_description,
    draw_event,
    draw_object,
    draw_predicate,
    draw_subject,
    draw_tense,
    drop_contradictions,
    verbs_named,
)
from regard.data.synthetic.lexicon import ADJECTIVE, VERB, VERBS, Verb, predicates
from regard.data.synthetic.meaning import Clause, Coordination, Gap, Nominal, Place, Pronoun, Sentence, nominals
from regard.data.synthetic.nouns import INSTITUTIONS, Noun, matching
from regard.data.synthetic.patterns import CONNECTORS, DATES, DEGREES, PREPOSITIONS
from regard.data.synthetic.phrases import (
    ALL_RANKS,
    GENDERED,
    PEOPLE,
    draw_name,
    draw_nominal,
    draw_person,
    draw_pronoun,
)
from regard.data.synthetic.sampling import Rng, Weighted
from regard.data.synthetic.scenes import draw_person_scene, draw_thing_scene

_VERBS_OF_WHAT_QUESTIONS = verbs_named(
    "eat drink buy sell write find lose break open close clean wash paint repair use prepare hide steal forget "
    "borrow carry wear visit build"
)
# Verbs that can follow with the same object: "bought the apple and ate it".
_SEQUELS: dict[str, str] = {
    "buy": "eat drink wear use paint repair lose forget hide wash open break clean",
    "find": "open hide wash sell repair use forget",
    "steal": "hide sell lose",
    "borrow": "use repair lose forget clean",
    "build": "paint sell clean admire",
    "paint": "sell admire",
    "see": "follow draw watch admire feed buy",
    "prepare": "eat drink",
    "repair": "use sell clean paint",
    "lose": "find",
    "write": "hide forget lose sell",
    "wash": "wear eat use",
    "open": "clean close",
    "feed": "wash watch draw",
    "hide": "find forget",
}


def _shared_objects(first: Verb, second: Verb, *, without: str) -> tuple[Noun, ...]:
    return tuple(noun for noun in first.objects if noun in second.objects and without not in noun.tags)


_SEQUEL_PAIRS: tuple[tuple[Verb, Verb, tuple[Noun, ...]], ...] = tuple(
    (VERB[first], second, shared)
    for first, seconds in _SEQUELS.items()
    for second in DIRECT
    if second in verbs_named(seconds) and (shared := _shared_objects(VERB[first], second, without="human"))
)
_OBJECT_RELATIVE_PAIRS: tuple[tuple[Verb, Verb, tuple[Noun, ...]], ...] = tuple(
    (first, second, shared)
    for first, second in itertools.permutations(DIRECT, 2)
    if "present" not in first.flags | second.flags and len(shared := _shared_objects(first, second, without="kin")) >= 3
)
_RELATIVE_HEADS = frozenset(matching("human animal -kin"))
# Verbs and the adjectives that explain them.
_REACTIONS = (
    (["cry", "leave", "stay"], ["tired", "sick", "sad", "scared", "hungry", "worried"]),
    (["smile", "laugh", "sing", "dance"], ["happy", "generous", "polite", "brave"]),
)
_LOSSES = verbs_named("lose forget break")
# "The waiters who see the girls fall." is ambiguous: the girls may fall.
_PERCEPTION = verbs_named("see hear watch help")


def draw_ditransitive(rng: Rng) -> Sentence:
    """ "The boy gave the flower to the queens." """
    verb = rng.pick(DITRANSITIVE)
    polarity = "not" if rng.chance(0.2) else ""
    clause = draw_clause(rng, verb, past=rng.chance(0.7), polarity=polarity)
    clause.recipient = draw_nominal(rng, rng.pick(PEOPLE), definite=True, adjectives=0.15)
    return Sentence(main=clause)


def _head(rng: Rng, noun: Noun, *, ranks: tuple[int, ...] = ALL_RANKS) -> Nominal:
    """The definite noun that a relative clause modifies."""
    head = draw_nominal(rng, noun, definite=True, adjectives=0.15, ranks=ranks)
    head.determiner = "the"
    return head


def draw_subject_relative(rng: Rng) -> Sentence:
    """ "The girl who sees the dogs sleeps." """
    inner_verb = rng.pick(TRANSITIVE if rng.chance(0.8) else INTRANSITIVE)
    noun = rng.pick([noun for noun in inner_verb.subjects if noun in _RELATIVE_HEADS])
    head = _head(rng, noun)
    past = "present" not in inner_verb.flags and (inner_verb in _PERCEPTION or rng.chance(0.5))
    object_ = draw_object(rng, inner_verb) if inner_verb.objects else None
    head.relative = Clause(subject=Gap(head), verb=inner_verb, past=past, object=object_)
    return Sentence(main=_main_of(rng, head, noun, past=past))


def _main_of(rng: Rng, head: Nominal, noun: Noun, *, past: bool) -> Clause:
    """A main clause for a subject with a relative clause."""
    polarity = "not" if rng.chance(0.25) else ""
    verbs = [verb for verb in INTRANSITIVE if noun in verb.subjects]
    # "The kings who love the village dance" is ambiguous: it may be a dance of the village.
    is_misleading = head.plural and not past and not polarity
    if verbs and not is_misleading and rng.chance(0.5):
        return Clause(subject=head, verb=rng.pick(verbs), past=past, polarity=polarity)
    clause = draw_predicate(rng, head, noun, past=past, polarity=polarity)
    if clause.adjective is not None and (clause.adjective.rank >= 5 or clause.adjective in head.adjectives):
        head.adjectives = ()
    else:
        head.adjectives = tuple(adjective for adjective in head.adjectives if adjective.rank >= 5)
    return clause


def draw_object_relative(rng: Rng) -> Sentence:
    """ "The letters that the king wrote are important.", "Paul found the key that his sister lost." """
    first, second, shared = rng.pick(_OBJECT_RELATIVE_PAIRS)
    noun = rng.pick(shared)
    past = rng.chance(0.6)
    is_subject = rng.chance(0.5) and bool(predicates(noun))
    head = _head(rng, noun, ranks=(5, 6) if is_subject else ALL_RANKS)
    relative_subject = draw_subject(rng, first, past=past, definite=True)
    head.relative = Clause(subject=relative_subject, verb=first, past=past, object=Gap(head))
    if is_subject:
        return Sentence(main=_main_of(rng, head, noun, past=past))
    polarity = "not" if rng.chance(0.2) else ""
    subject = draw_subject(rng, second, past=past, definite=True)
    return Sentence(main=Clause(subject=subject, verb=second, past=past, polarity=polarity, object=head))


def draw_yes_no(rng: Rng) -> Sentence:
    """ "Does the cat sleep?", "Was the street wide?" """
    if rng.chance(0.3):
        clause = draw_description(rng, modify=0.1)
        clause.polarity = ""
    else:
        verb = rng.pick(INTRANSITIVE if rng.chance(0.25) else TRANSITIVE)
        clause = draw_clause(rng, verb, past=draw_tense(rng, verb), definite=True, in_question=True)
    return Sentence(main=clause, question="yes-no")


def draw_open_question(rng: Rng) -> Sentence:
    """ "Who ate the cake?", "Why was the street closed?" """
    kind = rng.pick(("who", "what", "where", "when", "why"))
    if kind == "who":
        verb = rng.pick([verb for verb in TRANSITIVE if PEOPLE[0] in verb.subjects])
        clause = Clause(subject=None, verb=verb, past=draw_tense(rng, verb), object=draw_object(rng, verb))
    elif kind == "what":
        verb = rng.pick([verb for verb in DIRECT if verb in _VERBS_OF_WHAT_QUESTIONS])
        subject = draw_subject(rng, verb, past=True, definite=True, in_question=True)
        clause = Clause(subject=subject, verb=verb, past=rng.chance(0.6))
    elif kind == "why" and rng.chance(0.4):
        clause = draw_description(rng, modify=0)
        clause.polarity, clause.degree = "", None
    else:
        verbs = [verb for verb in ORDINARY if verb in LOCATED or (kind != "where" and "present" not in verb.flags)]
        verb = rng.pick(verbs)
        clause = draw_clause(rng, verb, past=kind == "when" or rng.chance(0.5), definite=True, in_question=True)
    return Sentence(main=clause, question=kind)


def draw_coordination(rng: Rng) -> Sentence:
    """Two subjects, two verbs, or two clauses."""
    kind = rng.pick(("subjects", "subjects", "verbs", "clauses", "clauses", "reason"))
    if kind == "subjects":
        return Sentence(main=_joint_subject(rng))
    past = rng.chance(0.5)
    if kind == "reason":
        return _reaction(rng, past=past)
    if kind == "verbs":
        return _joint_verbs(rng, past=past)
    connector = rng.pick(("and", "but") if past else ("and", "but", "while"))
    verbs = [verb for verb in ORDINARY if "present" not in verb.flags]
    first = draw_clause(rng, rng.pick(verbs), past=past, definite=True)
    polarity = "not" if connector == "but" and rng.chance(0.5) else ""
    second = draw_clause(rng, rng.pick(verbs), past=past, polarity=polarity, definite=True)
    if isinstance(second.subject, Pronoun) and second.subject.human:
        second.subject = draw_name(rng)  # 'he' could refer to the first clause
    return Sentence(main=first, connector=CONNECTORS[connector], second=second)


def _reaction(rng: Rng, *, past: bool) -> Sentence:
    verbs, adjectives = rng.pick(_REACTIONS)
    adjective = ADJECTIVE[rng.pick(adjectives)]
    explained_by = draw_nominal(rng, rng.pick(PEOPLE), definite=True, adjectives=0)
    degree = rng.pick((None, DEGREES["very"], DEGREES["really"]))
    main = Clause(subject=draw_person(rng, GENDERED, definite=True), verb=VERB[rng.pick(verbs)], past=past)
    if isinstance(main.subject, Pronoun):
        main.subject = draw_name(rng)
    reason = Clause(subject=explained_by, adjective=adjective, degree=degree, past=past)
    return Sentence(main=main, connector=CONNECTORS["because"], second=reason)


def _joint_subject(rng: Rng) -> Clause:
    verb = rng.pick(ORDINARY)
    nouns = rng.pick(verb.subjects), rng.pick(verb.subjects)
    first, second = (draw_nominal(rng, noun, definite=True, adjectives=0.1) for noun in nouns)
    pair = Coordination(first=first, second=second)
    if all("human" in noun.tags for noun in nouns) and rng.chance(0.3):
        shared = [adjective for adjective in predicates(nouns[0]) if adjective in predicates(nouns[1])]
        return Clause(subject=pair, adjective=rng.pick(shared), past=rng.chance(0.5))
    past = draw_tense(rng, verb)
    return Clause(subject=pair, verb=verb, past=past, object=draw_object(rng, verb) if verb.objects else None)


def _joint_verbs(rng: Rng, *, past: bool) -> Sentence:
    verb = rng.pick([verb for verb in INTRANSITIVE if not verb.takes_etre])
    first = draw_clause(rng, verb, past=past, definite=True)
    if first.subject is not None and first.subject.person == 1:
        first.subject = draw_name(rng)  # French would repeat je and nous
    noun = first.subject.noun if isinstance(first.subject, Nominal) else PEOPLE[0]
    noun = PEOPLE[0] if noun.is_name else noun
    others = [v for v in INTRANSITIVE if noun in v.subjects and v is not verb and not v.takes_etre]
    if not others:
        return Sentence(main=first)
    second = Clause(subject=first.subject, verb=rng.pick(others), past=past, silent_subject=True)
    return Sentence(main=first, connector=CONNECTORS["and"], second=second)


def draw_object_pronoun(rng: Rng) -> Sentence:
    """ "The girl bought the apples and ate them.", "He wrote the letter but did not send it." """
    first, second, shared = rng.pick(_SEQUEL_PAIRS)
    past = rng.chance(0.75)
    subject = draw_pronoun(rng) if past and rng.chance(0.2) else draw_nominal(rng, rng.pick(GENDERED), definite=True)
    object_ = draw_nominal(rng, rng.pick(shared), adjectives=0.2)
    drop_contradictions(object_, first)
    drop_contradictions(object_, second)
    if object_.determiner == "every":
        object_.determiner = "the"
    pronoun = Pronoun(gender=object_.gender, plural=object_.plural, antecedent=object_)
    refuses = second not in _LOSSES and rng.chance(0.45)
    main = Clause(subject=subject, verb=first, past=past, object=object_)
    sequel = Clause(subject=subject, silent_subject=True, verb=second, past=past, object=pronoun)
    if refuses:
        sequel.polarity = "not"
    return Sentence(main=main, connector=CONNECTORS["but" if refuses else "and"], second=sequel)


def draw_institution(rng: Rng) -> Sentence:
    """ "The agreement on the European Economic Area was signed in August 1992." """
    verb = rng.pick([verb for verb in VERBS if INSTITUTIONS[0] in verb.subjects])
    document = Nominal(noun=rng.pick(verb.objects), plural=rng.chance(0.15))
    institution = Nominal(noun=rng.pick(INSTITUTIONS))
    polarity = "not" if rng.chance(0.15) else ""
    date = rng.pick(DATES)
    if institution.noun.english.endswith("Area") or rng.chance(0.5):  # an area cannot sign
        document.place = Place(PREPOSITIONS["on a topic"], institution)
        clause = Clause(subject=document, verb=verb, past=True, passive=True, polarity=polarity, time=date)
    else:
        document.determiner = rng.pick(("the", "this"))
        clause = Clause(subject=institution, verb=verb, past=True, polarity=polarity, object=document, time=date)
    return Sentence(main=clause)


_KINDS: Weighted[Callable[[Rng], Sentence]] = Weighted(
    {
        draw_thing_scene: 36.0,
        draw_person_scene: 5.0,
        lambda rng: Sentence(main=draw_event(rng, TRANSITIVE, modify=0.35)): 19.0,
        lambda rng: Sentence(main=draw_event(rng, INTRANSITIVE, modify=0.4)): 6.0,
        draw_ditransitive: 4.0,
        lambda rng: Sentence(main=draw_description(rng, modify=0.35)): 10.0,
        draw_subject_relative: 5.0,
        draw_object_relative: 6.0,
        draw_yes_no: 6.0,
        draw_open_question: 5.0,
        draw_coordination: 6.0,
        draw_object_pronoun: 5.0,
        draw_institution: 4.0,
    }
)


def draw_sentence(rng: Rng) -> Sentence:
    """A sentence of any kind in which no noun occurs twice."""
    while True:
        sentence = rng.weighted(_KINDS)(rng)
        nouns = [nominal.noun for nominal in nominals(sentence)]
        if len(set(nouns)) == len(nouns):
            return sentence
