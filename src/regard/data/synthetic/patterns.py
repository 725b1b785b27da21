"""Fixed phrases in English and French: prepositions, adverbs, times, dates, connectors and names of institutions."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple

from regard.data.synthetic.table_files import read_table


class PhraseWord(NamedTuple):
    """One word of a fixed phrase. Words with the same label are translations of each other."""

    form: str
    pos: str
    relation: str
    label: str


@dataclass(frozen=True, eq=False)
class Pattern:
    """The words of a phrase in one language, and the index of the main one."""

    words: tuple[PhraseWord, ...]
    main: int


@dataclass(frozen=True, eq=False)
class Phrase:
    """A fixed phrase in both languages."""

    name: str
    english: Pattern
    french: Pattern
    gender: str = ""  # of the French name of an institution


def _pattern(notation: str) -> Pattern:
    words = notation.split()
    main = next(index for index, word in enumerate(words) if word.startswith("*"))
    return Pattern(tuple(PhraseWord(*word.lstrip("*").split(":")) for word in words), main)


_GROUPS: dict[str, dict[str, Phrase]] = defaultdict(dict)
for group, name, english, french, *gender in read_table("phrases"):
    _GROUPS[group][name] = Phrase(name, _pattern(english), _pattern(french), *gender)
CONNECTORS, PREPOSITIONS, NUMERALS = _GROUPS["connector"], _GROUPS["preposition"], _GROUPS["numeral"]
FREQUENCIES, MANNERS, DEGREES = _GROUPS["frequency"], _GROUPS["manner"], _GROUPS["degree"]
PRESENT_TIMES, PAST_TIMES = _GROUPS["present time"], _GROUPS["past time"]
INSTITUTION_NAMES, NEVER = _GROUPS["institution"], _GROUPS["negation"]["never"]

_ENGLISH_MONTHS = "January February March April May June July August September October November December"
_FRENCH_MONTHS = "janvier février mars avril mai juin juillet août septembre octobre novembre décembre"
_YEARS = "1957 1968 1979 1986 1992 1999 2004 2009 2015 2020"
DATES: tuple[Phrase, ...] = tuple(
    Phrase(
        f"in {english} {year}",
        _pattern(f"in:ADP:case:a *{english}:PROPN:obl:b {year}:NUM:nummod:c"),
        _pattern(f"en:ADP:case:a *{french}:NOUN:obl:b {year}:NUM:nummod:c"),
    )
    for english, french in zip(_ENGLISH_MONTHS.split(), _FRENCH_MONTHS.split(), strict=True)
    for year in _YEARS.split()
)
