"""Entity-level F1, computed like `conlleval` and seqeval's default mode.

A tag is O, or a prefix, a hyphen and a type: B- begins an entity, and I- continues it. In IOBES, E- ends an entity, and
S- is an entity of one word. An entity is correct if its first word, its last word and its type are correct. As in both
programs, an I- that continues no entity of its type begins a new one. So IOB1, where B- occurs only between adjacent
entities, is supported, too.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from regard.metrics.labels import Counts, count_matches
from regard.metrics.score import Score, check_lists
from regard.utils.errors import UsageError

OUTSIDE = "O"
PREFIXES = ("B", "I", "E", "S")
ENTITY_TAGS = (OUTSIDE, *(f"{prefix}-TYPE" for prefix in PREFIXES))
ALL = ""  # the name of all types together

SplitTag = tuple[str, str]  # prefix and type


class Entity(NamedTuple):
    """The words from `start` up to, not including, `end`."""

    type: str
    start: int
    end: int


def split_tag(tag: str) -> SplitTag:
    """The prefix and the type of a tag: ("B", "person"); ("O", "") outside of entities."""
    prefix, _, type_ = tag.partition("-")
    if tag == OUTSIDE or (prefix in PREFIXES and (type_ or tag == prefix)):
        return prefix, type_
    message = f"{tag!r} is not an entity tag: {', '.join(ENTITY_TAGS)}."
    raise UsageError(message, argument="tag", value=tag, allowed=ENTITY_TAGS)


def is_entity_tag(tag: str) -> bool:
    """Return whether a tag belongs to an entity scheme; tags such as parts of speech do not."""
    prefix, _, type_ = tag.partition("-")
    return tag == OUTSIDE or (prefix in PREFIXES and bool(type_))


def entities(tags: Sequence[str]) -> list[Entity]:
    """The entities of one sentence, in order."""
    found: list[Entity] = []
    for index, (previous, tag) in enumerate(_with_previous(tags)):
        if tag[0] in ("B", "S") or _is_broken(previous, tag):
            found.append(Entity(tag[1], index, index + 1))
        elif tag[0] != OUTSIDE:
            found[-1] = found[-1]._replace(end=index + 1)
    return found


def _with_previous(tags: Sequence[str]) -> Iterable[tuple[SplitTag, SplitTag]]:
    return itertools.pairwise([(OUTSIDE, ""), *map(split_tag, tags)])


def _is_broken(previous: SplitTag, tag: SplitTag) -> bool:
    """Whether I- or E- continues no entity: after O, another type or the end of an entity."""
    return tag[0] in ("I", "E") and (previous[0] in (OUTSIDE, "E", "S") or previous[1] != tag[1])


def broken_tags(tags: Sequence[str]) -> list[int]:
    """The indices where I- or E- continues no entity: correct in IOB1, a mistake in IOB2 and IOBES."""
    return [index for index, pair in enumerate(_with_previous(tags)) if _is_broken(*pair)]


def looks_like_iob1(sentences: Sequence[Sequence[str]]) -> bool:
    """Whether I- begins entities, and B- occurs only between two adjacent entities of one type."""
    pairs = [pair for tags in sentences for pair in _with_previous(tags)]
    other_scheme = any(
        tag[0] in ("E", "S") or (tag[0] == "B" and (previous[0] == OUTSIDE or previous[1] != tag[1]))
        for previous, tag in pairs
    )
    return not other_scheme and any(_is_broken(*pair) for pair in pairs)


def entity_counts(predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> dict[str, Counts]:
    """Counts by type, in alphabetical order; the key "" has the counts of all types together."""
    check_lists(predicted=predicted, gold=gold)
    for number, (tags, gold_tags) in enumerate(zip(predicted, gold, strict=True), start=1):
        if len(tags) != len(gold_tags):
            message = f"sentence {number} has {len(gold_tags)} words but {len(tags)} predicted tags."
            raise UsageError(message, argument="predicted", value=len(tags))
    sets = ((set(entities(tags)), set(entities(gold_tags))) for tags, gold_tags in zip(predicted, gold, strict=True))
    counts = count_matches(sets, lambda entity: entity.type)
    return {ALL: sum(counts.values(), Counts()), **counts}


def entity_f1(predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> Score:
    """F1 over all entities of all sentences, in percent."""
    counts = entity_counts(predicted, gold)[ALL]
    detail = f"precision:{100 * counts.precision:.2f}|recall:{100 * counts.recall:.2f}|entities:{counts.gold}"
    return Score("entity F1", 100 * counts.f1, f"conlleval|{detail}|n:{len(gold)}")


def majority_tags(sentences: Sequence[tuple[Sequence[str], Sequence[str]]]) -> dict[str, str]:
    """Return the most frequent tag of each word, and of all words under the key "", as a baseline."""
    by_word: dict[str, Counter[str]] = {"": Counter()}
    for words, tags in sentences:
        by_word[""].update(tags)
        for word, tag in zip(words, tags, strict=True):
            by_word.setdefault(word, Counter())[tag] += 1
    return {word: min(tags, key=lambda tag: (-tags[tag], tag)) for word, tags in by_word.items() if tags}
