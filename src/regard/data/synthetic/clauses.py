"""Random clauses: an event with its subject, object and circumstances, or a description.

Each clause makes sense in both languages and has exactly one translation.
"""

from __future__ import annotations

from functools import cache

from regard.data.synthetic.lexicon import ADJECTIVE, VERB, VERBS, Adjective, Verb, predicates
from regard.data.synthetic.meaning import Argument, Clause, Nominal, Pronoun
from regard.data.synthetic.nouns import NAMES, NOUNS, Noun
from regard.data.synthetic.patterns import DEGREES, FREQUENCIES, MANNERS, PAST_TIMES, PRESENT_TIMES, Phrase
from regard.data.synthetic.phrases import (
    PEOPLE,
    attach_modifier,
    draw_name,
    draw_nominal,
    draw_person,
    draw_place,
    favor_specific,
)
from regard.data.synthetic.sampling import Rng, Weighted

ORDINARY = tuple(verb for verb in VERBS if verb.flags.isdisjoint({"active", "recipient"}))
TRANSITIVE = tuple(verb for verb in ORDINARY if verb.objects)
INTRANSITIVE = tuple(verb for verb in ORDINARY if not verb.objects)
DITRANSITIVE = tuple(verb for verb in VERBS if "recipient" in verb.flags)
# Verbs with a plain object in both languages, which can be a pronoun or relativized.
DIRECT = tuple(verb for verb in TRANSITIVE if not (verb.preposition or verb.french_preposition))
VERBS_OF_PEOPLE = tuple(verb for verb in DIRECT if PEOPLE[0] in verb.subjects)


def people_for(verb: Verb) -> tuple[Noun, ...]:
    """Nouns of people that can be the subject of a verb, without those that need an owner ("my sister")."""
    return tuple(noun for noun in PEOPLE if noun in verb.subjects and "kin" not in noun.tags)


def verbs_named(names: str) -> frozenset[Verb]:
    return frozenset(VERB[name.replace("_", " ")] for name in names.split())


# Habits allow "often" and "every day".
_HABITS = verbs_named(
    "eat drink cross wear wash clean feed see hear watch listen_to talk_to talk_about play_with help answer "
    "open close use wait_for sleep run sing dance laugh cry work smile swim jump prepare"
)
_FIRST_PERSON_PRESENT = verbs_named("love know prefer see")
# Not laugh or smile: "laughed at the station" means something else.
LOCATED = verbs_named(
    "eat drink find lose see meet hear play_with talk_to wait_for hide draw sleep run sing dance cry work "
    "fall stay arrive"
)
LOCATED_VERBS_OF_PEOPLE = tuple(verb for verb in VERBS_OF_PEOPLE if verb in LOCATED)
_MANNERS: dict[Verb, tuple[Phrase, Phrase]] = {
    verb: (MANNERS[first], MANNERS[second])
    for first, second, names in (
        ("slowly", "quickly", "eat run swim wash write draw paint"),
        ("slowly", "carefully", "open close cross push follow carry"),
        ("quietly", "calmly", "sleep work sing talk_to wait_for"),
    )
    for verb in verbs_named(names)
}
# Adjectives that contradict the verb: a broken cup does not break again.
_CONTRADICTIONS: dict[Verb, tuple[Adjective, ...]] = {
    VERB["break"]: (ADJECTIVE["broken"],),
    VERB["build"]: (ADJECTIVE["closed"], ADJECTIVE["old"]),
    VERB["close"]: (ADJECTIVE["closed"],),
    VERB["clean"]: (ADJECTIVE["clean"],),
    VERB["wash"]: (ADJECTIVE["clean"],),
}
# Expected frequency of a noun as an object; rare ones are drawn more often below.
_OBJECT_FREQUENCY: dict[Noun, float] = {
    noun: sum(1 / len(verb.objects) for verb in TRANSITIVE if noun in verb.objects) for noun in NOUNS
}
_COPULAR_SUBJECTS = Weighted({noun: 1 / (0.15 + _OBJECT_FREQUENCY[noun]) for noun in NOUNS if predicates(noun)})
_OBJECTS: dict[Verb, Weighted[Noun]] = {
    verb: Weighted({noun: (0.2 + _OBJECT_FREQUENCY.get(noun, 1.0)) ** -0.75 for noun in verb.objects})
    for verb in VERBS
    if verb.objects
}
_PRESENT_TIMES, PAST_TIME_PHRASES = tuple(PRESENT_TIMES.values()), tuple(PAST_TIMES.values())
_FREQUENCIES, _DEGREES = tuple(FREQUENCIES.values()), tuple(DEGREES.values())


def draw_subject(rng: Rng, verb: Verb, *, past: bool, definite: bool, in_question: bool = False) -> Argument:
    """A subject that the verb allows.

    I and we are excluded in questions, with être (the participle needs their gender), and where their forms would be
    too rare to be learned ("nous craignons").
    """
    subject = draw_person(rng, verb.subjects, definite=definite)
    has_first_person = not in_question and not verb.takes_etre and (past or verb in _FIRST_PERSON_PRESENT)
    return draw_name(rng) if subject.person == 1 and not has_first_person else subject


