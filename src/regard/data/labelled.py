"""Read labelled texts and labelled pairs of texts from tables.

Columns are found by their usual names, or in a table without a header by their content: texts are long and distinct,
labels are short and repeat. Users may instead give the names or numbers of the columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from regard.data.files import ReadResult, shortened, type_name
from regard.data.tables import (
    LABELS,
    NUMBERS,
    TEXTS,
    Column,
    as_number,
    json_text_fault,
    pair_columns,
    read_table,
    text_fault,
)
from regard.utils.errors import DataError, UsageError, number_of

MAX_LABEL = 100  # maximum number of characters; anything longer is probably a text in the wrong column

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Labelled:
    """A text with its label, or for multi-label classification with any number of labels."""

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
) -> ReadResult[Labelled]:
    """Read texts with their labels. With `label_separator`, a cell may hold several labels.

    Columns are given by name or number, or found by their usual names. Bad rows raise an error, or with `skip_bad_rows`
    are returned in `.bad`. A missing column always raises an error.
    """
    if label_separator == "":
        raise UsageError("the label separator must not be empty; give one such as ','.", argument="label_separator")
    path = Path(path)
    columns = (
        Column("text", TEXTS, text_column, "--text-column"),
        Column("label", (*LABELS, *NUMBERS), label_column, "--label-column", is_text=False),
    )

    def example(cells: Sequence[Any]) -> Labelled | str:
        text, label = cells
        labels = _labels(label, label_separator)
        fault = text_fault("text", text) or (labels if isinstance(labels, str) else None)
        return fault or Labelled(text.strip(), tuple(labels))

    result = read_table(path, [columns], example, guess=True)
    return result.finish(path, "labelled texts", skip_bad_rows=skip_bad_rows)


def read_labelled_pairs(
    path: Path | str,
    *,
    first_column: str | None = None,
    second_column: str | None = None,
    label_column: str | None = None,
    regression: bool = False,
    skip_bad_rows: bool = False,
) -> ReadResult[LabelledPair]:
    """Read pairs of texts with a label, or a number for `regression`. Bad rows are handled as in `read_labelled`."""
    path = Path(path)
    # SICK has a label and a number for each pair; Quora's question pairs have is_duplicate.
    labels = (*LABELS, "is_duplicate")
    names = (*NUMBERS, *labels) if regression else (*labels, *NUMBERS)
    label = Column("label", names, label_column, "--label-column", is_text=False)
    choices = [(*columns, label) for columns in pair_columns(first_column, second_column)]

    def example(cells: Sequence[Any]) -> LabelledPair | str:
        first, second, label = cells
        labels = _labels(label, None)
        fault = text_fault("first text", first) or text_fault("second text", second)
        fault = fault or (labels if isinstance(labels, str) else _count_fault(labels))
        if fault:
            return fault
        gold = as_number(labels[0]) if regression else labels[0]
        if gold is None:
            point = "; use a decimal point" if re.fullmatch(r"-?\d+,\d+", labels[0]) else ""
            return f"{shortened(labels[0])!r} is not a number{point}"
        return LabelledPair(first.strip(), second.strip(), gold)

    result = read_table(path, choices, example, guess=True)
    result.finish(path, "labelled pairs", skip_bad_rows=skip_bad_rows)
    numbers = [] if regression else [as_number(str(pair.label)) for pair in result.examples]
    decimal = next((number for number in numbers if number is not None and number % 1), None)
    if decimal is not None and None not in numbers:
        advice = "Add --regression, or choose another column with --label-column."
        message = f"{path}: the labels are numbers with decimals, such as {decimal}. {advice}"
        raise DataError(message, path=path, argument="regression", value=False, hint="--regression")
    return result


# --- Labels -------------------------------------------------------------------------------------------------


def _labels(value: object, label_separator: str | None) -> list[str] | str:
    """Return the labels in a cell or a JSON value, or the reason why they are invalid."""
    values = value if isinstance(value, list) else [value]
    if isinstance(value, str) and label_separator is not None:
        values = [part for part in value.split(label_separator) if part.strip()]
    labels = []
    for item in values:
        if not isinstance(item, (bool, int, float, str)):
            return f"the label must be a text or a number, got {type_name(item)}"
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
    return None if len(labels) == 1 else f"expected one label, got {len(labels) or 'none'}"


def require_two_labels(labels: Sequence[str], path: Path | str, count: int) -> None:
    """Raise an error if there are fewer than two labels, since a classifier needs at least two."""
    if len(labels) < 2:
        found = f"{f'only {labels[0]!r}' if labels else 'none'} in {number_of(count, 'example')}"
        advice = "Give another file, or choose another column with --label-column."
        message = f"{path}: training needs at least two labels, got {found}. {advice}"
        raise DataError(message, path=path, value=list(labels))


def refuse_unseen(
    result: ReadResult[T],
    path: Path | str,
    known: Sequence[str],
    labels_of: Callable[[T], Sequence[str]],
    *,
    single: bool = False,
    skip_bad_rows: bool = False,
) -> ReadResult[T]:
    """Make examples bad rows if they have labels that are not `known` or, with `single`, not exactly one label."""
    names = ", ".join(map(shortened, known[:10])) + (" …" if len(known) > 10 else "")
    faults = {}
    for index, labels in enumerate(map(labels_of, result.examples)):
        unseen = next((label for label in labels if label not in known), None)
        if unseen is not None:
            faults[index] = f"the label {shortened(unseen)!r} is not one of the training labels ({names})"
        elif single and (fault := _count_fault(labels)):
            faults[index] = fault
    return result.without(faults, path).finish(path, "usable examples", skip_bad_rows=skip_bad_rows)
