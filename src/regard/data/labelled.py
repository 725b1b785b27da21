"""Read labelled texts, labelled pairs of texts, and multiple-choice examples from tables.

Columns are found by their usual names. In a table without a header they are found by their content: texts are long and
distinct, labels are short and repeated. Users may instead give the names or numbers of the columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from regard.data.files import FileLines, ReadResult, shortened, type_name
from regard.data.tables import (
    LABELS,
    NUMBERS,
    TEXTS,
    Column,
    as_number,
    json_text_fault,
    normalized,
    pair_columns,
    read_table,
    show_header,
    split_tabs,
    table_suffix,
    text_fault,
)
from regard.utils.errors import DataError, UsageError, number_of

CONTEXTS = ("sent1", "ctx_a", "context", "premise", "ctx")  # usual names, for multiple choice
OPENINGS = ("sent2", "ctx_b")  # the start of every ending
ENDINGS = ("endings", "choices")  # a JSON list of all endings
ENDING = re.compile(r"(?:ending|choice)_?(\d{1,3})")  # the name of a column with an ending
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


@dataclass(frozen=True, slots=True)
class MultipleChoiceExample:
    """A context, its possible endings, and the index of the correct ending (None if unknown)."""

    context: str
    endings: tuple[str, ...]
    label: int | None = None


def read_labelled(
    path: Path | str,
    *,
    text_column: str | None = None,
    label_column: str | None = None,
    label_separator: str | None = None,
    skip_bad_rows: bool = False,
) -> ReadResult[Labelled]:
    """Read texts with their labels. With `label_separator`, a cell may contain several labels.

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
    """Turn examples with a label that is not `known` into bad rows; with `single`, each must have one label."""
    names = ", ".join(map(shortened, known[:10])) + (" …" if len(known) > 10 else "")
    faults = {}
    for index, labels in enumerate(map(labels_of, result.examples)):
        unseen = next((label for label in labels if label not in known), None)
        if unseen is not None:
            faults[index] = f"the label {shortened(unseen)!r} is not one of the training labels ({names})"
        elif single and (fault := _count_fault(labels)):
            faults[index] = fault
    return result.without(faults, path).finish(path, "usable examples", skip_bad_rows=skip_bad_rows)


# --- Multiple choice ----------------------------------------------------------------------------------------


def read_endings(
    path: Path | str, *, data: bytes | None = None, labelled: bool = True, skip_bad_rows: bool = False
) -> ReadResult[MultipleChoiceExample]:
    """Read contexts and their endings from a file, or from `data` if it is given, with the columns of SWAG.

    `sent1` is the context, `sent2` (optional) begins every ending, `ending0`, `ending1` … are the endings, and `label`
    is the index of the correct ending, counted from 0. The context may also be called context or premise, and the
    endings choice1, choice2 …. In JSON lines the endings may be a list. Without `labelled`, labels are ignored, and a
    line of plain text may have a context and its endings, separated by tabs. Bad rows are handled as in
    `read_labelled`.
    """
    path = Path(path)
    result: ReadResult[MultipleChoiceExample] = ReadResult()
    is_table = labelled or bool(table_suffix(path))
    if not is_table:
        text = FileLines.read(path, result.checksums, data)
        first = next((line for line in text.lines if line.strip()), "")
        is_table = _context_and_endings(normalized(first.split("\t"))) is not None
    if is_table:
        result = _read_endings(path, data, labelled=labelled)
    else:
        result.collect(path, text.rows(split_tabs), lambda cells: _choice_example(cells[0], "", cells[1:]))
    return result.finish(path, "choices", skip_bad_rows=skip_bad_rows, can_skip=labelled)


