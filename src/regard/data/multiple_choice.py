"""Read multiple-choice examples, a context with several endings, from tables such as SWAG's.

In SWAG, `sent1` is the context, `sent2` (optional) begins every ending, `ending0`, `ending1` … are the endings, and
`label` is the index of the correct ending, counted from 0. The context may also be called context or premise, and the
endings choice1, choice2 …. In JSON lines the endings may be a list.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.files import FileLines, ReadResult, shortened, type_name
from regard.data.tables import (
    CONTEXTS,
    ENDINGS,
    OPENINGS,
    Column,
    json_text_fault,
    normalized,
    read_table,
    show_header,
    split_tabs,
    table_suffix,
    text_fault,
)
from regard.utils.errors import DataError, number_of

ENDING = re.compile(r"(?:ending|choice)_?(\d{1,3})")
LABEL = "label"


@dataclass(frozen=True, slots=True)
class MultipleChoiceExample:
    """A context, its possible endings, and the index of the correct ending (None if unknown)."""

    context: str
    endings: tuple[str, ...]
    label: int | None = None


def read_endings(
    path: Path | str, *, data: bytes | None = None, labelled: bool = True, skip_bad_rows: bool = False
) -> ReadResult[MultipleChoiceExample]:
    """Read contexts and their endings from a file, or from `data` if it is given.

    Without `labelled`, labels are ignored, and a line of plain text may have a context and its endings, separated by
    tabs. Bad rows raise an error, or with `skip_bad_rows` are returned in `.bad`. A missing column always raises an
    error.
    """
    path = Path(path)
    result: ReadResult[MultipleChoiceExample] = ReadResult()
    is_table = labelled or bool(table_suffix(path))
    if not is_table:
        text = FileLines.read(path, result.checksums, data)
        first = next((line for line in text.lines if line.strip()), "")
        is_table = _context_and_endings(normalized(first.split("\t"))) is not None
    if is_table:
        result = _read_table(path, data, labelled=labelled)
    else:
        result.collect(path, text.rows(split_tabs), lambda cells: _example(cells[0], "", cells[1:]))
    return result.finish(path, "choices", skip_bad_rows=skip_bad_rows, can_skip=labelled)


def _read_table(path: Path, data: bytes | None, *, labelled: bool) -> ReadResult[MultipleChoiceExample]:
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
        index = _label(label, len(endings)) if labelled else None
        return _example(context, opening or "", endings, index)

    result = read_table(path, lambda names: [_columns(path, names, labelled=labelled)], convert, data=data)
    if labelled and num_columns > 1 and "0" not in labels and str(num_columns) in labels:
        message = f"{path}: the labels seem to count from 1 to {num_columns}. Subtract 1 from each label."
        raise DataError(message, path=path, argument=LABEL, value=num_columns)
    return result


def _context_and_endings(names: Sequence[str]) -> tuple[str, list[str]] | None:
    """Return the column of the context and the columns of the endings, or of their list; None if one is missing."""
    context = next((name for name in CONTEXTS if name in names), None)
    endings = sorted(filter(ENDING.fullmatch, dict.fromkeys(names)), key=_number)
    if len(endings) < 2:
        endings = [name for name in ENDINGS if name in names][:1]
    return None if context is None or not endings else (context, endings)


def _columns(path: Path, names: Sequence[str], *, labelled: bool) -> list[Column]:
    """Return the columns for context, opening, label and endings in a table with these column names."""
    columns = _context_and_endings(names)
    if columns is None:
        needed = "columns for a context (sent1, context …) and its endings (ending0, ending1 …)"
        raise DataError(f"{path} needs {needed}. Its columns: {show_header(names)}.", path=path, value=list(names))
    context, endings = columns
    numbers = [_number(name) for name in endings] if len(endings) > 1 else [0]
    if numbers != [*range(numbers[0], numbers[0] + len(numbers))] or numbers[0] > 1:
        message = f"{path}: endings must be numbered from 0 or 1 without gaps, got {', '.join(endings)}."
        raise DataError(message, path=path, value=endings)
    return [
        Column("context", (context,)),
        # HellaSwag's ctx is ctx_a followed by ctx_b.
        Column("opening", OPENINGS if context in ("sent1", "ctx_a") else (), required=False),
        Column(LABEL, (LABEL,) if labelled else (), required=labelled, is_text=False),
        *(Column(name, (name,), is_text=len(endings) > 1) for name in endings),
    ]


def _number(name: str) -> int:
    match = ENDING.fullmatch(name)
    return int(match[1]) if match else 0


def _example(
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


def _label(label: object, num_endings: int) -> int | str:
    """Return the index of the correct ending, or the reason why the label is invalid."""
    if isinstance(label, bool) or not isinstance(label, (int, float, str)):
        return f"the label must be the index of an ending, got {type_name(label)}"
    written = str(label).strip()
    if not written:
        return "the label is empty"
    indices = {str(index): index for index in range(num_endings)}
    fault = f"the label must be the index of an ending (0 to {num_endings - 1}), got {shortened(written)!r}"
    return indices.get(written.removesuffix(".0"), fault)
