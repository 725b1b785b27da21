"""Random noun phrases: determiners, adjectives, owners and places that fit the noun."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

from regard.data.synthetic.lexicon import POSSESSIVES, Adjective, attributes
from regard.data.synthetic.meaning import Argument, Nominal, Place, Pronoun
from regard.data.synthetic.nouns import NAMES, Noun, matching
from regard.data.synthetic.patterns import NUMERALS, PREPOSITIONS
from regard.data.synthetic.sampling import Rng, Weighted

_OWNERS = Weighted(dict.fromkeys(POSSESSIVES, 1.0))
_DEFINITE = Weighted({"the": 12.0, "this": 2.5, "possessive": 3.5})
_SINGULAR = Weighted({"the": 11.0, "a": 5.0, "this": 2.0, "possessive": 3.0, "every": 0.6})
_PLURAL = Weighted({"the": 9.0, "some": 4.0, "this": 2.0, "possessive": 3.0, "several": 1.5, "number": 5.0})
_MASS = Weighted({"the": 6.0, "some": 5.0, "this": 1.0, "possessive": 2.0})
ALL_RANKS = tuple(range(7))  # of adjectives, as in the lexicon
_NUMERALS = tuple(NUMERALS.values())

PEOPLE = matching("human")
GENDERED = matching("human -epicene")  # English also uses "he" or "she" for them
_OWNED = frozenset(
    matching(
        "kin pet vehicle -ambulance -bus house garden kitchen bedroom cellar attic workshop container "
        "furniture clothing thing small_thing dish cover text toy food drink doctor"
    )
)
_OWNING = matching("human -kin -epicene")
_STACKING_PAIRS = {"beautiful little", "beautiful big", "beautiful old", "pretty little", "big old"}
_AFTER_OTHER = {"big", "small", "little", "old", "young", "new"}


def _places(*lines: str) -> tuple[tuple[str, tuple[Noun, ...]], ...]:
    """Prepositions with the nouns that can follow them."""
    return tuple((preposition, matching(nouns)) for preposition, nouns in (line.split(": ") for line in lines))


_EVENT_PLACES = _places(
    "in: garden park house school church museum castle forest village kitchen bedroom library street",
    "near: building bridge river lake tree forest village park market",
    "behind: house school church castle hotel tree wall station",
    "in front of: house school church museum hospital station castle hotel restaurant",
    "at: market hospital station hotel restaurant market",
)
_ANIMATE_PLACES = _places(
    "in: garden park street kitchen field",
    "near: building bridge river lake tree forest village car",
    "near: house tree horse cow dog bench bus",
    "behind: house school church castle tree wall",
    "in front of: house school church station castle",
)
_SMALL_THING_PLACES = _places(
    "on: table chair shelf bed piano",
    "under: table bed chair bench",
    "in: kitchen bedroom attic cellar box basket wardrobe",
    "near: window door piano sofa",
)
_SMALL_THINGS = frozenset(
    matching("book letter key ring phone photo ball hat scarf shoe doll newspaper cup bowl plate")
)


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


def favor_specific(adjectives: Iterable[Adjective]) -> Weighted[Adjective]:
    """A choice in which adjectives with few nouns are more likely, so that they occur often enough to be learned."""
    return Weighted({adjective: len(adjective.nouns) ** -0.75 for adjective in adjectives})


@cache
def _attributes(noun: Noun, ranks: tuple[int, ...]) -> Weighted[Adjective]:
    return favor_specific(adjective for adjective in attributes(noun) if adjective.rank in ranks)


def _draw_adjectives(rng: Rng, noun: Noun, *, chance: float, ranks: tuple[int, ...]) -> tuple[Adjective, ...]:
    """None, one or two adjectives that can modify the noun, in the English order."""
    if not rng.chance(chance):
        return ()
    candidates = _attributes(noun, ranks)
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

    definite: only the, this and possessives. negated_object: also "any", which is "de" in French.
    """
    if noun.is_name or noun.compound is not None:
        return Nominal(noun=noun, determiner="" if noun.is_name else "the")
    if plural is None:
        plural = rng.chance(0.35)
    plural = plural and not noun.is_mass and "single" not in noun.tags
    nominal = Nominal(noun=noun, plural=plural)
    if negated_object and (plural or noun.is_mass) and "kin" not in noun.tags and rng.chance(0.4):
        nominal.determiner = "any"
    elif definite or negated_object:
        nominal.determiner = rng.weighted(_DEFINITE)
    else:
        nominal.determiner = rng.weighted(_MASS if noun.is_mass else _PLURAL if plural else _SINGULAR)
    if "kin" in noun.tags:
        nominal.determiner = rng.weighted(_OWNERS)
        return nominal
    if nominal.determiner == "possessive":
        nominal.determiner = rng.weighted(_OWNERS) if noun in _OWNED else "the"
    elif nominal.determiner == "number":
        nominal.determiner = "" if rng.chance(0.75) else "the"
        nominal.numeral = rng.pick(_NUMERALS)
    nominal.adjectives = _draw_adjectives(rng, noun, chance=adjectives, ranks=ranks)
    if any(adjective.english == "other" for adjective in nominal.adjectives):
        nominal.determiner, nominal.numeral = "the", None
    return nominal


def draw_name(rng: Rng) -> Nominal:
    return Nominal(noun=rng.pick(NAMES), determiner="")


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
    preposition, nouns = rng.pick(_EVENT_PLACES)
    noun = rng.pick(nouns)
    return Place(PREPOSITIONS[preposition], draw_nominal(rng, noun, definite=True, plural=False, adjectives=0.2))


def attach_modifier(rng: Rng, nominal: Nominal) -> None:
    """Give a nominal an owner ("the queen's cat") or a place ("the cat near the houses")."""
    noun = nominal.noun
    if nominal.numeral is not None or nominal.determiner not in ("the", "this"):
        return
    if noun in _OWNED and rng.chance(0.35 if noun in _SMALL_THINGS else 0.7):
        nominal.determiner = "the"
        nominal.adjectives = tuple(adjective for adjective in nominal.adjectives if adjective.rank > 0)
        owner = rng.pick(NAMES) if rng.chance(0.35) else rng.pick(_OWNING)
        nominal.possessor = draw_nominal(rng, owner, definite=True, plural=False, adjectives=0.15)
        return
    if noun in _SMALL_THINGS:
        preposition, nouns = rng.pick(_SMALL_THING_PLACES)
    elif noun.tags & {"human", "animal"} and "kin" not in noun.tags:
        preposition, nouns = rng.pick(_ANIMATE_PLACES)
    else:
        return
    plural = preposition == "near" and rng.chance(0.5)
    place = draw_nominal(rng, rng.pick(nouns), definite=True, adjectives=0.1, plural=plural)
    nominal.place = Place(PREPOSITIONS[preposition], place)
