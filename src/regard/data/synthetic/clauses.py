"""Random clauses: an event with its subject, object and circumstances, or a description.

Each clause makes sense in both languages and has exactly one translation.
"""

from __future__ import annotations

from functools import cache

from regard.data.synthetic.dice import Dice, Weighted
from regard.data.synthetic.lexicon import ADJECTIVE, VERB, VERBS, Adjective, Verb, predicates
from regard.data.synthetic.meaning import Argument, Clause, Nominal, Pronoun
from regard.data.synthetic.nouns import NAMES, NOUNS, Noun
from regard.data.synthetic.patterns import DEGREES, FREQUENCIES, MANNERS, PAST_TIMES, PRESENT_TIMES, Phrase
from regard.data.synthetic.phrases import PEOPLE, attach_modifier, draw_nominal, draw_person, draw_place, evenly

ORDINARY = tuple(verb for verb in VERBS if "active" not in verb.flags and "recipient" not in verb.flags)
TRANSITIVE = tuple(verb for verb in ORDINARY if verb.objects)
INTRANSITIVE = tuple(verb for verb in ORDINARY if not verb.objects)
DITRANSITIVE = tuple(verb for verb in VERBS if "recipient" in verb.flags)
DIRECT = tuple(verb for verb in TRANSITIVE if verb.is_direct)
DONE_BY_PEOPLE = tuple(verb for verb in DIRECT if PEOPLE[0] in verb.subjects)


def people_for(verb: Verb) -> tuple[Noun, ...]:
    """Nouns of people that can be the subject of a verb, without those that need an owner ("my sister")."""
    return tuple(noun for noun in PEOPLE if noun in verb.subjects and "kin" not in noun.tags)


def verbs_named(names: str) -> frozenset[Verb]:
    return frozenset(VERB[name.replace("_", " ")] for name in names.split())


# Habits, which allow "often" and "every day".
_HABITS = verbs_named(
    "eat drink cross wear wash clean feed see hear watch listen_to talk_to talk_about play_with help answer "
    "open close use wait_for sleep run sing dance laugh cry work smile swim jump prepare"
)
_SAID_OF_ONESELF = verbs_named("love know prefer see")
# Not laugh or smile: "laughed at the station" means something else.
LOCATED = verbs_named(
    "eat drink find lose see meet hear play_with talk_to wait_for hide draw sleep run sing dance cry work "
    "fall stay arrive"
)
_HASTE = tuple(MANNERS[name] for name in ("slowly", "quickly"))
_CARE = tuple(MANNERS[name] for name in ("slowly", "carefully"))
_PEACE = tuple(MANNERS[name] for name in ("quietly", "calmly"))
_MANNERS: dict[Verb, tuple[Phrase, ...]] = {
    **dict.fromkeys(verbs_named("eat run swim wash write draw paint"), _HASTE),
    **dict.fromkeys(verbs_named("open close cross push follow carry"), _CARE),
    **dict.fromkeys(verbs_named("sleep work sing talk_to wait_for"), _PEACE),
}
# Adjectives that contradict the verb: something broken is not broken again.
_ALREADY_SO: dict[Verb, tuple[Adjective, ...]] = {
    VERB["break"]: (ADJECTIVE["broken"],),
    VERB["build"]: (ADJECTIVE["closed"], ADJECTIVE["old"]),
    VERB["close"]: (ADJECTIVE["closed"],),
    VERB["clean"]: (ADJECTIVE["clean"],),
    VERB["wash"]: (ADJECTIVE["clean"],),
}
LOCATED_DEEDS = tuple(verb for verb in DONE_BY_PEOPLE if verb in LOCATED)
# Expected frequency of a noun as an object; rare ones are drawn more often below.
_COMMON: dict[Noun, float] = {
    noun: sum(1 / len(verb.objects) for verb in TRANSITIVE if noun in verb.objects) for noun in NOUNS
}
_BE_SAID = Weighted({noun: 1 / (0.15 + _COMMON[noun]) for noun in NOUNS if predicates(noun)})
_OBJECTS: dict[Verb, Weighted[Noun]] = {
    verb: Weighted({noun: (0.2 + _COMMON.get(noun, 1.0)) ** -0.75 for noun in verb.objects})
    for verb in VERBS
    if verb.objects
}
_PRESENT_TIMES, PAST_TIME_PHRASES = tuple(PRESENT_TIMES.values()), tuple(PAST_TIMES.values())
_FREQUENCIES, _DEGREES = tuple(FREQUENCIES.values()), tuple(DEGREES.values())


