"""Print results to stdout, as text or JSON, and everything else to stderr."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from regard.data.table_output import cell_text, table_line
from regard.utils.atomic_files import write_file
from regard.utils.errors import UsageError


def print_line(text: str) -> None:
    sys.stdout.write(text + "\n")


def print_json(value: Any) -> None:
    print_line(json.dumps(value, ensure_ascii=False))


def print_result(value: Any, lines: Iterable[str], *, as_json: bool) -> None:
    """Print `value` as JSON, or `lines` as text."""
    if as_json:
        print_json(value)
    else:
        print_line("\n".join(lines))


def check_free(path: Path, *, force: bool) -> None:
    """Raise if a file exists and --force is not given."""
    if path.exists() and not force:
        message = f"--out {path} exists. Choose another file, or replace it with --force."
        raise UsageError(message, argument="out", value=str(path))


def check_drawing(path: Path, *, force: bool, data: bool = False) -> None:
    """Raise if a file exists, or if a view cannot be saved with this suffix; `data` also allows data formats."""
    from regard.views.view import DATA_FORMATS, check_format

    check_free(path, force=force)
    check_format(path, also=DATA_FORMATS if data else ())


def write_results(
    results: Sequence[Any],
    out: Path | None,
    *,
    as_json: bool,
    encode: Callable[[Sequence[Any], str], str | bytes],
) -> None:
    """Print results, or write them to a file in the format of its suffix; `encode` handles the task's own formats.

    A result has a `str` and `record()`, its fields as JSON values. In a table, a result is one row, from `row()` or its
    record. A result with `rows()` has several rows, each with the number of its input.
    """
    if out is None:
        sys.stdout.write(_jsonl(results) if as_json else _lines(results))
        return
    encoders: dict[str, Callable[[Sequence[Any]], str | bytes]] = {
        ".txt": _lines,
        ".jsonl": _jsonl,
        ".csv": partial(_table, suffix=".csv"),
        ".tsv": partial(_table, suffix=".tsv"),
    }
    content = encoders[out.suffix](results) if out.suffix in encoders else encode(results, out.suffix)
    write_file(out, content, parents=True)
    print_line(str(out))


def _lines(results: Sequence[Any]) -> str:
    return "".join(f"{result}\n" for result in results)


def _jsonl(results: Sequence[Any]) -> str:
    return "".join(json.dumps(result.record(), ensure_ascii=False) + "\n" for result in results)


def _table(results: Sequence[Any], suffix: str) -> str:
    rows: list[dict[str, Any]] = []
    is_numbered = any(hasattr(result, "rows") for result in results)
    for number, result in enumerate(results, start=1):
        index = {"input": number} if is_numbered else {}
        if hasattr(result, "rows"):
            rows += [{**index, **row} for row in result.rows()]
        else:
            rows.append({**index, **(result.row() if hasattr(result, "row") else flat(result.record()))})
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = ([cell_text(row.get(name)) for name in names] for row in rows)
    return "".join(table_line(cells, suffix) for cells in (names, *lines))


def flat(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record as a table row: a mapping becomes one column per key, a list becomes JSON."""
    row: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, dict):
            row |= {f"{name}.{key}": item for key, item in value.items()}
        else:
            row[name] = json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value
    return row


@contextlib.contextmanager
def progress_bar(title: str) -> Iterator[Callable[[float], None] | None]:
    """Yield a function that shows the completed fraction on stderr; None if stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(title, total=1.0)

    def update(fraction: float) -> None:
        bar.start()  # does nothing the second time
        bar.update(task, completed=fraction)

    try:
        yield update
    finally:
        bar.stop()
