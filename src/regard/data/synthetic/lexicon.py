"""The words of the built-in synthetic dataset in English and French, read from the folder `tables`.

The tables contain determiners, fixed phrases (prepositions, adverbs, times, dates, names of institutions), nouns,
adjectives and verbs. They also state which nouns an adjective or a verb can be combined with.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import NamedTuple


def read_table(name: str) -> list[list[str]]:
    """The rows of `tables/<name>.txt`: cells are separated by bars, lines that start with # are comments."""
    text = (resources.files("regard.data.synthetic") / "tables" / f"{name}.txt").read_text(encoding="utf-8")
    return [[cell.strip() for cell in line.split("|")] for line in text.splitlines() if not line.startswith("#")]


_DETERMINERS = read_table("determiners")
DETERMINERS: dict[str, list[str]] = {english: french for _, english, *french in _DETERMINERS}
POSSESSIVES: tuple[str, ...] = tuple(english for group, english, *_ in _DETERMINERS if group == "possessive")


# --- Fixed phrases ------------------------------------------------------------------------------------------------


class PhraseWord(NamedTuple):
    """One word of a fixed phrase. Words with the same label are translations of each other."""

    is_main: bool  # the head of the other words
    form: str
    pos: str
    relation: str
    label: str


@dataclass(frozen=True, eq=False)
class Phrase:
    """A fixed phrase in both languages."""

    name: str
    english: tuple[PhraseWord, ...]
    french: tuple[PhraseWord, ...]
    gender: str = ""  # of the French name of an institution


def _phrase_words(notation: str) -> tuple[PhraseWord, ...]:
    return tuple(PhraseWord(word.startswith("*"), *word.lstrip("*").split(":")) for word in notation.split())


_GROUPS: dict[str, dict[str, Phrase]] = defaultdict(dict)
for _group, _name, _english, _french, *_gender in read_table("phrases"):
    _GROUPS[_group][_name] = Phrase(_name, _phrase_words(_english), _phrase_words(_french), *_gender)
CONNECTORS, PREPOSITIONS, NUMERALS = _GROUPS["connector"], _GROUPS["preposition"], _GROUPS["numeral"]
FREQUENCIES, MANNERS, DEGREES = _GROUPS["frequency"], _GROUPS["manner"], _GROUPS["degree"]
PRESENT_TIMES, PAST_TIMES = _GROUPS["present time"], _GROUPS["past time"]
NEGATIONS, QUESTION_WORDS = _GROUPS["negation"], _GROUPS["question"]

DATES: tuple[Phrase, ...] = tuple(
    Phrase(
        f"in {english} {year}",
        _phrase_words(f"in:ADP:case:a *{english}:PROPN:obl:b {year}:NUM:nummod:c"),
        _phrase_words(f"en:ADP:case:a *{french}:NOUN:obl:b {year}:NUM:nummod:c"),
    )
    for english, french in read_table("months")
    for year in (1957, 1968, 1979, 1986, 1992, 1999, 2004, 2009, 2015, 2020)
)


# --- Nouns --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Noun:
    """A noun or first name. Nouns are compared by identity, because each exists once."""

    english: str
    english_plural: str
    french: str
    french_plural: str
    gender: str  # "m" or "f"
    tags: frozenset[str]
    compound: Phrase | None = None  # a name of several words, such as "European Economic Area"


def _with_plural(forms: str) -> tuple[str, str]:
    singular, _, plural = forms.partition("/")
    return singular, plural or singular + "s"


NOUNS: tuple[Noun, ...] = tuple(
    Noun(*_with_plural(english), *_with_plural(french), gender, frozenset(tags.split()))
    for english, french, gender, tags in read_table("nouns")
)
NAMES: tuple[Noun, ...] = tuple(
    Noun(name, name, name, name, gender, frozenset({"human", "name"})) for name, gender in read_table("names")
)
INSTITUTIONS: tuple[Noun, ...] = tuple(
    Noun(name, name, name, name, compound.gender, frozenset({"institution"}), compound)
    for name, compound in _GROUPS["institution"].items()
)
NOUN: dict[str, Noun] = {noun.english: noun for noun in (*NOUNS, *NAMES, *INSTITUTIONS)}
_KNOWN: frozenset[str] = frozenset(NOUN).union(*(noun.tags for noun in NOUN.values()))


