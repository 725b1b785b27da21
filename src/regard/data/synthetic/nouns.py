"""The nouns, first names and institutions of the built-in synthetic dataset."""

from __future__ import annotations

from dataclasses import dataclass

from regard.data.synthetic.patterns import INSTITUTION_NAMES, Phrase
from regard.data.synthetic.table_files import read_table


@dataclass(frozen=True, eq=False)
class Noun:
    """A noun or first name. Compared by identity: each exists once."""

    english: str
    english_plural: str
    french: str
    french_plural: str
    gender: str  # "m" or "f"
    tags: frozenset[str]
    compound: Phrase | None = None  # a name of several words, such as "European Economic Area"

    @property
    def is_mass(self) -> bool:
        return "mass" in self.tags

    @property
    def is_name(self) -> bool:
        return "name" in self.tags


def _with_plural(forms: str) -> tuple[str, str]:
    singular, _, plural = forms.partition("/")
    return singular, plural or singular + "s"


NOUNS: tuple[Noun, ...] = tuple(
    Noun(*_with_plural(english), *_with_plural(french), gender, frozenset(tags.split()))
    for english, french, gender, tags in read_table("nouns")
)
NAMES: tuple[Noun, ...] = tuple(
    Noun(name, name, name, name, gender, frozenset({"human", "name"}))
    for gender, names in (
        ("f", "Marie Sophie Alice Emma Julie Anne"),
        ("m", "Paul Lucas Thomas Louis Antoine Olivier"),
    )
    for name in names.split()
)
INSTITUTIONS: tuple[Noun, ...] = tuple(
    Noun(name, name, name, name, compound.gender, frozenset({"institution"}), compound)
    for name, compound in INSTITUTION_NAMES.items()
)
NOUN: dict[str, Noun] = {noun.english: noun for noun in (*NOUNS, *NAMES, *INSTITUTIONS)}
_KNOWN: frozenset[str] = frozenset(NOUN).union(*(noun.tags for noun in NOUN.values()))

# French words that start with h, without elision before them.
ASPIRATED: frozenset[str] = frozenset(
    form for noun in NOUNS if "aspirated" in noun.tags for form in (noun.french, noun.french_plural)
) | {"huit"}


def matching(selection: str) -> tuple[Noun, ...]:
    """The nouns of a selection: tags or nouns separated by spaces; '-x' excludes x.

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
