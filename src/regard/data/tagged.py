"""Sentences with a tag for each word: CoNLL columns (word first, tag last) and CoNLL-U, plain or .gz.

A blank line ends a sentence. A sentence with a bad line is not used, because a word would be missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mode
from typing import NamedTuple

from regard.data.files import BadRow, FileLines, ReadResult, shortened
from regard.metrics.entities import (
    ENTITY_TAGS,
    OUTSIDE,
    PREFIXES,
    broken_tags,
    is_entity_tag,
    looks_like_iob1,
    split_tag,
)
from regard.utils.errors import UsageError, number_of, shorten_list, unknown

DOCUMENT = "-DOCSTART-"  # the word of a line between documents
CONLLU_COLUMNS = {"lemma": 2, "upos": 3, "xpos": 4, "feats": 5, "deprel": 7}  # columns that may be tags, from 0
CONLLU_WIDTH = 10
CONLLU = (".conllu", ".conll-u")
SCHEME_SHARE = 0.95  # if at least this share of words has entity tags, other tags are mistakes


@dataclass(frozen=True, slots=True)
class Tagged:
    """The words of a sentence and a tag for each."""

    words: tuple[str, ...]
    tags: tuple[str, ...]


class _Word(NamedTuple):
    line: int
    word: str
    tag: str


Parse = Callable[[str], tuple[str, str] | str | None]  # a line → word and tag, or what is wrong with it; None: skip it


def read_tagged(
    path: Path | str, *, tag_column: str | None = None, repair_tags: bool = False, skip_bad_rows: bool = False
) -> ReadResult[Tagged]:
    """Read sentences with tags.

    `tag_column` is the number of the column with the tags (default: the last one), or in CoNLL-U its name (default:
    upos). An entity must begin with B-, so an I- after O is a bad line. With `repair_tags` such an I- becomes B-, as in
    conlleval. Files in the scheme IOB1, where entities begin with I-, are converted.
    """
    path = Path(path)
    result: ReadResult[Tagged] = ReadResult()
    text = FileLines.read(path, result.checksums)
    is_conllu = is_conll(path, CONLLU)
    parse = _conllu_parser(tag_column) if is_conllu else _column_parser(path, text.lines, tag_column)
    sentences = [words for words in _sentences(path, text, parse, result.bad) if words]
    _check_tags(path, sentences, result, repair_tags=repair_tags)
    return result.finish(path, "sentences", skip_bad_rows=skip_bad_rows, unit="lines", total=len(text.lines))


def is_conll(path: Path, suffixes: tuple[str, ...] = (*CONLLU, ".conll", ".iob", ".bio")) -> bool:
    """Return whether a file has a suffix of CoNLL columns or CoNLL-U."""
    return path.name.lower().removesuffix(".gz").endswith(suffixes)


def _sentences(path: Path, text: FileLines, parse: Parse, bad: list[BadRow]) -> Iterator[list[_Word]]:
    """Return the words of each sentence, without sentences that have a bad line."""
    words: list[_Word] = []
    is_bad = False
    for number, line in enumerate([*text.lines, ""], start=1):
        if not line.strip():
            yield [] if is_bad else words
            words, is_bad = [], False
            continue
        parsed = text.undecodable.get(number) or parse(line)
        if isinstance(parsed, str):
            bad.append(BadRow(str(path), number, parsed))
            is_bad = True
        elif parsed is not None:
            words.append(_Word(number, *parsed))


def _column_parser(path: Path, lines: Sequence[str], tag_column: str | None) -> Parse:
    filled = [line for line in lines if line.strip()]
    has_tabs = 2 * sum("\t" in line for line in filled) > len(filled)

    def split(line: str) -> list[str]:
        return [cell.strip() for cell in line.split("\t")] if has_tabs else line.split()

    width = mode(len(split(line)) for line in filled) if filled else 2
    if width < 2:
        message = f"{path} has one column. Words and tags need two, separated by tabs or spaces."
        raise UsageError(message, path=path, value=width)
    place = width - 1
    if tag_column is not None:
        if not tag_column.isdecimal() or not 2 <= int(tag_column) <= width:
            message = f"{path} has no tag column {tag_column!r}. Give a number from 2 to {width}."
            allowed = range(2, width + 1)
            raise UsageError(message, path=path, argument="tag_column", value=tag_column, allowed=allowed)
        place = int(tag_column) - 1

    def parse(line: str) -> tuple[str, str] | str | None:
        if line.startswith(DOCUMENT):
            return None
        cells = split(line)
        if len(cells) != width:
            shown = shortened(" ".join(cells), 40)
            return f"{number_of(len(cells), 'column')} where most lines have {width}: {shown!r}"
        empty = next((column for column in (0, place) if not cells[column]), None)
        return (cells[0], cells[place]) if empty is None else f"column {empty + 1} is empty"

    return parse


def _conllu_parser(tag_column: str | None) -> Parse:
    name = (tag_column or "upos").lower()
    if name not in CONLLU_COLUMNS:
        raise unknown("column of CoNLL-U", name, CONLLU_COLUMNS)
    place = CONLLU_COLUMNS[name]

    def parse(line: str) -> tuple[str, str] | str | None:
        if line.startswith("#"):
            return None
        cells = line.split("\t")
        if len(cells) != CONLLU_WIDTH:
            return f"{number_of(len(cells), 'column')} separated by tabs; CoNLL-U has {CONLLU_WIDTH}"
        if not cells[0].replace("-", "").replace(".", "").isdecimal():
            return f"the first column must be a word number, got {shortened(cells[0])!r}"
        if not cells[0].isdecimal():  # 3-4 is a contraction, 5.1 an omitted word
            return None
        return (cells[1], cells[place]) if cells[1].strip() and cells[place].strip() else "the word or its tag is empty"

    return parse


def marks_entities(tags: Collection[str]) -> bool:
    """Return whether the tags follow an entity scheme such as IOB2; tags such as parts of speech do not."""
    return (all(map(is_entity_tag, tags)) or _is_untyped(tags)) and any(tag != OUTSIDE for tag in tags)


def _is_untyped(tags: Collection[str]) -> bool:
    """Return whether entities have no types: all tags are O, B or I."""
    return OUTSIDE in tags and {*tags} <= {OUTSIDE, *PREFIXES}


def _check_tags(
    path: Path, sentences: Sequence[Sequence[_Word]], result: ReadResult[Tagged], *, repair_tags: bool
) -> None:
    """Add the sentences to the result. If they have entities, their tags must follow the scheme."""
    counts = Counter(word.tag for words in sentences for word in words)
    entities = _has_entities(counts)
    if entities and not _is_untyped(counts):
        others = {tag for tag in counts if not is_entity_tag(tag)}
        reason = f"is not one of the tags {', '.join(ENTITY_TAGS)}"
        wrong = (word for words in sentences for word in words if word.tag in others)
        result.bad += [BadRow(str(path), word.line, f"{word.tag!r} {reason}") for word in wrong]
        sentences = [words for words in sentences if others.isdisjoint(word.tag for word in words)]
    tags = [[word.tag for word in words] for words in sentences]
    iob1 = entities and looks_like_iob1(tags)
    result.remarks.append(f"tags: {path.name}: {_describe_tags(counts, entities=entities, iob1=iob1)}")
    for words, row_tags in zip(sentences, tags, strict=True):
        broken = broken_tags(row_tags) if entities else []
        if broken and not repair_tags and not iob1:
            result.bad += [_broken_row(path, words, index) for index in broken]
            continue
        for index in broken:
            row_tags[index] = "B" + row_tags[index][1:]
        result.add(words[0].line, Tagged(tuple(word.word for word in words), tuple(row_tags)))


def _has_entities(counts: Counter[str]) -> bool:
    """Return whether nearly all tags follow an entity scheme such as BIO, and at least one is not `O`."""
    if _is_untyped(counts):
        return len(counts) > 1
    known = {tag: count for tag, count in counts.items() if is_entity_tag(tag)}
    return bool(known.keys() - {OUTSIDE}) and sum(known.values()) >= SCHEME_SHARE * counts.total()


def _describe_tags(counts: Counter[str], *, entities: bool, iob1: bool) -> str:
    names = shorten_list(sorted(counts))
    if iob1:
        return "entities in IOB1, where B- occurs only between adjacent entities of one type; converted to IOB2"
    if entities and _is_untyped(counts):
        return f"entities without types: {names}"
    if entities:
        types = sorted({split_tag(tag)[1] for tag in counts if is_entity_tag(tag) and tag != OUTSIDE})
        return f"entities: {shorten_list(types)}"
    if counts.keys() == {OUTSIDE}:
        return "no entities: all words are O"
    known = sum(count for tag, count in counts.items() if is_entity_tag(tag))
    few = f" (only {known:,} of {counts.total():,} are entity tags such as O and B-TYPE)" if known else ""
    return f"word tags, such as parts of speech, not entity tags: {names}{few}"


def _broken_row(path: Path, words: Sequence[_Word], index: int) -> BadRow:
    tag, line = words[index].tag, words[index].line
    before = words[index - 1].tag if index else "the start of the sentence"
    reason = f"{tag} after {before}: an entity must begin with B (--repair-tags makes it B{tag[1:]})"
    return BadRow(str(path), line, reason)
