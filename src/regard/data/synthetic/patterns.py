"""Fixed phrases in English and French: prepositions, adverbs, times, dates, connectors and compound names.

A pattern is written as words `form:POS:relation:label`. The word with a star is the head of the other words; its own
head is what the phrase modifies. Words with the same label are translations of each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class PhraseWord(NamedTuple):
    """One word of a fixed phrase."""

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


def pattern(spelling: str) -> Pattern:
    """Read the notation of this module."""
    words = spelling.split()
    main = next(index for index, word in enumerate(words) if word.startswith("*"))
    return Pattern(tuple(PhraseWord(*word.lstrip("*").split(":")) for word in words), main)


def phrase(line: str) -> Phrase:
    """Read `name | English pattern | French pattern`."""
    name, english, french = (part.strip() for part in line.split("|"))
    return Phrase(name, pattern(english), pattern(french))


def phrases(lines: str) -> dict[str, Phrase]:
    """Read one phrase per line, by name."""
    return {read.name: read for read in map(phrase, lines.strip().splitlines())}


CONNECTORS = phrases("""
and     | *and:CCONJ:cc:a       | *et:CCONJ:cc:a
but     | *but:CCONJ:cc:a       | *mais:CCONJ:cc:a
because | *because:SCONJ:mark:a | *parce:SCONJ:mark:a que:SCONJ:fixed:a
while   | *while:SCONJ:mark:a   | *pendant:SCONJ:mark:a que:SCONJ:fixed:a
""")

PREPOSITIONS = phrases("""
in          | *in:ADP:case:a                                | *dans:ADP:case:a
into        | *in:ADP:case:a                                | *dans:ADP:case:a
on          | *on:ADP:case:a                                | *sur:ADP:case:a
under       | *under:ADP:case:a                             | *sous:ADP:case:a
behind      | *behind:ADP:case:a                            | *derrière:ADP:case:a
near        | *near:ADP:case:a                              | *près:ADP:case:a de:ADP:fixed:a
in front of | *in:ADP:case:a front:NOUN:fixed:a of:ADP:fixed:a | *devant:ADP:case:a
at          | *at:ADP:case:a                                | *à:ADP:case:a
with        | *with:ADP:case:a                              | *avec:ADP:case:a
to          | *to:ADP:case:a                                | *à:ADP:case:a
about       | *about:ADP:case:a                             | *de:ADP:case:a
by          | *by:ADP:case:a                                | *par:ADP:case:a
on a topic  | *on:ADP:case:a                                | *sur:ADP:case:a
""")

FREQUENCIES = phrases("""
often     | *often:ADV:advmod:a     | *souvent:ADV:advmod:a
always    | *always:ADV:advmod:a    | *toujours:ADV:advmod:a
sometimes | *sometimes:ADV:advmod:a | *parfois:ADV:advmod:a
rarely    | *rarely:ADV:advmod:a    | *rarement:ADV:advmod:a
""")

MANNERS = phrases("""
slowly   | *slowly:ADV:advmod:a   | *lentement:ADV:advmod:a
quickly  | *quickly:ADV:advmod:a  | *rapidement:ADV:advmod:a
quietly  | *quietly:ADV:advmod:a  | *tranquillement:ADV:advmod:a
calmly   | *calmly:ADV:advmod:a   | *calmement:ADV:advmod:a
carefully | *carefully:ADV:advmod:a | *prudemment:ADV:advmod:a
""")

PRESENT_TIMES = phrases("""
every day      | every:DET:det:a *day:NOUN:obl:b              | tous:ADJ:amod:a les:DET:det:a *jours:NOUN:obl:b
in the morning | in:ADP:case:a the:DET:det:a *morning:NOUN:obl:b | le:DET:det:a *matin:NOUN:obl:b
in the evening | in:ADP:case:a the:DET:det:a *evening:NOUN:obl:b | le:DET:det:a *soir:NOUN:obl:b
""")

PAST_TIMES = phrases("""
today          | *today:NOUN:obl:a                            | *aujourd'hui:ADV:advmod:a
yesterday    | *yesterday:NOUN:obl:a              | *hier:ADV:advmod:a
last week    | last:ADJ:amod:a *week:NOUN:obl:b   | la:DET:det:b *semaine:NOUN:obl:b dernière:ADJ:amod:a
last year    | last:ADJ:amod:a *year:NOUN:obl:b   | l':DET:det:b *année:NOUN:obl:b dernière:ADJ:amod:a
this morning | this:DET:det:a *morning:NOUN:obl:b | ce:DET:det:a *matin:NOUN:obl:b
""")

DEGREES = phrases("""
too    | *too:ADV:advmod:a    | *trop:ADV:advmod:a
very   | *very:ADV:advmod:a   | *très:ADV:advmod:a
really | *really:ADV:advmod:a | *vraiment:ADV:advmod:a
""")

NEVER = phrase("never | *never:ADV:advmod:a | *jamais:ADV:advmod:a")

NUMERALS = phrases("""
two   | *two:NUM:nummod:a   | *deux:NUM:nummod:a
three | *three:NUM:nummod:a | *trois:NUM:nummod:a
four  | *four:NUM:nummod:a  | *quatre:NUM:nummod:a
five  | *five:NUM:nummod:a  | *cinq:NUM:nummod:a
six   | *six:NUM:nummod:a   | *six:NUM:nummod:a
seven | *seven:NUM:nummod:a | *sept:NUM:nummod:a
eight | *eight:NUM:nummod:a | *huit:NUM:nummod:a
nine  | *nine:NUM:nummod:a  | *neuf:NUM:nummod:a
ten   | *ten:NUM:nummod:a   | *dix:NUM:nummod:a
""")

# Names of institutions, without their article. Each part of the longest names also occurs in other names, so that a
# translator has to learn the parts.
COMPOUNDS = phrases("""
European Economic Area | European:ADJ:amod:a Economic:ADJ:amod:b *Area:NOUN:root:c | *zone:NOUN:root:c économique:ADJ:amod:b européenne:ADJ:amod:a
European Monetary Area | European:ADJ:amod:a Monetary:ADJ:amod:b *Area:NOUN:root:c | *zone:NOUN:root:c monétaire:ADJ:amod:b européenne:ADJ:amod:a
African Economic Area | African:ADJ:amod:a Economic:ADJ:amod:b *Area:NOUN:root:c | *zone:NOUN:root:c économique:ADJ:amod:b africaine:ADJ:amod:a
Asian Economic Area | Asian:ADJ:amod:a Economic:ADJ:amod:b *Area:NOUN:root:c | *zone:NOUN:root:c économique:ADJ:amod:b asiatique:ADJ:amod:a
European Economic Council | European:ADJ:amod:a Economic:ADJ:amod:b *Council:NOUN:root:c | *Conseil:NOUN:root:c économique:ADJ:amod:b européen:ADJ:amod:a
African Economic Council | African:ADJ:amod:a Economic:ADJ:amod:b *Council:NOUN:root:c | *Conseil:NOUN:root:c économique:ADJ:amod:b africain:ADJ:amod:a
Asian Monetary Council | Asian:ADJ:amod:a Monetary:ADJ:amod:b *Council:NOUN:root:c | *Conseil:NOUN:root:c monétaire:ADJ:amod:b asiatique:ADJ:amod:a
European Central Bank | European:ADJ:amod:a Central:ADJ:amod:b *Bank:NOUN:root:c | *Banque:NOUN:root:c centrale:ADJ:amod:b européenne:ADJ:amod:a
International Monetary Fund | International:ADJ:amod:a Monetary:ADJ:amod:b *Fund:NOUN:root:c | *Fonds:NOUN:root:c monétaire:ADJ:amod:b international:ADJ:amod:a
European Union | European:ADJ:amod:a *Union:NOUN:root:c | *Union:NOUN:root:c européenne:ADJ:amod:a
African Union | African:ADJ:amod:a *Union:NOUN:root:c | *Union:NOUN:root:c africaine:ADJ:amod:a
European Parliament | European:ADJ:amod:a *Parliament:NOUN:root:c | *Parlement:NOUN:root:c européen:ADJ:amod:a
European Commission | European:ADJ:amod:a *Commission:NOUN:root:c | *Commission:NOUN:root:c européenne:ADJ:amod:a
""")  # noqa: E501
COMPOUND_GENDERS = {
    "European Economic Area": "f",
    "European Monetary Area": "f",
    "African Economic Area": "f",
    "Asian Economic Area": "f",
    "European Economic Council": "m",
    "African Economic Council": "m",
    "Asian Monetary Council": "m",
    "European Central Bank": "f",
    "International Monetary Fund": "m",
    "European Union": "f",
    "African Union": "f",
    "European Parliament": "m",
    "European Commission": "f",
}

_MONTHS = {
    "January": "janvier",
    "February": "février",
    "March": "mars",
    "April": "avril",
    "May": "mai",
    "June": "juin",
    "July": "juillet",
    "August": "août",
    "September": "septembre",
    "October": "octobre",
    "November": "novembre",
    "December": "décembre",
}
_YEARS = ("1957", "1968", "1979", "1986", "1992", "1999", "2004", "2009", "2015", "2020")

DATES: tuple[Phrase, ...] = tuple(
    phrase(
        f"in {english} {year}"
        f"| in:ADP:case:a *{english}:PROPN:obl:b {year}:NUM:nummod:c"
        f"| en:ADP:case:a *{french}:NOUN:obl:b {year}:NUM:nummod:c"
    )
    for english, french in _MONTHS.items()
    for year in _YEARS
)
