"""Labelled texts and labelled pairs of texts: .tsv, .csv, .jsonl, or tab-separated text of any name, plain or .gz.

Columns are recognised by their usual names, or without a header by what stands in them: texts are long and differ,
labels are short and come again. Whoever knows better names them or gives their numbers. Nothing here knows tokens.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from regard.data.files import BadRow, Lines, Reading, kind_of, refuse_bad_rows, refuse_emptiness, shortened
from regard.data.tables import (
    Cells,
    Record,
    comma_rows,
    json_rows,
    json_text_fault,
    missing_column,
    missing_key,
    names_in,
    tab_rows,
    table_suffix,
    too_long,
    too_short,
    width_of,
)
from regard.errors import DataError, UsageError

MAX_CHARACTERS = 10_000_000  # of a text: 100,000 words are fine, a file without line ends is not
TEXTS = ("text", "sentence", "sms", "message", "review", "tweet", "comment", "content", "document", "body")
LABELS = ("label", "labels", "class", "category", "sentiment", "quality", "gold_label", "entailment_judgment", "target")
NUMBERS = ("score", "similarity", "relatedness_score", "relatedness", "rating")
PAIRS = (
    ("sentence1", "sentence2"),
    ("#1 string", "#2 string"),
    ("sentence_a", "sentence_b"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("premise", "hypothesis"),
    ("text1", "text2"),
    ("first", "second"),
)
DUPLICATE = "is_duplicate"  # the label of Quora's question pairs
LONGEST_LABEL = 100  # characters: what is longer is a text in the wrong column

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Labelled:
    """A text with its label; with several or none where texts have any number of them."""

    text: str
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """Two texts with what holds between them: a label, or a number such as how similar they are."""

    first: str
    second: str
    label: str | float


@dataclass(frozen=True, kw_only=True)
class TextColumns:
    """Where the text and its label stand, by name or by number; None: to be recognised."""

    text: str | None = None
    label: str | None = None


@dataclass(frozen=True, kw_only=True)
class PairColumns:
    """Where the two texts and their label stand, by name or by number; None: to be recognised."""

    first: str | None = None
    second: str | None = None
    label: str | None = None


def read_labelled(
    path: Path | str,
    *,
    columns: TextColumns | None = None,
    separator: str | None = None,
    skip_bad_rows: bool = False,
    max_characters: int = MAX_CHARACTERS,
) -> Reading[Labelled]:
    """Read texts with their labels. With `separator` a cell holds several labels, or none where it is empty.

    By default bad rows raise a DataError that lists them; with `skip_bad_rows` they are left out and returned in
    `.bad`. What is wrong with a file as a whole (a missing column, two of the same name) always raises.
    """
    if separator == "":
        raise UsageError("the separator of labels is empty; give the character that stands between them, such as ','.")
    path, columns = Path(path), columns or TextColumns()
    wanted = _Wanted(("text", "label"), (columns.text, columns.label), ((TEXTS, (*LABELS, *NUMBERS)),))
    reading: Reading[Labelled] = Reading()

    def example(cells: Sequence[Any]) -> Labelled | str:
        text, label = cells
        labels = _labels(label, separator)
        fault = text_fault("text", text, max_characters) or (labels if isinstance(labels, str) else None)
        return fault or Labelled(text.strip(), tuple(labels))

    _read(path, wanted, reading, example)
    return _finished(reading, path, "labelled text", skip_bad_rows=skip_bad_rows)


def read_labelled_pairs(
    path: Path | str,
    *,
    columns: PairColumns | None = None,
    numbers: bool | None = None,
    skip_bad_rows: bool = False,
    max_characters: int = MAX_CHARACTERS,
) -> Reading[LabelledPair]:
    """Read pairs of texts with a label or, where `numbers` is true, a number.

    Where that is not said, a column called score or similarity holds numbers, and so does one in which each row has a
    number and some of these are no whole ones. Bad rows are treated as `read_labelled` treats them.
    """
    path, columns = Path(path), columns or PairColumns()
    # SICK has a label and a number for each pair: who asks for numbers means the latter.
    names = (*NUMBERS, *LABELS, DUPLICATE) if numbers else (*LABELS, DUPLICATE, *NUMBERS)
    usual = tuple(((*pair,), names) for pair in PAIRS)
    wanted = _Wanted(
        ("first text", "second text", "label"),
        (columns.first, columns.second, columns.label),
        tuple((((first,), (second,), labels)) for (first, second), labels in usual),
    )
    raw: Reading[tuple[str, str, str]] = Reading()

    def example(cells: Sequence[Any]) -> tuple[str, str, str] | str:
        first, second, label = cells
        labels = _labels(label, None)
        fault = text_fault("first text", first, max_characters) or text_fault("second text", second, max_characters)
        fault = fault or (labels if isinstance(labels, str) else _not_one(labels))
        if fault:
            return fault
        return first.strip(), second.strip(), labels[0]

    name = _read(path, wanted, raw, example)
    if numbers is None:
        numbers = name in NUMBERS or _are_numbers([label for _, _, label in raw.examples])
    reading: Reading[LabelledPair] = Reading(bad=raw.bad, checksums=raw.checksums, remarks=raw.remarks)
    for line, (first, second, label) in zip(raw.lines, raw.examples, strict=True):
        number = _number(label)
        if not numbers:
            reading.add(line, LabelledPair(first, second, label))
        elif number is None:
            reading.bad.append(BadRow(str(path), line, f"{shortened(label)!r} is no number{_hint(label)}"))
        else:
            reading.add(line, LabelledPair(first, second, number))
    return _finished(reading, path, "labelled pair", skip_bad_rows=skip_bad_rows)


def _finished(reading: Reading[T], path: Path, what: str, *, skip_bad_rows: bool) -> Reading[T]:
    reading.bad.sort(key=lambda row: row.line)
    if not skip_bad_rows:
        refuse_bad_rows(reading.bad, len(reading.bad) + len(reading.examples))
    refuse_emptiness(reading, str(path), what=what)
    return reading


# What stands in a row -------------------------------------------------------------------------------------


def text_fault(what: str, text: str, max_characters: int) -> str | None:
    if not text.strip():
        return f"the {what} is empty"
    if len(text) > max_characters:
        return f"the {what} has {len(text):,} characters; the limit is {max_characters:,}"
    return f"the {what} holds a NUL byte; the file may not be text" if "\0" in text else None


def _labels(value: object, separator: str | None) -> Sequence[str] | str:
    """The labels of a cell or of a JSON value; or why there are none."""
    if isinstance(value, list):
        found = [_label(item) for item in value]
    elif isinstance(value, str) and separator is not None:
        found = [part.strip() for part in value.split(separator) if part.strip()]
    else:
        found = [_label(value)]
    for item, label in zip(value if isinstance(value, list) else [value] * len(found), found, strict=True):
        if label is None:
            return f"the label is {kind_of(item)}, not a text or a number"
        if not label:
            return "the label is empty"
        if fault := json_text_fault("label", label):
            return fault
        if len(label) > LONGEST_LABEL:
            return f"the label has {len(label):,} characters ({shortened(label, 30)!r}); are the columns mixed up?"
    return list(dict.fromkeys(label for label in found if label))


def _hint(label: str) -> str:
    return ": write its decimals with a point" if re.fullmatch(r"-?\d+,\d+", label.strip()) else ""


def _not_one(labels: Sequence[str]) -> str | None:
    """Why labels are not the one that there should be; None if they are."""
    return None if len(labels) == 1 else f"{len(labels) or 'no'} labels where one is expected"


def _label(value: object) -> str | None:
    """A label as it is written: JSON may have numbers and truth values instead of texts."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float, str)):
        return str(value).strip()
    return None