def matching(selection: str) -> tuple[Noun, ...]:
    """The nouns that match a list of tags and nouns, separated by spaces; '-x' excludes the tag or noun x.

    >>> [noun.english for noun in matching("drink -liquid candle")]
    ['wine', 'candle']
    """
    words = selection.split()
    included = {word for word in words if not word.startswith("-")}
    excluded = {word[1:] for word in words if word.startswith("-")}
    if unknown := sorted((included | excluded) - _KNOWN):
        raise ValueError(f"neither nouns nor tags: {unknown}")

    def belongs(noun: Noun, names: set[str]) -> bool:
        return noun.english in names or not names.isdisjoint(noun.tags)

    return tuple(noun for noun in (*NOUNS, *INSTITUTIONS) if belongs(noun, included) and not belongs(noun, excluded))


# --- Adjectives and verbs -----------------------------------------------------------------------------------------


class Adjective:
    """One adjective with its four French forms, and the nouns that it can modify: a row of tables/adjectives.txt."""

    def __init__(self, english: str, french: str, properties: str, nouns: str) -> None:
        masculine, feminine, masculine_plural, feminine_plural, before_vowel = (french.split(",") + [""] * 4)[:5]
        regular = inflect(masculine, feminine=feminine)
        position, rank, *flags = properties.split()
        self.english = english
        self.forms = (*regular[:2], masculine_plural or regular[2], feminine_plural or regular[3])
        self.before_vowel = before_vowel or None  # the masculine singular before a vowel, where it differs: bel, vieil
        self.precedes = position == "pre"  # whether it precedes the French noun
        self.rank = int(rank)
        self.flags = frozenset(flags)  # fixed, praise, attributive, personal
        # The noun after "avoir" in French: faim, peur.
        self.idiom = next((flag.removeprefix("avoir:") for flag in flags if flag.startswith("avoir:")), None)
        self.nouns = frozenset(matching(nouns))


class Verb:
    """One verb: its forms and prepositions in both languages, its subjects and objects: a row of tables/verbs.txt."""

    def __init__(self, english: str, french: str, subjects: str, objects: str = "", flags: str = "") -> None:
        forms, _, preposition = english.partition(" ")
        self.english, *irregular = forms.split(",")
        self.third = _third_person(self.english)
        self.past, self.participle = irregular or [self.english + ("d" if self.english.endswith("e") else "ed")] * 2
        self.preposition = preposition or None  # of the English object: "wait for"
        words = french.split()
        french_forms = [word for word in words if word != "être" and not word.startswith("+")]
        if len(french_forms) == 1:  # a regular verb in -er
            stem = french_forms[0].removesuffix("er")
            soft = stem + "e" if stem.endswith("g") else stem
            french_forms = [stem + "e", stem + "e", soft + "ons", stem + "ent", stem + "é"]
        *self.french_present, self.french_participle = french_forms  # the present of je, il, nous, ils
        self.french_preposition = next((word[1:] for word in words if word.startswith("+")), None)
        self.takes_etre = "être" in words
        self.subjects, self.objects = matching(subjects), matching(objects)
        self.flags = frozenset(flags.split())
        # With its preposition: 'talk to' is not 'talk about'.
        self.name = f"{self.english} {preposition}" if preposition else self.english


def inflect(masculine: str, *, feminine: str = "") -> tuple[str, str, str, str]:
    """The four forms of a French adjective or participle: masculine, feminine, masculine plural, feminine plural.

    >>> inflect("gris"), inflect("heureux", feminine="heureuse")[2]
    (('gris', 'grise', 'gris', 'grises'), 'heureux')
    """
    feminine = feminine or (masculine if masculine.endswith("e") else masculine + "e")
    plural = masculine if masculine[-1] in "sx" else masculine + "s"
    return masculine, feminine, plural, feminine + "s"


def _third_person(base: str) -> str:
    """The English third person: carries, washes, buys."""
    if base.endswith(("s", "sh", "ch", "x", "o")):
        return base + "es"
    if base.endswith("y") and base[-2] not in "aeou":
        return base[:-1] + "ies"
    return base + "s"


ADJECTIVES: tuple[Adjective, ...] = tuple(Adjective(*row) for row in read_table("adjectives"))
VERBS: tuple[Verb, ...] = tuple(Verb(*row) for row in read_table("verbs"))
ADJECTIVE: dict[str, Adjective] = {adjective.english: adjective for adjective in ADJECTIVES}
VERB: dict[str, Verb] = {verb.name: verb for verb in VERBS}


@cache
def attributes(noun: Noun) -> tuple[Adjective, ...]:
    """The adjectives that can precede this noun in English."""
    return tuple(adjective for adjective in ADJECTIVES if noun in adjective.nouns)


@cache
def predicates(noun: Noun) -> tuple[Adjective, ...]:
    """The adjectives that can follow 'is' with this noun or name as the subject."""
    if "name" in noun.tags:
        return tuple(adjective for adjective in ADJECTIVES if "personal" in adjective.flags)
    return tuple(adjective for adjective in attributes(noun) if "attributive" not in adjective.flags)
