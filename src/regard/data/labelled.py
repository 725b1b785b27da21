"""Labelled texts and labelled pairs of texts: .tsv, .csv, .jsonl, or tab-separated text of any name, plain or .gz.

Columns are found by their usual names, or without a header by their content: texts are long and differ, labels are
short and repeat. Users may give names or numbers of columns instead.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from regard.data.files import FileLines, ReadResult, kind_of, shortened
from regard.data.rows import json_text_fault, text_fault
from regard.data.tables import Choices, Column, Columns, Places, flags_hint, read_table
from regard.utils.errors import DataError, UsageError, number_of

MAX_CHARACTERS = 10_000_000  # of a text: more than any document, less than a file without line ends
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
MAX_LABEL = 100  # characters; anything longer is a text in the wrong column

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Labelled:
    """A text with its label; for multi-label classification, with any number of labels."""

    text: str
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """Two texts with a label, or with a number such as their similarity."""

    first: str
    second: str
    label: str | float


def read_labelled(
    path: Path | str,
    *,
    text_column: str | None = None,
    label_column: str | None = None,
    label_separator: str | None = None,
    skip_bad_rows: bool = False,
    max_characters: int = MAX_CHARACTERS,
) -> ReadResult[Labelled]:
    """Read texts with their labels. With `label_separator` a cell holds several labels, or none where it is empty.

    Columns are given by name or number, or found by their usual names. Bad rows raise a DataError that lists them; with
    `skip_bad_rows` they are left out and returned in `.bad`. A file without the needed columns always raises.
    """
    if label_separator == "":
        raise UsageError("the label separator is empty. Give a character, such as ','.", argument="label_separator")
    path = Path(path)
    columns = (
        Column("text", TEXTS, text_column, "--text-column"),
        Column("label", (*LABELS, *NUMBERS), label_column, "--label-column", is_text=False),
    )

    def example(cells: Sequence[Any]) -> Labelled | str:
        text, label = cells
        labels = _labels(label, label_separator)
        fault = text_fault("text", text, max_characters) or (labels if isinstance(labels, str) else None)
        return fault or Labelled(text.strip(), tuple(labels))

    result: ReadResult[Labelled] = _read(path, [columns], example)
    return result.finish(path, "labelled texts", skip_bad_rows=skip_bad_rows)


def read_labelled_pairs(
    path: Path | str,
    *,
    first_column: str | None = None,
    second_column: str | None = None,
    label_column: str | None = None,
    regression: bool = False,
    skip_bad_rows: bool = False,
    max_characters: int = MAX_CHARACTERS,
) -> ReadResult[LabelledPair]:
    """Read pairs of texts with a label or, for `regression`, with a number. Bad rows raise as in `read_labelled`."""
    path = Path(path)
    # SICK has a label and a number for each pair.
    names = (*NUMBERS, *LABELS, DUPLICATE) if regression else (*LABELS, DUPLICATE, *NUMBERS)
    choices = [
        (
            Column("first text", (first,), first_column, "--first-column"),
            Column("second text", (second,), second_column, "--second-column"),
            Column("label", names, label_column, "--label-column", is_text=False),
        )
        for first, second in PAIRS
    ]

    def example(cells: Sequence[Any]) -> LabelledPair | str:
        first, second, label = cells
        labels = _labels(label, None)
        fault = text_fault("first text", first, max_characters) or text_fault("second text", second, max_characters)
        fault = fault or (labels if isinstance(labels, str) else _count_fault(labels))
        if fault:
            return fault
        if not regression:
            return LabelledPair(first.strip(), second.strip(), labels[0])
        number = _number(labels[0])
        if number is None:
            point = "; write decimals with a point" if re.fullmatch(r"-?\d+,\d+", labels[0]) else ""
            return f"{shortened(labels[0])!r} is not a number{point}"
        return LabelledPair(first.strip(), second.strip(), number)

    result: ReadResult[LabelledPair] = _read(path, choices, example)
    result.finish(path, "labelled pairs", skip_bad_rows=skip_bad_rows)
    numbers = [] if regression else [_number(str(pair.label)) for pair in result.examples]
    decimal = next((number for number in numbers if number is not None and number % 1), None)
    if decimal is not None and None not in numbers:
        raise DataError(
            f"{path}: the labels are numbers with decimals, such as {decimal}. Add --regression, or choose another "
            "column with --label-column.",
            path=path,
            argument="regression",
            value=False,
            hint="--regression",
        )
    return result


def _read(path: Path, choices: Choices, example: Callable[[Sequence[Any]], T | str]) -> ReadResult[T]:
    def guess(rows: Sequence[list[str]], width: int, numbered: Places) -> Places:
        places = numbered or _guess_columns(path, rows, width, choices[0])
        _refuse_unknown_header(path, rows, places[-1] or 0, choices[0])
        return places

    result: ReadResult[T] = ReadResult()
    table = read_table(path, FileLines.read(path, result.checksums), choices, guess=guess)
    result.remarks += table.notes
    result.collect(path, table.rows, example)
    return result


# --- Labels -------------------------------------------------------------------------------------------------


def _labels(value: object, label_separator: str | None) -> Sequence[str] | str:
    """The labels in a cell or a JSON value, or why there are none."""
    values = value if isinstance(value, list) else [value]
    if isinstance(value, str) and label_separator is not None:
        values = [part for part in value.split(label_separator) if part.strip()]
    labels = []
    for item in values:
        if not isinstance(item, (bool, int, float, str)):
            return f"the label is {kind_of(item)}, not a text or a number"
        label = str(item).lower() if isinstance(item, bool) else str(item).strip()
        if not label:
            return "the label is empty"
        if fault := json_text_fault("label", label):
            return fault
        if len(label) > MAX_LABEL:
            return f"the label has {len(label):,} characters ({shortened(label, 30)!r}); are the columns mixed up?"
        labels.append(label)
    return list(dict.fromkeys(labels))


def _count_fault(labels: Sequence[str]) -> str | None:
    """Why labels are not exactly one; None if they are."""
    return None if len(labels) == 1 else f"{len(labels) or 'no'} labels where one is expected"


def _number(label: str) -> float | None:
    try:
        number = float(label)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


# --- Columns without a header ---------------------------------------------------------------------------------


def _guess_columns(path: Path, rows: Sequence[list[str]], width: int, columns: Columns) -> Places:
    """Texts are the longest columns. Of the others, the label is one without empty cells, with the fewest values."""
    cells = [[row[place].strip() if place < len(row) else "" for row in rows] for place in range(width)]
    length = [sum(map(len, column)) for column in cells]
    texts = sorted(sorted(range(width), key=lambda place: -length[place])[: len(columns) - 1])
    others = [place for place in range(width) if place not in texts]
    others = [place for place in others if all(cells[place])] or others
    label = min(others, key=lambda place: (len(set(cells[place])) < 2, len(set(cells[place])), place))
    if len(set(cells[label])) > max(2, len(rows) // 2) and len(rows) > 10 and _number(cells[label][1]) is None:
        raise DataError(
            f"{path} has no known header and no column with repeated labels.{flags_hint(columns)}", path=path
        )
    return (*texts, label)


def _refuse_unknown_header(path: Path, rows: Sequence[list[str]], place: int, columns: Columns) -> None:
    """A first row whose label never repeats, while all others do, is a header with unknown names."""
    labels = Counter(row[place].strip() for row in rows if len(row) > place)
    first = rows[0][place].strip() if len(rows[0]) > place else ""
    others = [count for label, count in labels.items() if label != first]
    if len(rows) >= 5 and labels[first] == 1 and others and min(others) > 1 and _number(first) is None:
        names = [name.strip() for name in rows[0]]
        raise DataError(
            f"{path}: the first line looks like a header: {', '.join(map(shortened, names[:20]))}.{flags_hint(columns)}"
            " If it is an example, add a header above it.",
            path=path,
            line=1,
            value=names,
        )


# --- Labels of several files --------------------------------------------------------------------------------


def require_two_labels(labels: Sequence[str], path: Path | str, count: int) -> None:
    """A classifier needs at least two classes."""
    if len(labels) < 2:
        only = f"the label {labels[0]!r}" if labels else "no label"
        raise DataError(
            f"{path}: {number_of(count, 'example')} with {only}; training needs two labels or more. Give another file, "
            "or another column with --label-column.",
            path=path,
            value=list(labels),
        )


def refuse_unseen(
    result: ReadResult[T],
    path: Path | str,
    known: Sequence[str],
    labels_of: Callable[[T], Sequence[str]],
    *,
    single: bool = False,
    skip_bad_rows: bool = False,
) -> ReadResult[T]:
    """`result`, where examples with labels that are not `known` are bad rows; with `single` also those without label or
    with several."""
    listed = ", ".join(map(shortened, known[:10])) + (" …" if len(known) > 10 else "")
    faults = {}
    for index, example in enumerate(result.examples):
        labels = labels_of(example)
        unseen = next((label for label in labels if label not in known), None)
        if unseen is not None:
            faults[index] = f"label {shortened(unseen)!r} was not in training ({listed})"
        elif single and (fault := _count_fault(labels)):
            faults[index] = fault
    return result.without(faults, path).finish(path, "usable examples", skip_bad_rows=skip_bad_rows)
