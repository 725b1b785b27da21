"""Random noun phrases: determiners, adjectives, owners and places that suit the noun."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

from regard.data.synthetic.dice import Dice, Weighted
from regard.data.synthetic.lexicon import Adjective, attributes
from regard.data.synthetic.meaning import Argument, Nominal, Place, Pronoun
from regard.data.synthetic.nouns import NAMES, Noun, matching
from regard.data.synthetic.patterns import NUMERALS, PREPOSITIONS

_POSSESSIVES = {"my": 1.0, "his": 1.0, "her": 1.0, "our": 1.0, "their": 1.0}
_OWNERS = Weighted(_POSSESSIVES)
_DEFINITE = Weighted({"the": 12.0, "this": 2.5, "possessive": 3.5})
_SINGULAR = Weighted({"the": 11.0, "a": 5.0, "this": 2.0, "possessive": 3.0, "every": 0.6})
_PLURAL = Weighted({"the": 9.0, "some": 4.0, "this": 2.0, "possessive": 3.0, "several": 1.5, "number": 5.0})
_MASS = Weighted({"the": 6.0, "some": 5.0, "this": 1.0, "possessive": 2.0})
ALL_RANKS = tuple(range(7))  # of adjectives, as in the lexicon
_NUMERALS = tuple(NUMERALS.values())

PEOPLE = matching("human")
GENDERED = tuple(noun for noun in PEOPLE if noun.tells_gender)
_OWNED = frozenset(
    matching(
        "kin pet vehicle -ambulance -bus house garden kitchen bedroom cellar attic workshop container "
        "furniture clothing thing small_thing dish cover text toy food drink doctor"
    )
)
_OWNING = matching("human -kin -epicene")
_SAFE_PAIRS = {
    ("beautiful", "little"),
    ("beautiful", "big"),
    ("beautiful", "old"),
    ("pretty", "little"),
    ("big", "old"),
}
_AFTER_OTHER = {"big", "small", "little", "old", "young", "new"}

_SPOTS: tuple[tuple[str, tuple[Noun, ...]], ...] = (
    ("in", matching("garden park house school church museum castle forest village kitchen bedroom library street")),
    ("near", matching("building bridge river lake tree forest village park market")),
    ("behind", matching("house school church castle hotel tree wall station")),
    ("in front of", matching("house school church museum hospital station castle hotel restaurant")),
    ("at", matching("market hospital station hotel restaurant market")),
)
_STANDS: tuple[tuple[str, tuple[Noun, ...]], ...] = (
    ("in", matching("garden park street kitchen field")),
    ("near", matching("building bridge river lake tree forest village car")),
    ("near", matching("house tree horse cow dog bench bus")),
    ("behind", matching("house school church castle tree wall")),
    ("in front of", matching("house school church station castle")),
)
_NEAR_THINGS: tuple[tuple[str, tuple[Noun, ...]], ...] = (
    ("on", matching("table chair shelf bed piano")),
    ("under", matching("table bed chair bench")),
    ("in", matching("kitchen bedroom attic cellar box basket wardrobe")),
    ("near", matching("window door piano sofa")),
)
_SMALL_THINGS = frozenset(
    matching("book letter key ring phone photo ball hat scarf shoe doll newspaper cup bowl plate")
)


def can_stack(first: Adjective, second: Adjective) -> bool:
    """Whether two adjectives can modify one noun, in this English order, in both languages."""
    if first.rank >= second.rank:
        return False
    if first.english == "other":
        return second.english in _AFTER_OTHER or second.rank >= 5
    if first.precedes and second.precedes:
        return (first.english, second.english) in _SAFE_PAIRS
    if first.english in ("pretty", "good"):  # "a pretty dirty dress" means something else
        return second.rank >= 5
    if (second.english == "new" and first.rank == 3) or (first.english, second.english) == ("modern", "old"):
        return False
    if not first.precedes and not second.precedes:
        return second.rank >= 5
    return True


def evenly(adjectives: Iterable[Adjective]) -> Weighted[Adjective]:
    """A choice in which adjectives with few nouns are more likely, so that they occur often enough to be learned."""
    return Weighted({adjective: len(adjective.nouns) ** -0.75 for adjective in adjectives})


@cache
def _suited(noun: Noun, ranks: tuple[int, ...]) -> Weighted[Adjective]:
    return evenly(adjective for adjective in attributes(noun) if adjective.rank in ranks)


def draw_adjectives(
    dice: Dice, noun: Noun, *, chance: float, ranks: tuple[int, ...] = ALL_RANKS
) -> tuple[Adjective, ...]:
    """None, one or two adjectives that suit the noun, in the English order."""
    if not dice.chance(chance):
        return ()
    suited = _suited(noun, ranks)
    if not suited.options:
        return ()
    one = dice.weighted(suited)
    if dice.chance(0.25):
        other = dice.weighted(suited)
        for pair in ((one, other), (other, one)):
            if can_stack(*pair):
                return pair
    return (one,)


def draw_nominal(
    dice: Dice,
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
        plural = dice.chance(0.35)
    plural = plural and not noun.is_mass and "single" not in noun.tags
    nominal = Nominal(noun=noun, plural=plural)
    if negated_object and (plural or noun.is_mass) and "kin" not in noun.tags and dice.chance(0.4):
        nominal.determiner = "any"
    elif definite or negated_object:
        nominal.determiner = dice.weighted(_DEFINITE)
    else:
        nominal.determiner = dice.weighted(_MASS if noun.is_mass else _PLURAL if plural else _SINGULAR)
    _settle_determiner(dice, nominal)
    if "kin" in noun.tags:
        return nominal
    nominal.adjectives = draw_adjectives(dice, noun, chance=adjectives, ranks=ranks)
    if any(adjective.english == "other" for adjective in nominal.adjectives):
        nominal.determiner, nominal.numeral = "the", None
    return nominal


def _settle_determiner(dice: Dice, nominal: Nominal) -> None:
    if "kin" in nominal.noun.tags:
        nominal.determiner = dice.weighted(_OWNERS)
    elif nominal.determiner == "possessive":
        nominal.determiner = dice.weighted(_OWNERS) if nominal.noun in _OWNED else "the"
    elif nominal.determiner == "number":
        nominal.determiner = "" if dice.chance(0.75) else "the"
        nominal.numeral = dice.pick(_NUMERALS)


def draw_person(dice: Dice, suited: Sequence[Noun], *, definite: bool = False) -> Argument:
    """A subject from `suited`; if these are people, it may be a name or a pronoun."""
    people_do = "woman" in {noun.english for noun in suited[:8]}
    if people_do:
        if dice.chance(0.16):
            return draw_pronoun(dice)
        if dice.chance(0.14):
            return Nominal(noun=dice.pick(NAMES), determiner="")
    return draw_nominal(dice, dice.pick(suited), definite=definite, adjectives=0.3)


def draw_pronoun(dice: Dice) -> Pronoun:
    """I, we, he or she: the pronouns that are translated without an antecedent."""
    kind = dice.pick(("I", "we", "he", "she"))
    if kind in ("I", "we"):
        return Pronoun(gender="m", plural=kind == "we", person=1)
    return Pronoun(gender="m" if kind == "he" else "f", human=True)


def draw_place(dice: Dice) -> Place:
    """A place for people and animals."""
    preposition, nouns = dice.pick(_SPOTS)
    noun = dice.pick(nouns)
    return Place(PREPOSITIONS[preposition], draw_nominal(dice, noun, definite=True, plural=False, adjectives=0.2))


def attach_modifier(dice: Dice, nominal: Nominal) -> None:
    """Give a nominal an owner ("the queen's cat") or a place ("the cat near the houses")."""
    noun = nominal.noun
    if nominal.numeral is not None or nominal.determiner not in ("the", "this"):
        return
    if noun in _OWNED and dice.chance(0.35 if noun in _SMALL_THINGS else 0.7):
        nominal.determiner = "the"
        nominal.adjectives = tuple(adjective for adjective in nominal.adjectives if adjective.rank > 0)
        owner = dice.pick(NAMES) if dice.chance(0.35) else dice.pick(_OWNING)
        nominal.possessor = draw_nominal(dice, owner, definite=True, plural=False, adjectives=0.15)
        return
    if noun in _SMALL_THINGS:
        preposition, nouns = dice.pick(_NEAR_THINGS)
    elif noun.tags & {"human", "animal"} and "kin" not in noun.tags:
        preposition, nouns = dice.pick(_STANDS)
    else:
        return
    plural = preposition == "near" and dice.chance(0.5)
    where = draw_nominal(dice, dice.pick(nouns), definite=True, adjectives=0.1, plural=plural)
    nominal.place = Place(PREPOSITIONS[preposition], where)