def _number(label: str) -> float | None:
    try:
        number = float(label)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _are_numbers(labels: Sequence[str]) -> bool:
    numbers = [_number(label) for label in labels]
    return bool(numbers) and None not in numbers and any(number != round(number or 0) for number in numbers)


# Columns --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Wanted:
    """The columns that are looked for: what they are, how they were asked for, and how they are usually called."""

    roles: tuple[str, ...]
    asked: tuple[str | None, ...]
    usual: tuple[tuple[tuple[str, ...], ...], ...]  # sets of names that go together, each for all roles

    @property
    def flags(self) -> str:
        return " and ".join(f"--{role.replace(' text', '')}-column" for role in self.roles)

    @property
    def by_name(self) -> bool:
        """Whether some column was asked for by name."""
        return any(name is not None and not name.isdecimal() for name in self.asked)

    @property
    def by_number(self) -> bool:
        """Whether some column was asked for by number."""
        return any(name is not None and name.isdecimal() for name in self.asked)

    def in_header(self, path: Path, header: Sequence[str]) -> tuple[int, ...] | None:
        """Where the columns stand if `header` names them all; None if it does not."""
        names = [name.strip().lower() for name in header]
        for usual in self.usual:
            places = [
                self._place(path, names, role, asked, known)
                for role, asked, known in zip(self.roles, self.asked, usual, strict=True)
            ]
            if all(place is not None for place in places):
                return tuple(place for place in places if place is not None)
        return None

    def _place(
        self, path: Path, names: Sequence[str], role: str, asked: str | None, known: Sequence[str]
    ) -> int | None:
        if asked is not None and asked.isdecimal() and asked not in names:
            return int(asked) - 1 if 1 <= int(asked) <= len(names) else None
        wanted = next((name for name in ((asked.lower(),) if asked else known) if name in names), None)
        if wanted is None:
            return None
        if names.count(wanted) > 1:
            places = [place + 1 for place, name in enumerate(names) if name == wanted]
            raise DataError(
                f"{path}: {len(places)} columns are called {wanted!r} (numbers {', '.join(map(str, places))}), and one "
                f"of them should be the {role}. Rename them, or choose by number with {self.flags}."
            )
        return names.index(wanted)

    def require_names(self, path: Path, header: Sequence[str]) -> None:
        """Columns that were asked for by name must be there."""
        names = {name.strip().lower() for name in header}
        for asked in self.asked:
            if asked is not None and not asked.isdecimal() and asked.lower() not in names:
                raise missing_column(path, asked, header)

    def require_numbers(self, path: Path, width: int, header: Sequence[str] = ()) -> None:
        """Columns that were asked for by number, which is no name in the header, must be there."""
        names = {name.strip().lower() for name in header}
        for asked in self.asked:
            if asked is not None and asked.isdecimal() and asked not in names and not 1 <= int(asked) <= width:
                raise UsageError(f"{path} has no column {asked}: its columns are 1 to {width}.")

    def missing(self, header: Sequence[str]) -> list[str]:
        """The roles of which `header` has no column, by the usual names that fit it best."""
        names = {name.strip().lower() for name in header}
        lacking = (
            [
                role
                for role, asked, known in zip(self.roles, self.asked, usual, strict=True)
                if asked is None and not names.intersection(known)
            ]
            for usual in self.usual
        )
        return min(lacking, key=len)

    def is_header(self, first: Sequence[str]) -> bool:
        """Whether a row names columns: those asked for, or usual ones in at least two places."""
        names = [cell.strip().lower() for cell in first]
        if any(asked is not None and not asked.isdecimal() and asked.lower() in names for asked in self.asked):
            return True
        usual = {name for group in self.usual for role in group for name in role}
        return sum(name in usual for name in names) >= (1 if self.by_number else 2)


