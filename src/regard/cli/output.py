"""How commands speak: answers on stdout, as text or as JSON; everything else on stderr."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.tasks.translate import Translation


def answer(text: str) -> None:
    sys.stdout.write(text + "\n")


def answer_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")


def check_free(path: Path, *, force: bool) -> None:
    """A file that is there already is replaced with --force only."""
    if path.exists() and not force:
        raise UsageError(f"{path} exists already: choose another --out, or replace it with --force.")


def note(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


@contextlib.contextmanager
def progress_bar(what: str) -> Iterator[Callable[[float], None] | None]:
    """A bar on stderr where a person watches, to be told the share that is done; elsewhere nothing."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=1.0)
        yield lambda share: bar.update(task, completed=share)


def note_if_cut_off(source: str, translation: Translation) -> None:
    """Say that a translation reached the longest length before its end."""
    if not translation.ended:
        shown = repr(source if len(source) <= 60 else f"{source[:57]}…")
        advice = "give one sentence a line; a model that repeats itself needs more training"
        note(f"cut off after {len(translation.ids)} pieces: {shown} ({advice})")