def _read_endings(path: Path, data: bytes | None, *, labelled: bool) -> ReadResult[MultipleChoiceExample]:
    labels: set[str] = set()
    num_columns = 0

    def convert(cells: Sequence[Any]) -> MultipleChoiceExample | str:
        nonlocal num_columns
        context, opening, label, *endings = cells
        num_columns = len(endings)
        if num_columns == 1:
            [endings] = endings
            if not isinstance(endings, list):
                return f"the endings must be a list, got {type_name(endings)}"
            if fault := next(filter(None, (json_text_fault("ending", ending) for ending in endings)), None):
                return fault
        labels.add(str(label).strip())
        index = _choice_label(label, len(endings)) if labelled else None
        return _choice_example(context, opening or "", endings, index)

    result = read_table(path, lambda names: [_choice_columns(path, names, labelled=labelled)], convert, data=data)
    if labelled and num_columns > 1 and "0" not in labels and str(num_columns) in labels:
        message = f"{path}: the labels seem to count from 1 to {num_columns}. Subtract 1 from each label."
        raise DataError(message, path=path, argument="label", value=num_columns)
    return result


def _context_and_endings(names: Sequence[str]) -> tuple[str, list[str]] | None:
    """Return the column of the context, and the columns of the endings or of their list; None if any is missing."""
    context = next((name for name in CONTEXTS if name in names), None)
    endings = sorted(filter(ENDING.fullmatch, dict.fromkeys(names)), key=_ending_number)
    if len(endings) < 2:
        endings = [name for name in ENDINGS if name in names][:1]
    return None if context is None or not endings else (context, endings)


def _choice_columns(path: Path, names: Sequence[str], *, labelled: bool) -> list[Column]:
    """Return the columns for context, opening, label and endings in a table with these column names."""
    columns = _context_and_endings(names)
    if columns is None:
        needed = "columns for a context (sent1, context …) and its endings (ending0, ending1 …)"
        raise DataError(f"{path} needs {needed}. Its columns: {show_header(names)}.", path=path, value=list(names))
    context, endings = columns
    numbers = [_ending_number(name) for name in endings] if len(endings) > 1 else [0]
    if numbers != [*range(numbers[0], numbers[0] + len(numbers))] or numbers[0] > 1:
        message = f"{path}: endings must be numbered from 0 or 1 without gaps, got {', '.join(endings)}."
        raise DataError(message, path=path, value=endings)
    return [
        Column("context", (context,)),
        # HellaSwag's ctx is ctx_a followed by ctx_b.
        Column("opening", OPENINGS if context in ("sent1", "ctx_a") else (), required=False),
        Column("label", ("label",) if labelled else (), required=labelled, is_text=False),
        *(Column(name, (name,), is_text=len(endings) > 1) for name in endings),
    ]


def _ending_number(name: str) -> int:
    match = ENDING.fullmatch(name)
    return int(match[1]) if match else 0


def _choice_example(
    context: str, opening: str, endings: Sequence[str], label: int | str | None = None
) -> MultipleChoiceExample | str:
    """Return the example, or the reason why it is invalid; a `label` that is a str is such a reason."""
    if len(endings) < 2:
        return f"at least two endings are needed, got {number_of(len(endings), 'ending')}"
    texts = {"context": context, **{f"ending {index}": ending for index, ending in enumerate(endings)}}
    if fault := next(filter(None, (text_fault(role, text) for role, text in texts.items())), None):
        return fault
    whole = (f"{opening.strip()} {ending.strip()}".strip() for ending in endings)
    return label if isinstance(label, str) else MultipleChoiceExample(context.strip(), tuple(whole), label)


def _choice_label(label: object, num_endings: int) -> int | str:
    """Return the index of the correct ending, or the reason why the label is invalid."""
    if isinstance(label, bool) or not isinstance(label, (int, float, str)):
        return f"the label must be the index of an ending, got {type_name(label)}"
    written = str(label).strip()
    if not written:
        return "the label is empty"
    indices = {str(index): index for index in range(num_endings)}
    fault = f"the label must be the index of an ending (0 to {num_endings - 1}), got {shortened(written)!r}"
    return indices.get(written.removesuffix(".0"), fault)
