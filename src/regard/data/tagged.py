"""Sentences with a tag for each word: CoNLL columns (word first, tag last) and CoNLL-U, plain or .gz.

A blank line ends a sentence. A line that cannot be used makes its whole sentence unusable, since a word would be
missing from it. Nothing here knows tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.files import BadRow, Lines, Reading, refuse_bad_rows, refuse_emptiness, shortened
from regard.errors import UsageError, number_of, some, unknown
from regard.metrics.entities import OUTSIDE, PREFIXES, broken_tags, is_entity_tag, looks_like_iob1, split_tag

DOCUMENT = "-DOCSTART-"  # the word of a line that stands between documents
UNIVERSAL = {"lemma": 2, "upos": 3, "xpos": 4, "feats": 5, "deprel": 7}  # columns of CoNLL-U that may be tags, from 0
UNIVERSAL_WIDTH = 10
SCHEME_SHARE = 0.95  # of all words: if so many have tags of entities, other tags are mistakes

Row = tuple[int, list[str]]


@dataclass(frozen=True, slots=True)
class Tagged:
    """The words of a sentence and a tag for each."""

    words: tuple[str, ...]
    tags: tuple[str, ...]


def read_tagged(
    path: Path | str,
    *,
    tag_column: str | None = None,
    repair_tags: bool = False,
    skip_bad_rows: bool = False,
) -> Reading[Tagged]:
    """Read sentences with tags.

    `tag_column` is the number of the column with the tags (the last one if it is not given), or in CoNLL-U a name
    (upos if not given). An entity that goes on without having begun, I- after O, is a bad line, unless all entities of
    a file begin so, which is the scheme IOB1; with `repair_tags` it is taken for the beginning, as conlleval does.
    """
    path = Path(path)
    reading: Reading[Tagged] = Reading()
    text = Lines.read(path, reading.checksums)
    if is_universal(path):
        sentences = _universal_sentences(path, text, _universal_column(tag_column), reading)
    else:
        sentences = _column_sentences(path, text, tag_column, reading)
    _keep_whole(path, sentences, reading, repair_tags=repair_tags)
    if not skip_bad_rows:
        refuse_bad_rows(reading.bad, len(text.lines), what="lines")
    refuse_emptiness(reading, str(path), what="sentence")
    return reading


def is_universal(path: Path) -> bool:
    """Whether a file's name says that it is CoNLL-U."""
    return path.name.lower().removesuffix(".gz").endswith((".conllu", ".conll-u"))


def _blocks(lines: Sequence[str]) -> Iterator[list[tuple[int, str]]]:
    """The lines between blank ones, with their numbers."""
    block: list[tuple[int, str]] = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            block.append((number, line))
        elif block:
            yield block
            block = []
    if block:
        yield block


# CoNLL columns --------------------------------------------------------------------------------------------


def _column_sentences(
    path: Path, text: Lines, tag_column: str | None, reading: Reading[Tagged]
) -> Iterator[list[Row] | None]:
    """The (line, [word, tag]) rows of each sentence, or None for a sentence that cannot be used."""
    filled = [line for line in text.lines if line.strip()]
    tabbed = 2 * sum("\t" in line for line in filled) > len(filled)
    widths = Counter(len(_columns(line, tabbed=tabbed)) for line in filled)
    width = widths.most_common(1)[0][0] if widths else 2
    if width < 2:
        raise UsageError(
            f"{path} has one column; words and tags need two, separated by tabs or spaces. Is it plain text?"
        )
    place = _place(path, tag_column, width)
    for block in _blocks(text.lines):
        if block[0][1].startswith(DOCUMENT):
            block = block[1:]
        rows: list[Row] | None = []
        for line, content in block:
            cells = _columns(content, tabbed=tabbed)
            fault = text.undecodable.get(line) or _ragged(cells, width, place)
            if fault:
                reading.bad.append(BadRow(str(path), line, fault))
                rows = None
            elif rows is not None:
                rows.append((line, [cells[0], cells[place]]))
        if rows is None or rows:
            yield rows


def _columns(line: str, *, tabbed: bool) -> list[str]:
    return [cell.strip() for cell in line.rstrip("\r\n").split("\t")] if tabbed else line.split()


def _ragged(cells: Sequence[str], width: int, tag: int) -> str | None:
    if len(cells) != width:
        counted = f"{len(cells)} column{'' if len(cells) == 1 else 's'}"
        return f"{counted} where most lines have {width}: {shortened(' '.join(cells), 40)!r}"
    return next((f"column {place + 1} is empty" for place in (0, tag) if not cells[place]), None)


def _place(path: Path, tag_column: str | None, width: int) -> int:
    if tag_column is None:
        return width - 1
    if not tag_column.isdecimal() or not 2 <= int(tag_column) <= width:
        raise UsageError(f"{path} has no column {tag_column!r} for tags: give a number from 2 to {width}.")
    return int(tag_column) - 1


# CoNLL-U --------------------------------------------------------------------------------------------------


def _universal_column(name: str | None) -> int:
    name = (name or "upos").lower()
    if name not in UNIVERSAL:
        raise unknown("column of CoNLL-U", name, UNIVERSAL)
    return UNIVERSAL[name]