def draw_subject(dice: Dice, verb: Verb, *, past: bool, definite: bool, asked: bool = False) -> Argument:
    """A subject that the verb allows.

    I and we are excluded in questions, with être (the participle needs their gender), and where their forms would be
    too rare to be learned ("nous craignons").
    """
    subject = draw_person(dice, verb.subjects, definite=definite)
    if subject.person == 1 and (asked or verb.takes_etre or not (past or verb in _SAID_OF_ONESELF)):
        return Nominal(noun=dice.pick(NAMES), determiner="")
    return subject


def event(
    dice: Dice, verb: Verb, *, past: bool, polarity: str = "", definite: bool = False, asked: bool = False
) -> Clause:
    """A clause with this verb, its subject and its object."""
    clause = Clause(
        subject=draw_subject(dice, verb, past=past, definite=definite or bool(polarity), asked=asked),
        verb=verb,
        past=past,
        polarity=polarity,
    )
    if verb.objects:
        clause.object = draw_object(dice, verb, negated=bool(polarity), definite=asked)
    return clause


def draw_object(dice: Dice, verb: Verb, *, negated: bool, definite: bool = False) -> Nominal:
    # "de" and "des" would merge, and love or fear need something definite.
    definite = definite or verb.french_preposition is not None or "present" in verb.flags
    noun = dice.weighted(_OBJECTS[verb])
    drawn = draw_nominal(dice, noun, definite=definite, negated_object=negated and not definite)
    drop_foregone(drawn, verb)
    return drawn


def drop_foregone(nominal: Nominal, verb: Verb) -> None:
    """Remove adjectives that contradict the verb."""
    if any(adjective in _ALREADY_SO.get(verb, ()) for adjective in nominal.adjectives):
        nominal.adjectives = ()


def draw_tense(dice: Dice, verb: Verb) -> bool:
    return "present" not in verb.flags and dice.chance(0.6)


def _polarity(dice: Dice, verb: Verb) -> str:
    if dice.chance(0.7):
        return ""
    return "never" if verb in _HABITS and dice.chance(0.3) else "not"


def _add_circumstance(dice: Dice, clause: Clause, verb: Verb) -> None:
    """Add how often, how, where or when, or nothing."""
    kind = dice.pick(("frequency", "manner", "place", "place", "time", ""))
    if kind == "frequency" and verb in _HABITS and not clause.past and clause.polarity != "never":
        clause.frequency = dice.pick(_FREQUENCIES[:2] if clause.polarity else _FREQUENCIES)
    elif kind == "manner" and verb in _MANNERS and not clause.polarity:
        clause.manner = dice.pick(_MANNERS[verb])
    elif kind == "place" and verb in LOCATED and _is_animate(clause.subject):
        clause.place = draw_place(dice)
    elif kind == "time" and clause.polarity != "never" and (clause.past or (verb in _HABITS and not clause.polarity)):
        clause.time = dice.pick(PAST_TIME_PHRASES if clause.past else _PRESENT_TIMES)


def _is_animate(argument: Argument | None) -> bool:
    if isinstance(argument, Nominal):
        return not argument.noun.tags.isdisjoint({"human", "animal"})
    return isinstance(argument, Pronoun)


def draw_event(dice: Dice, verbs: tuple[Verb, ...], *, modify: float) -> Clause:
    verb = dice.pick(verbs)
    clause = event(dice, verb, past=draw_tense(dice, verb), polarity=_polarity(dice, verb))
    _add_circumstance(dice, clause, verb)
    target = clause.object if verb.objects and dice.chance(0.6) else clause.subject
    if isinstance(target, Nominal) and dice.chance(modify):
        attach_modifier(dice, target)
    return clause


@cache
def _predicates(noun: Noun) -> Weighted[Adjective]:
    return evenly(predicates(noun))


def say(dice: Dice, subject: Argument, noun: Noun, *, past: bool, polarity: str = "") -> Clause:
    """'is' or 'was' with an adjective that suits the subject."""
    adjective = dice.weighted(_predicates(noun))
    degree = dice.pick(_DEGREES) if adjective.takes_degree and dice.chance(0.5) else None
    if degree is not None and degree.name == "too" and adjective.is_praise:
        degree = DEGREES["very"]
    return Clause(subject=subject, adjective=adjective, degree=degree, past=past, polarity=polarity)


def copular(dice: Dice, *, modify: float) -> Clause:
    noun = dice.pick(NAMES) if dice.chance(0.06) else dice.weighted(_BE_SAID)
    subject = draw_nominal(dice, noun, definite=True, adjectives=0)
    clause = say(dice, subject, noun, past=dice.chance(0.4), polarity="not" if dice.chance(0.25) else "")
    if clause.adjective is not None and clause.adjective.rank < 5 and not noun.is_name:
        # Only colour and origin, which do not contradict the predicate.
        subject.adjectives = draw_nominal(dice, noun, adjectives=0.35, ranks=(5, 6)).adjectives
    if dice.chance(modify):
        attach_modifier(dice, subject)
    return clause