def draw_clause(
    rng: Rng, verb: Verb, *, past: bool, polarity: str = "", definite: bool = False, in_question: bool = False
) -> Clause:
    """A clause with this verb, its subject and its object."""
    subject = draw_subject(rng, verb, past=past, definite=definite or bool(polarity), in_question=in_question)
    object_ = draw_object(rng, verb, negated=bool(polarity), definite=in_question) if verb.objects else None
    return Clause(subject=subject, verb=verb, past=past, polarity=polarity, object=object_)


def draw_object(rng: Rng, verb: Verb, *, negated: bool = False, definite: bool = False) -> Nominal:
    # "de" and "des" would merge, and love or fear need a definite object.
    definite = definite or verb.french_preposition is not None or "present" in verb.flags
    noun = rng.weighted(_OBJECTS[verb])
    nominal = draw_nominal(rng, noun, definite=definite, negated_object=negated and not definite)
    drop_contradictions(nominal, verb)
    return nominal


def drop_contradictions(nominal: Nominal, verb: Verb) -> None:
    """Remove the adjectives if one of them contradicts the verb."""
    if any(adjective in _CONTRADICTIONS.get(verb, ()) for adjective in nominal.adjectives):
        nominal.adjectives = ()


def draw_tense(rng: Rng, verb: Verb) -> bool:
    """Whether the clause is in the past."""
    return "present" not in verb.flags and rng.chance(0.6)


def _draw_polarity(rng: Rng, verb: Verb) -> str:
    if rng.chance(0.7):
        return ""
    return "never" if verb in _HABITS and rng.chance(0.3) else "not"


def _add_circumstance(rng: Rng, clause: Clause, verb: Verb) -> None:
    """Add a frequency, manner, place or time, or nothing."""
    kind = rng.pick(("frequency", "manner", "place", "place", "time", ""))
    if kind == "frequency" and verb in _HABITS and not clause.past and clause.polarity != "never":
        clause.frequency = rng.pick(_FREQUENCIES[:2] if clause.polarity else _FREQUENCIES)
    elif kind == "manner" and verb in _MANNERS and not clause.polarity:
        clause.manner = rng.pick(_MANNERS[verb])
    elif kind == "place" and verb in LOCATED and _is_animate(clause.subject):
        clause.place = draw_place(rng)
    elif kind == "time" and clause.polarity != "never" and (clause.past or (verb in _HABITS and not clause.polarity)):
        clause.time = rng.pick(PAST_TIME_PHRASES if clause.past else _PRESENT_TIMES)


def _is_animate(argument: Argument | None) -> bool:
    if isinstance(argument, Nominal):
        return not argument.noun.tags.isdisjoint({"human", "animal"})
    return isinstance(argument, Pronoun)


def draw_event(rng: Rng, verbs: tuple[Verb, ...], *, modify: float) -> Clause:
    """A clause with one of the verbs, circumstances, and with probability `modify` an owner or a place of a noun."""
    verb = rng.pick(verbs)
    clause = draw_clause(rng, verb, past=draw_tense(rng, verb), polarity=_draw_polarity(rng, verb))
    _add_circumstance(rng, clause, verb)
    target = clause.object if verb.objects and rng.chance(0.6) else clause.subject
    if isinstance(target, Nominal) and rng.chance(modify):
        attach_modifier(rng, target)
    return clause


@cache
def _predicates(noun: Noun) -> Weighted[Adjective]:
    return favor_specific(predicates(noun))


def draw_predicate(rng: Rng, subject: Argument, noun: Noun, *, past: bool, polarity: str = "") -> Clause:
    """'is' or 'was' with an adjective that can describe the subject."""
    adjective = rng.weighted(_predicates(noun))
    degree = rng.pick(_DEGREES) if "fixed" not in adjective.flags and rng.chance(0.5) else None
    if degree is not None and degree.name == "too" and "praise" in adjective.flags:
        degree = DEGREES["very"]
    return Clause(subject=subject, adjective=adjective, degree=degree, past=past, polarity=polarity)


def draw_description(rng: Rng, *, modify: float) -> Clause:
    """A noun or name with 'is' or 'was' and an adjective."""
    noun = rng.pick(NAMES) if rng.chance(0.06) else rng.weighted(_COPULAR_SUBJECTS)
    subject = draw_nominal(rng, noun, definite=True, adjectives=0)
    clause = draw_predicate(rng, subject, noun, past=rng.chance(0.4), polarity="not" if rng.chance(0.25) else "")
    if clause.adjective is not None and clause.adjective.rank < 5 and not noun.is_name:
        # Only color and origin, which do not contradict the predicate.
        subject.adjectives = draw_nominal(rng, noun, adjectives=0.35, ranks=(5, 6)).adjectives
    if rng.chance(modify):
        attach_modifier(rng, subject)
    return clause