def _read(path: Path, wanted: _Wanted, reading: Reading[T], example: Callable[[Sequence[Any]], T | str]) -> str:
    """Read all rows into `reading`; returns what the column of labels is called."""
    text = Lines.read(path, reading.checksums)
    if not text.lines:
        return ""
    suffix = table_suffix(path) or ".tsv"
    if suffix == ".jsonl":
        return _read_records(path, text, wanted, reading, example)
    rows = list(comma_rows(path, text) if suffix == ".csv" else tab_rows(path, text))
    layout = _Layout.find(path, rows, wanted, suffix)
    reading.remarks += layout.remarks
    for row in rows:
        if isinstance(row, BadRow):
            reading.bad.append(row)
            continue
        if row[1] is layout.header:
            continue
        cells = layout.cells(path, row)
        found = cells if isinstance(cells, BadRow) else example(cells)
        _keep(path, row[0], found, reading)
    return layout.label


def _keep(path: Path, line: int, found: T | str | BadRow, reading: Reading[T]) -> None:
    if isinstance(found, BadRow):
        reading.bad.append(found)
    elif isinstance(found, str):
        reading.bad.append(BadRow(str(path), line, found))
    else:
        reading.add(line, found)


@dataclass(frozen=True)
class _Layout:
    """Where the wanted cells stand in a table."""

    places: tuple[int, ...]
    width: int
    header: list[str] | None  # the row that names the columns, if there is one
    suffix: str
    label: str  # the name of the last of the wanted columns, where there is a header
    remarks: tuple[str, ...] = ()

    @classmethod
    def find(cls, path: Path, rows: Sequence[Cells | BadRow], wanted: _Wanted, suffix: str) -> _Layout:
        good = [cells for row in rows if not isinstance(row, BadRow) and width_of(cells := row[1])]
        if not good:
            return cls(tuple(range(len(wanted.roles))), len(wanted.roles), None, suffix, "")
        if isinstance(rows[0], BadRow) and wanted.by_name:
            raise DataError(f"{rows[0]}. This row should name the columns: correct it, or save the file as UTF-8.")
        first = good[0] if not isinstance(rows[0], BadRow) else []
        if wanted.is_header(first):
            wanted.require_names(path, first)
            wanted.require_numbers(path, len(first), first)
            places = wanted.in_header(path, first)
            if places is None:
                listed = ", ".join(shortened(name.strip()) for name in first[:20])
                raise DataError(
                    f"{path}: of its columns ({listed}) no {_listed(wanted.roles)} can be told; name them with "
                    f"{wanted.flags}."
                )
            remarks = _chosen(path, places, first, wanted)
            return cls(places, width_of(first), first, suffix, first[places[-1]].strip().lower(), remarks)
        wanted.require_names(path, first)
        width = Counter(map(width_of, good)).most_common(1)[0][0]
        if width < len(wanted.roles):
            raise _too_few_columns(path, good[0], width, wanted, suffix)
        places = _numbered(path, wanted, width) or _guessed(path, good, width, wanted)
        _refuse_strange_header(path, good, places, wanted)
        return cls(places, width, None, suffix, "", _remarks(path, places, width, wanted))

    def cells(self, path: Path, row: Cells) -> list[str] | BadRow:
        line, cells = row
        width = width_of(cells)
        if width > self.width:
            return too_long(path, line, width, self.width, header=self.header is not None, suffix=self.suffix)
        if len(cells) <= max(self.places):
            return too_short(path, line, cells, max(self.places) + 1)
        return [cells[place] for place in self.places] if width else BadRow(str(path), line, "empty line")