def _universal_sentences(path: Path, text: Lines, place: int, reading: Reading[Tagged]) -> Iterator[list[Row] | None]:
    for block in _blocks(text.lines):
        rows: list[Row] | None = []
        for line, content in block:
            if content.startswith("#"):
                continue
            cells = content.split("\t")
            fault = text.undecodable.get(line) or _universal_fault(cells, place)
            if fault:
                reading.bad.append(BadRow(str(path), line, fault))
                rows = None
            elif rows is not None and cells[0].isdecimal():  # 3-4 is a contraction, 5.1 a word that is not there
                rows.append((line, [cells[1], cells[place]]))
        if rows is None or rows:
            yield rows


def _universal_fault(cells: Sequence[str], place: int) -> str | None:
    if len(cells) != UNIVERSAL_WIDTH:
        return f"{number_of(len(cells), 'column')} separated by tabs, where CoNLL-U has {UNIVERSAL_WIDTH}"
    if not cells[0].replace("-", "").replace(".", "").isdecimal():
        return f"the number of the word is {shortened(cells[0])!r}"
    empty = cells[0].isdecimal() and not (cells[1].strip() and cells[place].strip())
    return "the word or its tag is empty" if empty else None


# Tags -----------------------------------------------------------------------------------------------------


def speaks_of_entities(tags: Collection[str]) -> bool:
    """Whether tags are of a scheme such as IOB2, and not parts of speech or the like."""
    return (all(map(is_entity_tag, tags)) or _are_bare(tags)) and any(tag != OUTSIDE for tag in tags)


def _are_bare(tags: Collection[str]) -> bool:
    """Whether entities are of one kind that has no name: O, B and I, and nothing else."""
    return OUTSIDE in tags and {*tags} <= {OUTSIDE, *PREFIXES}


def _keep_whole(
    path: Path, sentences: Iterator[list[Row] | None], reading: Reading[Tagged], *, repair_tags: bool
) -> None:
    """Keep the sentences without a bad line; if they have entities, their scheme must hold."""
    whole = [rows for rows in sentences if rows]
    counts = Counter(row[1][1] for rows in whole for row in rows)
    named = _means_entities(counts)
    if named and not _are_bare(counts):
        whole = [rows for rows in whole if not _leave_strange(path, rows, reading)]
    tags = [[row[1][1] for row in rows] for rows in whole]
    iob1 = named and looks_like_iob1(tags)
    loose = named and (repair_tags or iob1)
    reading.remarks.append(f"tags: {_kind_of_tags(path, counts, named=named, iob1=iob1 and not repair_tags)}")
    for rows, row_tags in zip(whole, tags, strict=True):
        broken = broken_tags(row_tags) if named else []
        if loose:
            row_tags = _begun(row_tags, broken)
        elif broken:
            reading.bad += [_broken(path, rows, place) for place in broken]
            continue
        reading.add(rows[0][0], Tagged(tuple(row[1][0] for row in rows), tuple(row_tags)))
    reading.bad.sort(key=lambda row: row.line)


def _means_entities(counts: Counter[str]) -> bool:
    """Whether the tags of a file are meant to be of a scheme: nearly all are, and some are not O."""
    if _are_bare(counts):
        return len(counts) > 1
    fitting = {tag: count for tag, count in counts.items() if is_entity_tag(tag)}
    return bool(fitting.keys() - {OUTSIDE}) and sum(fitting.values()) >= SCHEME_SHARE * counts.total()


def _leave_strange(path: Path, rows: Sequence[Row], reading: Reading[Tagged]) -> bool:
    """Note the words of a sentence whose tags are none of a scheme; returns whether there are any."""
    allowed = ", ".join((OUTSIDE, *(f"{prefix}-TYPE" for prefix in PREFIXES)))
    strange = [(line, tag) for line, (_, tag) in rows if not is_entity_tag(tag)]
    reading.bad += [BadRow(str(path), line, f"{tag!r} is no tag of this scheme: {allowed}") for line, tag in strange]
    return bool(strange)


def _kind_of_tags(path: Path, counts: Counter[str], *, named: bool, iob1: bool) -> str:
    """For what the tags of a file are taken."""
    if iob1:
        return f"{path.name} is in IOB1, where B- stands only between two neighbours"
    if named:
        if _are_bare(counts):
            return f"{path.name} names entities, without a type: {some(sorted(counts))}"
        types = sorted({split_tag(tag)[1] for tag in counts if is_entity_tag(tag) and tag != OUTSIDE})
        return f"{path.name} names entities: {some(types)}"
    if counts.keys() == {OUTSIDE}:
        return f"{path.name} names no entities: all words are O"
    kind = f"{path.name} has tags of words, such as parts of speech, and none of entities: {some(sorted(counts))}"
    fitting = sum(count for tag, count in counts.items() if is_entity_tag(tag))
    return f"{kind} (O, B-TYPE and the like are {fitting:,} of {counts.total():,})" if fitting else kind


def _begun(tags: Sequence[str], places: Sequence[int]) -> list[str]:
    """The tags with B- where an entity goes on that did not begin."""
    return [_beginning(tag) if place in places else tag for place, tag in enumerate(tags)]


def _beginning(tag: str) -> str:
    return "B" + tag[1:]


def _broken(path: Path, rows: Sequence[Row], place: int) -> BadRow:
    tag = rows[place][1][1]
    before = rows[place - 1][1][1] if place else "the beginning"
    return BadRow(
        str(path),
        rows[place][0],
        f"{tag} after {before}: an entity goes on that did not begin (--repair-tags makes it {_beginning(tag)})",
    )
