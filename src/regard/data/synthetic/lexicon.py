"""The adjectives, verbs and possessives of the built-in synthetic dataset, and which nouns they go with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from regard.data.synthetic.nouns import Noun, matching
from regard.data.synthetic.table_files import read_table

POSSESSIVES: dict[str, tuple[str, str, str]] = {  # English: masculine, feminine, plural
    "my": ("mon", "ma", "mes"),
    "his": ("son", "sa", "ses"),
    "her": ("son", "sa", "ses"),
    "our": ("notre", "notre", "nos"),
    "their": ("leur", "leur", "leurs"),
}


@dataclass(frozen=True, eq=False)
class Adjective:
    """One adjective with its four French forms, and the nouns that it can modify."""

    english: str
    forms: tuple[str, str, str, str]  # masculine, feminine, masculine plural, feminine plural
    before_vowel: str | None  # the masculine singular before a vowel, where it differs: bel, vieil
    precedes: bool  # the French noun
    rank: int
    flags: frozenset[str]  # fixed, praise, attributive, personal
    idiom: str | None  # the noun after "avoir" in French: faim, peur
    nouns: frozenset[Noun]

    def french(self, gender: str, *, plural: bool) -> str:
        return self.forms[2 * plural + (gender == "f")]


@dataclass(frozen=True, eq=False)
class Verb:
    """One verb: its forms in both languages, its prepositions, and its possible subjects and objects."""

    english: str
    third: str
    past: str
    participle: str
    preposition: str | None  # of the English object: "wait for"
    french_present: tuple[str, ...]  # je, il, nous, ils
    french_participle: str
    french_preposition: str | None
    takes_etre: bool
    subjects: tuple[Noun, ...]
    objects: tuple[Noun, ...]
    flags: frozenset[str]  # present, active, recipient

    @property
    def name(self) -> str:
        """The verb with its preposition: 'talk to' is not 'talk about'."""
        return f"{self.english} {self.preposition}" if self.preposition else self.english


def inflect(masculine: str, *, feminine: str = "") -> tuple[str, str, str, str]:
    """The four forms of a French adjective or participle that follows the rules.

    >>> inflect("gris"), inflect("heureux", feminine="heureuse")[2]
    (('gris', 'grise', 'gris', 'grises'), 'heureux')
    """
    feminine = feminine or (masculine if masculine.endswith("e") else masculine + "e")
    plural = masculine if masculine[-1] in "sx" else masculine + "s"
    return masculine, feminine, plural, feminine + "s"


def _adjective(english: str, french: str, properties: str, nouns: str) -> Adjective:
    masculine, feminine, masculine_plural, feminine_plural, before_vowel = (french.split(",") + [""] * 4)[:5]
    regular = inflect(masculine, feminine=feminine)
    position, rank, *flags = properties.split()
    return Adjective(
        english=english,
        forms=(*regular[:2], masculine_plural or regular[2], feminine_plural or regular[3]),
        before_vowel=before_vowel or None,
        precedes=position == "pre",
        rank=int(rank),
        flags=frozenset(flags),
        idiom=next((flag.removeprefix("avoir:") for flag in flags if flag.startswith("avoir:")), None),
        nouns=frozenset(matching(nouns)),
    )


def _third_person(base: str) -> str:
    """The English third person: carries, washes, buys."""
    if base.endswith(("s", "sh", "ch", "x", "o")):
        return base + "es"
    if base.endswith("y") and base[-2] not in "aeou":
        return base[:-1] + "ies"
    return base + "s"


def _conjugate(infinitive: str) -> list[str]:
    """The present and the participle of a regular French verb in -er."""
    stem = infinitive.removesuffix("er")
    soft = stem + "e" if stem.endswith("g") else stem
    return [stem + "e", stem + "e", soft + "ons", stem + "ent", stem + "é"]


def _verb(english: str, french: str, subjects: str, objects: str = "", flags: str = "") -> Verb:
    forms, _, preposition = english.partition(" ")
    base, *irregular = forms.split(",")
    past, participle = irregular or [base + ("d" if base.endswith("e") else "ed")] * 2
    words = french.split()
    french_forms = [word for word in words if word != "être" and not word.startswith("+")]
    if len(french_forms) == 1:
        french_forms = _conjugate(french_forms[0])
    return Verb(
        english=base,
        third=_third_person(base),
        past=past,
        participle=participle,
        preposition=preposition or None,
        french_present=tuple(french_forms[:4]),
        french_participle=french_forms[4],
        french_preposition=next((word[1:] for word in words if word.startswith("+")), None),
        takes_etre="être" in words,
        subjects=matching(subjects),
        objects=matching(objects),
        flags=frozenset(flags.split()),
    )


ADJECTIVES: tuple[Adjective, ...] = tuple(_adjective(*row) for row in read_table("adjectives"))
VERBS: tuple[Verb, ...] = tuple(_verb(*row) for row in read_table("verbs"))
ADJECTIVE: dict[str, Adjective] = {adjective.english: adjective for adjective in ADJECTIVES}
VERB: dict[str, Verb] = {verb.name: verb for verb in VERBS}


@cache
def attributes(noun: Noun) -> tuple[Adjective, ...]:
    """The adjectives that can precede this noun in English."""
    return tuple(adjective for adjective in ADJECTIVES if noun in adjective.nouns)


@cache
def predicates(noun: Noun) -> tuple[Adjective, ...]:
    """The adjectives that can follow 'is' with this noun or name as the subject."""
    if noun.is_name:
        return tuple(adjective for adjective in ADJECTIVES if "personal" in adjective.flags)
    return tuple(adjective for adjective in attributes(noun) if "attributive" not in adjective.flags)
