"""Sentences with a word and the sense in which it is meant: .tsv, .csv, .jsonl, or tab-separated text of any name.

The columns are word, sense and sentence: in this order, or as a header names them. To compare meanings it takes two
senses of a word, and two sentences of each; what falls short of that is named with its line. Nothing here knows tokens.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.data.files import BadRow, Lines, Reading, refuse_bad_rows, refuse_emptiness, shortened
from regard.data.tables import (
    comma_rows,
    json_rows,
    json_text_fault,
    missing_key,
    tab_rows,
    table_suffix,
    too_long,
    too_short,
    width_of,
)
from regard.data.world.senses import SENSES, SenseSentence, sense_sentences
from regard.errors import DataError, number_of

ROLES = ("word", "sense", "sentence")
NAMES = (("word", "target", "lemma"), ("sense", "meaning", "label"), ("sentence", "text", "context"))
Row = tuple[int, Sequence[Any]]  # the line it begins on, and word, sense and sentence


def world_senses() -> list[SenseSentence]:
    """The built-in world's sentences with bank, spring and run, those that are kept for tests."""
    return [sentence for word in SENSES for sentence in sense_sentences(word, "test")]


def read_senses(path: Path | str, *, skip_bad_rows: bool = False) -> Reading[SenseSentence]:
    """Read sentences with the senses of their words.

    By default bad rows raise a DataError that lists them; with `skip_bad_rows` they are left out and returned in
    `.bad`. A word is found as it is written, capitals aside; where it stands twice, the first counts.
    """
    path = Path(path)
    reading: Reading[SenseSentence] = Reading()
    for row in _rows(path, Lines.read(path, reading.checksums)):
        found = row if isinstance(row, BadRow) else _example(path, row)
        if isinstance(found, BadRow):
            reading.bad.append(found)
        else:
            reading.add(row[0], found)  # type: ignore[index]
    total = len(reading.examples) + len(reading.bad)
    for fault in (_said_before, _alone, _of_one_sense):  # each looks at what the one before has left
        _leave_out(reading, fault(reading))
    reading.bad.sort(key=lambda row: row.line)
    if not skip_bad_rows:
        refuse_bad_rows(reading.bad, total)
    refuse_emptiness(
        reading, str(path), what="sentence of a word with two senses", plural="sentences of words with two senses"
    )
    twice = sum(len(list(_places(one.word, one.text))) > 1 for one in reading.examples)
    if twice:
        reading.remarks.append(f"{number_of(twice, 'sentence')} with their word more than once: the first counts")
    return reading


def find_word(word: str, sentence: str) -> int | None:
    """Where a word begins in a sentence, capitals aside; None if it is not there as a word of its own."""
    return next(_places(word, sentence), None)


def _places(word: str, sentence: str) -> Iterator[int]:
    pattern = rf"(?<!\w){re.escape(word)}(?!\w)"
    return (found.start() for found in re.finditer(pattern, sentence, re.IGNORECASE))


def _example(path: Path, row: Row) -> SenseSentence | BadRow:
    line, cells = row
    for role, cell in zip(ROLES, cells, strict=True):
        if fault := json_text_fault(role, cell):
            return BadRow(str(path), line, fault)
        if not cell.strip():
            return BadRow(str(path), line, f"the {role} is empty")
    word, sense, sentence = (cell.strip() for cell in cells)
    start = find_word(word, sentence)
    if start is None:
        reason = f"the word {shortened(word)!r} is not in the sentence {shortened(sentence)!r}; write it as it is there"
        return BadRow(str(path), line, reason)
    return SenseSentence(sentence, word.lower(), start, sense)


# What falls short of a comparison ---------------------------------------------------------------------------

Faults = dict[int, str]  # the number of an example → what is wrong with it


def _said_before(reading: Reading[SenseSentence]) -> Faults:
    """A sentence that stands there twice would be its own nearest neighbour."""
    first: dict[tuple[str, str], int] = {}
    faults: Faults = {}
    for number, one in enumerate(reading.examples):
        before = first.setdefault((one.word, one.text), reading.lines[number])
        if before != reading.lines[number]:
            faults[number] = f"the same sentence with {one.word!r} as in line {before}"
    return faults


