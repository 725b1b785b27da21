"""F1 of entities, counted as by `conlleval` and by seqeval in its default mode.

Tags are O, or a prefix, a hyphen and a type: B- starts an entity and I- continues it; E- ends one and S- is an entity
of one word, where a scheme has these. An entity is correct if its first word, its last word and its type are. Tags that
break their scheme are no error here: an I- that follows no word of its type starts an entity, which is how both
programs read IOB1, where B- is used only between two adjacent entities.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from regard.metrics.labels import Counts, check_same_length
from regard.metrics.score import Score
from regard.utils.errors import UsageError

OUTSIDE = "O"
PREFIXES = ("B", "I", "E", "S")
ALL = ""  # the name of all types together


class Entity(NamedTuple):
    """The words from `start` up to, not including, `end`."""

    type: str
    start: int
    end: int


def split_tag(tag: str) -> tuple[str, str]:
    """The prefix of a tag and its type: ("B", "person"); ("O", "") outside of entities."""
    prefix, _, type_ = tag.partition("-")
    if tag == OUTSIDE or (prefix in PREFIXES and (type_ or tag == prefix)):
        return prefix, type_
    allowed = ("O", *(f"{prefix}-TYPE" for prefix in PREFIXES))
    raise UsageError(f"{tag!r} is not an entity tag: {', '.join(allowed)}.", argument="tag", value=tag, allowed=allowed)


def is_entity_tag(tag: str) -> bool:
    """Whether a tag is of a scheme for entities, and not a part of speech or the like."""
    prefix, _, type_ = tag.partition("-")
    return tag == OUTSIDE or (prefix in PREFIXES and bool(type_))


def entities(tags: Sequence[str]) -> list[Entity]:
    """The entities of one sentence, in order."""
    starts = [place for place, begins in enumerate(_begins(tags)) if begins]
    outside = [place for place, tag in enumerate(tags) if tag == OUTSIDE]
    ends = sorted({*starts, *outside, len(tags)})
    following = iter(ends)
    end = next(following)
    found = []
    for start in starts:
        while end <= start:
            end = next(following)
        found.append(Entity(split_tag(tags[start])[1], start, end))
    return found


def _begins(tags: Sequence[str]) -> Iterator[bool]:
    """For each word whether an entity starts with it."""
    before = (OUTSIDE, "")
    for tag in tags:
        prefix, type_ = split_tag(tag)
        interrupted = before[0] in (OUTSIDE, "E", "S") or before[1] != type_
        yield prefix != OUTSIDE and (prefix in ("B", "S") or interrupted)
        before = prefix, type_


def entity_counts(predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> dict[str, Counts]:
    """Counts by type, in alphabetical order, and under "" those of all types."""
    check_same_length(predicted, gold)
    given: Counter[str] = Counter()
    actual: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for number, (one, other) in enumerate(zip(predicted, gold, strict=True), start=1):
        if len(one) != len(other):
            raise UsageError(
                f"sentence {number} has {len(other)} words but {len(one)} predicted tags.",
                argument="predicted",
                value=len(one),
            )
        found, wanted = set(entities(one)), set(entities(other))
        given.update(entity.type for entity in found)
        actual.update(entity.type for entity in wanted)
        right.update(entity.type for entity in found & wanted)
    types = sorted(given.keys() | actual.keys())
    counts = {type_: Counts(right[type_], given[type_], actual[type_]) for type_ in types}
    return {ALL: Counts(right.total(), given.total(), actual.total()), **counts}


def entity_f1(predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> Score:
    """F1 over all entities of all sentences, in percent."""
    counts = entity_counts(predicted, gold)[ALL]
    detail = f"precision:{100 * counts.precision:.2f}|recall:{100 * counts.recall:.2f}|entities:{counts.actual}"
    return Score("entity F1", 100 * counts.f1, f"conlleval|{detail}|n:{len(gold)}")


def broken_tags(tags: Sequence[str]) -> list[int]:
    """The places where I- or E- continues no entity: after O, after another type or after an end.

    In IOB1 that is how entities start; in IOB2 and IOBES it is a mistake.
    """
    broken = []
    before = (OUTSIDE, "")
    for place, tag in enumerate(tags):
        prefix, type_ = split_tag(tag)
        if prefix in ("I", "E") and (before[0] in (OUTSIDE, "E", "S") or before[1] != type_):
            broken.append(place)
        before = prefix, type_
    return broken


def looks_like_iob1(sentences: Sequence[Sequence[str]]) -> bool:
    """Whether B- is used only between two entities of one type, and I- starts entities: IOB1."""
    begun_by_i = False
    for tags in sentences:
        pairs = itertools.pairwise([(OUTSIDE, ""), *map(split_tag, tags)])
        for (prefix_before, type_before), (prefix, type_) in pairs:
            apart = prefix_before == OUTSIDE or type_before != type_
            if prefix in ("E", "S") or (prefix == "B" and apart):
                return False
            begun_by_i = begun_by_i or (prefix == "I" and apart)
    return begun_by_i


def majority_tags(sentences: Sequence[tuple[Sequence[str], Sequence[str]]]) -> dict[str, str]:
    """The baseline of tagging: the most frequent tag of each word of (words, tags), and under "" that of all words."""
    by_word: dict[str, Counter[str]] = {}
    overall: Counter[str] = Counter()
    for words, tags in sentences:
        overall.update(tags)
        for word, tag in zip(words, tags, strict=True):
            by_word.setdefault(word, Counter())[tag] += 1
    by_word[""] = overall
    return {word: min(tags, key=lambda tag: (-tags[tag], tag)) for word, tags in by_word.items() if tags}
