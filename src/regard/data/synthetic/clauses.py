"""Random noun phrases and clauses: an event with its subject, object and circumstances, or a description.

Each clause makes sense in both languages and has exactly one translation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache

from regard.data.synthetic import lexicon
from regard.data.synthetic.lexicon import Adjective, Noun, Verb, attributes, matching, predicates, read_table
from regard.data.synthetic.meaning import Argument, Clause, Nominal, Place, Pronoun
from regard.data.synthetic.sampling import Rng, Weighted

_OWNERS = Weighted(dict.fromkeys(lexicon.POSSESSIVES, 1.0))
_DEFINITE = Weighted({"the": 12.0, "this": 2.5, "possessive": 3.5})
_SINGULAR = Weighted({"the": 11.0, "a": 5.0, "this": 2.0, "possessive": 3.0, "every": 0.6})
_PLURAL = Weighted({"the": 9.0, "some": 4.0, "this": 2.0, "possessive": 3.0, "several": 1.5, "number": 5.0})
_MASS = Weighted({"the": 6.0, "some": 5.0, "this": 1.0, "possessive": 2.0})
ALL_RANKS = tuple(range(7))  # ranks of adjectives in the lexicon

PEOPLE = matching("human")
GENDERED = matching("human -epicene")  # English also uses "he" or "she" for them
_OWNED = frozenset(
    matching(
        "kin pet vehicle -ambulance -bus house garden kitchen bedroom cellar attic workshop container "
        "furniture clothing thing small_thing dish cover text toy food drink doctor"
    )
)
_OWNING = matching("human -kin -epicene")
_SMALL_THINGS = frozenset(
    matching("book letter key ring phone photo ball hat scarf shoe doll newspaper cup bowl plate")
)
_STACKING_PAIRS = {"beautiful little", "beautiful big", "beautiful old", "pretty little", "big old"}
_AFTER_OTHER = {"big", "small", "little", "old", "young", "new"}
_PLACES: dict[str, list[tuple[str, tuple[Noun, ...]]]] = defaultdict(list)  # prepositions with nouns
for _kind, _preposition, _nouns in read_table("places"):
    _PLACES[_kind].append((_preposition, matching(_nouns)))

ORDINARY = tuple(verb for verb in lexicon.VERBS if verb.flags.isdisjoint({"active", "recipient"}))
TRANSITIVE = tuple(verb for verb in ORDINARY if verb.objects)
INTRANSITIVE = tuple(verb for verb in ORDINARY if not verb.objects)
# Verbs with a plain object in both languages, which can be a pronoun or relativized.
DIRECT = tuple(verb for verb in TRANSITIVE if not (verb.preposition or verb.french_preposition))
VERBS_OF_PEOPLE = tuple(verb for verb in DIRECT if PEOPLE[0] in verb.subjects)
LOCATED_VERBS_OF_PEOPLE = tuple(verb for verb in VERBS_OF_PEOPLE if "located" in verb.flags)
_FIRST_PERSON_PRESENT = ("love", "know", "prefer", "see")
# Expected frequency of a noun as an object; rare ones are drawn more often below.
_OBJECT_FREQUENCY: dict[Noun, float] = {
    noun: sum(1 / len(verb.objects) for verb in TRANSITIVE if noun in verb.objects) for noun in lexicon.NOUNS
}
_COPULAR_SUBJECTS = Weighted({noun: 1 / (0.15 + _OBJECT_FREQUENCY[noun]) for noun in lexicon.NOUNS if predicates(noun)})
_OBJECTS: dict[Verb, Weighted[Noun]] = {
    verb: Weighted({noun: (0.2 + _OBJECT_FREQUENCY.get(noun, 1.0)) ** -0.75 for noun in verb.objects})
    for verb in lexicon.VERBS
    if verb.objects
}
PAST_TIME_PHRASES = tuple(lexicon.PAST_TIMES.values())


# --- Noun phrases -------------------------------------------------------------------------------------------------


def _can_stack(first: Adjective, second: Adjective) -> bool:
    """Whether two adjectives can modify one noun, in this English order, in both languages."""
    if first.rank >= second.rank:
        return False
    if first.english == "other":
        return second.english in _AFTER_OTHER or second.rank >= 5
    if first.precedes and second.precedes:
        return f"{first.english} {second.english}" in _STACKING_PAIRS
    if first.english in ("pretty", "good"):  # "a pretty dirty dress" means something else
        return second.rank >= 5
    if (second.english == "new" and first.rank == 3) or (first.english, second.english) == ("modern", "old"):
        return False
    return first.precedes or second.precedes or second.rank >= 5


@cache
def _adjectives(
    noun: Noun, kind: Callable[[Noun], tuple[Adjective, ...]], ranks: tuple[int, ...] = ALL_RANKS
) -> Weighted[Adjective]:
    """Adjectives for a noun, weighted: adjectives with few nouns are more likely, so that all are learned."""
    return Weighted({adjective: len(adjective.nouns) ** -0.75 for adjective in kind(noun) if adjective.rank in ranks})


def _draw_adjectives(rng: Rng, noun: Noun, *, chance: float, ranks: tuple[int, ...]) -> tuple[Adjective, ...]:
    """None, one or two adjectives that can modify the noun, in the English order."""
    if not rng.chance(chance):
        return ()
    candidates = _adjectives(noun, attributes, ranks)
    if not candidates.options:
        return ()
    adjective = rng.weighted(candidates)
    if rng.chance(0.25):
        other = rng.weighted(candidates)
        for pair in ((adjective, other), (other, adjective)):
            if _can_stack(*pair):
                return pair
    return (adjective,)


def draw_nominal(
    rng: Rng,
    noun: Noun,
    *,
    definite: bool = False,
    negated_object: bool = False,
    plural: bool | None = None,
    adjectives: float = 0.5,
    ranks: tuple[int, ...] = ALL_RANKS,
) -> Nominal:
    """A noun with a determiner, and maybe a number and adjectives.

    `definite` allows only the, this and possessives. `negated_object` also allows "any", which is "de" in French.
    """
    if "name" in noun.tags or noun.compound is not None:
        return Nominal(noun=noun, determiner="" if "name" in noun.tags else "the")
    if plural is None:
        plural = rng.chance(0.35)
    plural = plural and "mass" not in noun.tags and "single" not in noun.tags
    nominal = Nominal(noun=noun, plural=plural)
    if negated_object and (plural or "mass" in noun.tags) and "kin" not in noun.tags and rng.chance(0.4):
        nominal.determiner = "any"
    elif definite or negated_object:
        nominal.determiner = rng.weighted(_DEFINITE)
    else:
        nominal.determiner = rng.weighted(_MASS if "mass" in noun.tags else _PLURAL if plural else _SINGULAR)
    if "kin" in noun.tags:
        nominal.determiner = rng.weighted(_OWNERS)
        return nominal
    if nominal.determiner == "possessive":
        nominal.determiner = rng.weighted(_OWNERS) if noun in _OWNED else "the"
    elif nominal.determiner == "number":
        nominal.determiner = "" if rng.chance(0.75) else "the"
        nominal.numeral = rng.pick(list(lexicon.NUMERALS.values()))
    nominal.adjectives = _draw_adjectives(rng, noun, chance=adjectives, ranks=ranks)
    if any(adjective.english == "other" for adjective in nominal.adjectives):
        nominal.determiner, nominal.numeral = "the", None
    return nominal


def draw_name(rng: Rng) -> Nominal:
    return Nominal(noun=rng.pick(lexicon.NAMES), determiner="")


def draw_person(rng: Rng, nouns: Sequence[Noun], *, definite: bool = False) -> Argument:
    """A subject from `nouns`; if these are people, it may be a name or a pronoun."""
    if any(noun.english == "woman" for noun in nouns[:8]):
        if rng.chance(0.16):
            return draw_pronoun(rng)
        if rng.chance(0.14):
            return draw_name(rng)
    return draw_nominal(rng, rng.pick(nouns), definite=definite, adjectives=0.3)


def draw_pronoun(rng: Rng) -> Pronoun:
    """I, we, he or she: the pronouns that are translated without an antecedent."""
    kind = rng.pick(("I", "we", "he", "she"))
    if kind in ("I", "we"):
        return Pronoun(gender="m", plural=kind == "we", person=1)
    return Pronoun(gender="m" if kind == "he" else "f", human=True)


def draw_place(rng: Rng) -> Place:
    """A place for people and animals."""
    preposition, nouns = rng.pick(_PLACES["event"])
    nominal = draw_nominal(rng, rng.pick(nouns), definite=True, plural=False, adjectives=0.2)
    return Place(lexicon.PREPOSITIONS[preposition], nominal)


def attach_modifier(rng: Rng, nominal: Nominal) -> None:
    """Give a nominal an owner ("the queen's cat") or a place ("the cat near the houses")."""
    noun = nominal.noun
    if nominal.numeral is not None or nominal.determiner not in ("the", "this"):
        return
    if noun in _OWNED and rng.chance(0.35 if noun in _SMALL_THINGS else 0.7):
        nominal.determiner = "the"
        nominal.adjectives = tuple(adjective for adjective in nominal.adjectives if adjective.rank > 0)
        owner = rng.pick(lexicon.NAMES) if rng.chance(0.35) else rng.pick(_OWNING)
        nominal.possessor = draw_nominal(rng, owner, definite=True, plural=False, adjectives=0.15)
    elif noun in _SMALL_THINGS or (noun.tags & {"human", "animal"} and "kin" not in noun.tags):
        preposition, nouns = rng.pick(_PLACES["small thing" if noun in _SMALL_THINGS else "animate"])
        plural = preposition == "near" and rng.chance(0.5)
        place = draw_nominal(rng, rng.pick(nouns), definite=True, adjectives=0.1, plural=plural)
        nominal.place = Place(lexicon.PREPOSITIONS[preposition], place)


# --- Clauses ------------------------------------------------------------------------------------------------------


def people_for(verb: Verb) -> tuple[Noun, ...]:
    """Nouns of people that can be the subject of a verb, without those that need an owner ("my sister")."""
    return tuple(noun for noun in PEOPLE if noun in verb.subjects and "kin" not in noun.tags)


def draw_subject(rng: Rng, verb: Verb, *, past: bool, definite: bool, in_question: bool = False) -> Argument:
    """A subject that the verb allows.

    I and we are excluded in questions, with être (the participle needs their gender), and where the verb form would be
    too rare to be learned ("nous craignons").
    """
    subject = draw_person(rng, verb.subjects, definite=definite)
    has_first_person = not in_question and not verb.takes_etre and (past or verb.name in _FIRST_PERSON_PRESENT)
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
    """Remove the adjectives if one of them contradicts the verb: a broken cup does not break again."""
    if any(f"-{adjective.english}" in verb.flags for adjective in nominal.adjectives):
        nominal.adjectives = ()


def draw_tense(rng: Rng, verb: Verb) -> bool:
    """Whether the clause is in the past."""
    return "present" not in verb.flags and rng.chance(0.6)


def _add_circumstance(rng: Rng, clause: Clause, verb: Verb) -> None:
    """Add a frequency, manner, place or time, or nothing."""
    is_habit, polarity = "habit" in verb.flags, clause.polarity
    subject = clause.subject
    is_animate = isinstance(subject, Nominal) and not subject.noun.tags.isdisjoint({"human", "animal"})
    manners = [phrase for name, phrase in lexicon.MANNERS.items() if name in verb.flags]
    kind = rng.pick(("frequency", "manner", "place", "place", "time", ""))
    if kind == "frequency" and is_habit and not clause.past and polarity != "never":
        clause.frequency = rng.pick(list(lexicon.FREQUENCIES.values())[: 2 if polarity else None])
    elif kind == "manner" and manners and not polarity:
        clause.manner = rng.pick(manners)
    elif kind == "place" and "located" in verb.flags and (is_animate or isinstance(subject, Pronoun)):
        clause.place = draw_place(rng)
    elif kind == "time" and polarity != "never" and (clause.past or (is_habit and not polarity)):
        clause.time = rng.pick(PAST_TIME_PHRASES if clause.past else list(lexicon.PRESENT_TIMES.values()))


def draw_event(rng: Rng, verbs: tuple[Verb, ...], *, modify: float) -> Clause:
    """A clause with one of the verbs and circumstances. With probability `modify`, a noun gets an owner or a place."""
    verb = rng.pick(verbs)
    past, polarity = draw_tense(rng, verb), ""
    if not rng.chance(0.7):
        polarity = "never" if "habit" in verb.flags and rng.chance(0.3) else "not"
    clause = draw_clause(rng, verb, past=past, polarity=polarity)
    _add_circumstance(rng, clause, verb)
    target = clause.object if verb.objects and rng.chance(0.6) else clause.subject
    if isinstance(target, Nominal) and rng.chance(modify):
        attach_modifier(rng, target)
    return clause


def draw_predicate(rng: Rng, subject: Argument, noun: Noun, *, past: bool, polarity: str = "") -> Clause:
    """'is' or 'was' with an adjective that can describe the subject."""
    adjective = rng.weighted(_adjectives(noun, predicates))
    degree = rng.pick(list(lexicon.DEGREES.values())) if "fixed" not in adjective.flags and rng.chance(0.5) else None
    if degree is lexicon.DEGREES["too"] and "praise" in adjective.flags:
        degree = lexicon.DEGREES["very"]
    return Clause(subject=subject, adjective=adjective, degree=degree, past=past, polarity=polarity)


def draw_description(rng: Rng, *, modify: float) -> Clause:
    """A noun or name with 'is' or 'was' and an adjective."""
    noun = rng.pick(lexicon.NAMES) if rng.chance(0.06) else rng.weighted(_COPULAR_SUBJECTS)
    subject = draw_nominal(rng, noun, definite=True, adjectives=0)
    clause = draw_predicate(rng, subject, noun, past=rng.chance(0.4), polarity="not" if rng.chance(0.25) else "")
    if clause.adjective is not None and clause.adjective.rank < 5 and "name" not in noun.tags:
        # Adjectives of color and origin do not contradict the predicate.
        subject.adjectives = draw_nominal(rng, noun, adjectives=0.35, ranks=(5, 6)).adjectives
    if rng.chance(modify):
        attach_modifier(rng, subject)
    return clause