def _alone(reading: Reading[SenseSentence]) -> Faults:
    counts = Counter((one.word, one.sense) for one in reading.examples)
    return {
        number: f"the only sentence in which {one.word!r} means {one.sense!r}: there is no other that it could be near"
        for number, one in enumerate(reading.examples)
        if counts[one.word, one.sense] == 1
    }


def _of_one_sense(reading: Reading[SenseSentence]) -> Faults:
    senses: dict[str, set[str]] = {}
    for one in reading.examples:
        senses.setdefault(one.word, set()).add(one.sense)
    return {
        number: f"{one.word!r} has one sense that can be compared, {one.sense!r}: there is nothing to tell apart"
        for number, one in enumerate(reading.examples)
        if len(senses[one.word]) == 1
    }


def _leave_out(reading: Reading[SenseSentence], faults: Faults) -> None:
    [file] = reading.checksums
    reading.bad += [BadRow(file, reading.lines[number], reason) for number, reason in faults.items()]
    kept = [number for number in range(len(reading.examples)) if number not in faults]
    reading.examples[:] = [reading.examples[number] for number in kept]
    reading.lines[:] = [reading.lines[number] for number in kept]


# Rows and columns -------------------------------------------------------------------------------------------


def _rows(path: Path, text: Lines) -> Iterator[Row | BadRow]:
    """Word, sense and sentence of each row."""
    suffix = table_suffix(path) or ".tsv"
    if suffix == ".jsonl":
        yield from _record_rows(path, text)
        return
    rows = list(comma_rows(path, text) if suffix == ".csv" else tab_rows(path, text))
    first = next((row[1] for row in rows if not isinstance(row, BadRow) and width_of(row[1])), [])
    names = [cell.strip().lower() for cell in first]
    has_header = sum(name in usual for usual in NAMES for name in names) >= 2
    places = _places_of(path, first) if has_header else (0, 1, 2)
    if not has_header and 0 < width_of(first) < len(ROLES):
        raise DataError(
            f"{path} has {width_of(first)} column{'' if width_of(first) == 1 else 's'} ({shortened(first[0])!r}); "
            f"three are needed, {', '.join(ROLES)}, separated by {'commas' if suffix == '.csv' else 'tabs'}."
        )
    width = width_of(first) if has_header else len(ROLES)
    for row in rows:
        if isinstance(row, BadRow):
            yield row
        elif has_header and row[1] is first:
            continue
        elif not width_of(row[1]) or len(row[1]) <= max(places):
            yield too_short(path, row[0], row[1], max(places) + 1)
        elif width_of(row[1]) > width:
            yield too_long(path, row[0], width_of(row[1]), width, header=has_header, suffix=suffix)
        else:
            yield row[0], [row[1][place] for place in places]


def _record_rows(path: Path, text: Lines) -> Iterator[Row | BadRow]:
    keys: list[str] | None = None
    for row in json_rows(path, text):
        if isinstance(row, BadRow):
            yield row
            continue
        line, record = row
        if keys is None:
            names = list(record)
            keys = [names[place] for place in _places_of(path, names)]
        absent = next((key for key in keys if key not in record), None)
        if absent is not None:
            yield BadRow(str(path), line, missing_key(absent, record))
        else:
            yield line, [record[key] for key in keys]


def _places_of(path: Path, header: Sequence[str]) -> tuple[int, ...]:
    names = [name.strip().lower() for name in header]
    places = []
    for role, usual in zip(ROLES, NAMES, strict=True):
        found = [place for place, name in enumerate(names) if name in usual]
        if len(found) > 1:
            listed = ", ".join(repr(header[place].strip()) for place in found)
            raise DataError(f"{path}: {len(found)} columns could be the {role}: {listed}. Leave one of them.")
        if not found:
            listed = ", ".join(shortened(name.strip()) for name in header[:20])
            raise DataError(
                f"{path}: no column {role!r}; its columns are: {listed}. A header names {', '.join(ROLES)}."
            )
        places += found
    return tuple(places)