def _listed(roles: Sequence[str]) -> str:
    if len(roles) == 1:
        return roles[0]
    return f"{', '.join(roles[:-1])} and {roles[-1]}"


def _numbered(path: Path, wanted: _Wanted, width: int) -> tuple[int, ...] | None:
    """The places of columns that were all asked for by number."""
    wanted.require_numbers(path, width)
    numbers = [int(name) for name in wanted.asked if name is not None]
    if 0 < len(numbers) < len(wanted.roles):
        raise UsageError(f"{path} has no header: give the numbers of all of its columns with {wanted.flags}, or none.")
    return tuple(number - 1 for number in numbers) or None


def _guessed(path: Path, rows: Sequence[list[str]], width: int, wanted: _Wanted) -> tuple[int, ...]:
    """Texts are the longest columns; the label is the one of the others that is never empty and has fewest values."""
    columns = [[row[place].strip() if place < len(row) else "" for row in rows] for place in range(width)]
    length = [sum(map(len, column)) for column in columns]
    texts = sorted(sorted(range(width), key=lambda place: -length[place])[: len(wanted.roles) - 1])
    others = [place for place in range(width) if place not in texts and all(columns[place])]
    if not others:
        others = [place for place in range(width) if place not in texts]
    label = min(others, key=lambda place: (len(set(columns[place])) < 2, len(set(columns[place])), place))
    if len(set(columns[label])) > max(2, len(rows) // 2) and len(rows) > 10 and _number(columns[label][1]) is None:
        raise DataError(
            f"{path} has no header that is known, and none of its columns holds labels that come again. Say which "
            f"columns count with {wanted.flags}, by name or by number."
        )
    return (*texts, label)


def _refuse_strange_header(path: Path, rows: Sequence[list[str]], places: Sequence[int], wanted: _Wanted) -> None:
    """A first row whose label never comes again, while the others do, is a header with names of its own."""
    labels = Counter(row[places[-1]].strip() for row in rows if len(row) > places[-1])
    first = rows[0][places[-1]].strip() if len(rows[0]) > places[-1] else ""
    others = [count for label, count in labels.items() if label != first]
    if len(rows) >= 5 and labels[first] == 1 and others and min(others) > 1 and _number(first) is None:
        listed = ", ".join(shortened(name.strip()) for name in rows[0][:20])
        raise DataError(
            f"{path}: its first line looks like a header with the columns {listed}. Give the names of those that count "
            f"with {wanted.flags}; if it is an example, write a header above it."
        )


def _remarks(path: Path, places: Sequence[int], width: int, wanted: _Wanted) -> tuple[str, ...]:
    if wanted.by_number:
        return ()
    taken = ", ".join(f"{role}: {place + 1}" for role, place in zip(wanted.roles, places, strict=True))
    return (f"columns: {taken} of {width} in {path.name} (it has no header; choose others with {wanted.flags})",)


def _chosen(path: Path, places: Sequence[int], header: Sequence[str], wanted: _Wanted) -> tuple[str, ...]:
    """Which columns of a header were taken, where there are others that could have been meant."""
    if width_of(header) == len(wanted.roles) or None not in wanted.asked:
        return ()
    taken = ", ".join(
        f"{role}: {shortened(header[place].strip())}" for role, place in zip(wanted.roles, places, strict=True)
    )
    return (f"columns: {taken} in {path.name} (choose others with {wanted.flags})",)


def _too_few_columns(path: Path, first: Sequence[str], width: int, wanted: _Wanted, suffix: str) -> DataError:
    separator = "commas" if suffix == ".csv" else "tabs"
    other = next((mark for mark in (";", ",", "\t") if mark in first[0]), None)
    names = {";": "semicolons", ",": "commas", "\t": "tabs"}
    hint = f" Its cells seem to be separated by {names[other]}." if other else ""
    columns = "one column" if width == 1 else f"{width} columns"
    return DataError(
        f"{path} has {columns} ({shortened(first[0])!r}); {len(wanted.roles)} are needed, {_listed(wanted.roles)}, "
        f"separated by {separator}.{hint}"
    )


# JSON lines -----------------------------------------------------------------------------------------------


def _read_records(
    path: Path, text: Lines, wanted: _Wanted, reading: Reading[T], example: Callable[[Sequence[Any]], T | str]
) -> str:
    keys: list[str] | None = None
    for row in json_rows(path, text):
        if isinstance(row, BadRow):
            reading.bad.append(row)
            continue
        if keys is None:
            keys = _keys(path, row, wanted)
            names = list(row[1])
            reading.remarks += _chosen(path, [names.index(key) for key in keys], names, wanted)
        line, record = row
        _keep(path, line, _record_fault(record, keys) or example([record[key] for key in keys]), reading)
    return keys[-1].lower() if keys else ""


def _keys(path: Path, row: Record, wanted: _Wanted) -> list[str]:
    names = list(row[1])
    wanted.require_names(path, names)
    wanted.require_numbers(path, len(names), names)
    places = wanted.in_header(path, names)
    if places is None:
        listed = ", ".join(map(shortened, names[:20]))
        raise DataError(
            f"{path}: no {_listed(wanted.missing(names))} among its keys: {listed}. Name them with {wanted.flags}."
        )
    return [names[place] for place in places]


def _record_fault(record: dict[str, Any], keys: Sequence[str]) -> str | None:
    """What is wrong with the texts of a record; labels are judged with those of tables."""
    absent = next((key for key in keys if key not in record), None)
    if absent is not None:
        return missing_key(absent, record)
    return next((fault for key in keys[:-1] if (fault := json_text_fault(key, record[key]))), None)


# Labels of several files ----------------------------------------------------------------------------------


def require_two_labels(labels: Sequence[str], path: Path | str, count: int) -> None:
    """There is nothing to learn where all texts have one label."""
    if len(labels) < 2:
        all_have = "the only example has" if count == 1 else f"all {count:,} examples have"
        only = f"the label {labels[0]!r}" if labels else "no label"
        raise DataError(
            f"{path}: {all_have} {only}, and from one class nothing can be learned. Give a file with "
            "two classes or more, or another column with --label-column."
        )


def refuse_unseen(
    reading: Reading[T],
    path: Path | str,
    known: Sequence[str],
    labels_of: Callable[[T], Sequence[str]],
    *,
    single: bool = False,
    skip_bad_rows: bool = False,
) -> Reading[T]:
    """`reading` without the examples whose labels were not in training; by default these raise.

    With `single` the same holds for those that have no label, or several.
    """
    listed = ", ".join(map(shortened, known[:10])) + (" …" if len(known) > 10 else "")

    def fault(example: T) -> str | None:
        labels = labels_of(example)
        strange = next((label for label in labels if label not in known), None)
        if strange is not None:
            return f"label {shortened(strange)!r} was not in training ({listed})"
        return _not_one(labels) if single else None

    return without(reading, path, fault, skip_bad_rows=skip_bad_rows)


def require_one_label(
    reading: Reading[Labelled], path: Path | str, *, skip_bad_rows: bool = False
) -> Reading[Labelled]:
    """`reading` without the examples that have no label, or several; by default these raise."""
    return without(reading, path, lambda example: _not_one(example.labels), skip_bad_rows=skip_bad_rows)


def without(
    reading: Reading[T], path: Path | str, fault: Callable[[T], str | None], *, skip_bad_rows: bool
) -> Reading[T]:
    """`reading` without the examples that have a fault; unless `skip_bad_rows`, these raise."""
    kept: Reading[T] = Reading(bad=list(reading.bad), checksums=reading.checksums, remarks=list(reading.remarks))
    refused: list[BadRow] = []
    for line, example in zip(reading.lines, reading.examples, strict=True):
        if reason := fault(example):
            refused.append(BadRow(str(path), line, reason))
        else:
            kept.add(line, example)
    kept.bad += refused
    if not skip_bad_rows:
        refuse_bad_rows(refused, len(reading.examples))
    refuse_emptiness(kept, str(path), what="usable example")
    return kept


def names_pairs(path: Path | str) -> bool:
    """Whether the header of a table, or the first of its JSON lines, names two texts as those of pairs are called."""
    path = Path(path)
    names = set(names_in(path, Lines.read(path, {})))
    return any(names.issuperset(pair) for pair in PAIRS)
