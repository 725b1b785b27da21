"""Contexts with several endings, one of them right, as in SWAG: .tsv, .csv or .jsonl, plain or .gz.

In SWAG, `sent1` is the context, `sent2` (optional) begins every ending, `ending0`, `ending1` … are the endings, and
`label` is the index of the right one, from 0. Other names are context or premise, and choice1, choice2 …; in JSON lines
the endings may be a list.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.files import CORRECT, CORRECT_OR_SKIP, FileLines, ReadResult, kind_of, read_bytes, shortened
from regard.data.labelled import MAX_CHARACTERS
from regard.data.rows import json_text_fault, tab_rows, table_suffix, text_fault
from regard.data.tables import Column, read_table
from regard.utils.errors import DataError, number_of

CONTEXTS = ("sent1", "ctx_a", "context", "premise", "ctx")
OPENINGS = ("sent2", "ctx_b")
ENDING = re.compile(r"(?:ending|choice)_?(\d{1,3})")
ENDINGS = ("endings", "choices")  # a list in JSON
LABEL = "label"


@dataclass(frozen=True, slots=True)
class MultipleChoiceExample:
    """A context, its possible endings, and the index of the right one; None if it is unknown."""

    context: str
    endings: tuple[str, ...]
    label: int | None = None


def read_endings(
    path: Path | str,
    *,
    data: bytes | None = None,
    labelled: bool = True,
    skip_bad_rows: bool = False,
    max_characters: int = MAX_CHARACTERS,
) -> ReadResult[MultipleChoiceExample]:
    """Read contexts and their endings from a file, or from `data` that came from it.

    Unless `labelled`, labels are ignored, and plain text may have a context and its endings on each line, separated by
    tabs. Bad rows raise a DataError that lists them; with `skip_bad_rows` they are left out and returned in `.bad`. A
    table without the needed columns always raises.
    """
    path, result = Path(path), ReadResult[MultipleChoiceExample]()
    text = FileLines.of(path, read_bytes(path, result.checksums) if data is None else data)
    first = next((line for line in text.lines if line.strip()), "")
    if labelled or table_suffix(path) or _context_and_endings([name.strip().lower() for name in first.split("\t")]):
        _read_table(path, text, result, labelled=labelled, max_characters=max_characters)
    else:
        result.collect(path, tab_rows(path, text), lambda cells: _example(cells[0], "", cells[1:], max_characters))
    advice = CORRECT_OR_SKIP if labelled else CORRECT
    return result.finish(path, "choices", skip_bad_rows=skip_bad_rows, advice=advice)


def _read_table(
    path: Path, text: FileLines, result: ReadResult[MultipleChoiceExample], *, labelled: bool, max_characters: int
) -> None:
    labels: set[str] = set()
    num_columns = 0

    def example(cells: Sequence[Any]) -> MultipleChoiceExample | str:
        nonlocal num_columns
        context, opening, label, *endings = cells
        num_columns = len(endings)
        if num_columns == 1:
            [endings] = endings
            if not isinstance(endings, list):
                return f"the endings are {kind_of(endings)}, not a list"
            if fault := next(filter(None, (json_text_fault("ending", ending) for ending in endings)), None):
                return fault
        labels.add(str(label).strip())
        index = _label(label, len(endings)) if labelled else None
        found = _example(context, opening or "", endings, max_characters)
        if isinstance(found, str) or isinstance(index, str):
            return found if isinstance(found, str) else str(index)
        return dataclasses.replace(found, label=index)

    table = read_table(path, text, lambda names: [_columns(path, names, labelled=labelled)])
    result.collect(path, table.rows, example)
    if labelled and num_columns > 1 and "0" not in labels and str(num_columns) in labels:
        raise DataError(
            f"{path}: the labels seem to count from 1 to {num_columns}. Subtract 1 from each: endings count from 0.",
            path=path,
            argument=LABEL,
            value=num_columns,
        )


def _context_and_endings(names: Sequence[str]) -> tuple[str, list[str]] | None:
    """The column of the context, and the columns of the endings or the one with a list of them, if all are there."""
    context = next((name for name in CONTEXTS if name in names), None)
    endings = sorted(filter(ENDING.fullmatch, dict.fromkeys(names)), key=_number)
    if len(endings) < 2:
        endings = [name for name in ENDINGS if name in names][:1]
    return None if context is None or not endings else (context, endings)


def _columns(path: Path, names: Sequence[str], *, labelled: bool) -> list[Column]:
    """Context, opening, label and endings of a table with these column names."""
    found = _context_and_endings(names)
    shown = ", ".join(map(shortened, names[:20]))
    if found is None:
        raise DataError(
            f"{path} needs columns for a context (sent1, context …) and its endings (ending0, ending1 …). Its columns: "
            f"{shown}.",
            path=path,
            value=list(names),
        )
    context, endings = found
    numbers = [_number(name) for name in endings] if len(endings) > 1 else [0]
    if numbers != [*range(numbers[0], numbers[0] + len(numbers))] or numbers[0] > 1:
        raise DataError(
            f"{path}: the endings are not numbered without gaps from 0 or 1: {', '.join(endings)}.",
            path=path,
            value=endings,
        )
    return [
        Column("context", (context,)),
        # HellaSwag's ctx is ctx_a and ctx_b in one.
        Column("opening", OPENINGS if context in ("sent1", "ctx_a") else (), required=False),
        Column(LABEL, (LABEL,) if labelled else (), required=labelled, is_text=False),
        *(Column(name, (name,), is_text=len(endings) > 1) for name in endings),
    ]


def _number(name: str) -> int:
    match = ENDING.fullmatch(name)
    return int(match[1]) if match else 0


def _example(context: str, opening: str, endings: Sequence[str], max_characters: int) -> MultipleChoiceExample | str:
    """The example without its label, or what is wrong with it."""
    if len(endings) < 2:
        return f"{number_of(len(endings), 'ending')}; at least two are needed"
    for role, text in [("context", context), *((f"ending {index}", text) for index, text in enumerate(endings))]:
        if fault := text_fault(role, text, max_characters):
            return fault
    whole = (f"{opening.strip()} {ending.strip()}".strip() for ending in endings)
    return MultipleChoiceExample(context.strip(), tuple(whole))


def _label(label: object, num_endings: int) -> int | str:
    """The index of the right ending, or what is wrong with the label."""
    if isinstance(label, bool) or not isinstance(label, (int, float, str)):
        return f"the label is {kind_of(label)}, not the index of an ending"
    written = str(label).strip()
    if not written:
        return "the label is empty"
    indices = {str(index): index for index in range(num_endings)}
    wrong = f"the label {shortened(written)!r} is not the index of an ending (0 to {num_endings - 1})"
    return indices.get(written.removesuffix(".0"), wrong)
