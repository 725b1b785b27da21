"""The errors that regard raises on purpose.

Every message names what was given, what is allowed and what to do next; the command line prints it
without a traceback. Anything else that escapes is a bug and keeps its traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


class RegardError(Exception):
    """Something failed that the user can do something about (exit code 1)."""

    exit_code = 1


class UsageError(RegardError, ValueError):
    """The request itself is wrong: an unknown name, a value out of range, a missing file (exit code 2)."""

    exit_code = 2


class DataError(RegardError):
    """A data file has rows that cannot be used."""


class MissingColumnError(UsageError, DataError):
    """A column was asked for that a table does not have: its name was given wrongly (exit code 2)."""


class FolderError(RegardError):
    """A model folder or checkpoint is torn, altered or of another kind."""


class MissingFolderError(UsageError, FolderError):
    """Where a model folder should be there is none: the path was given wrongly (exit code 2)."""


class DivergenceError(RegardError):
    """The loss became NaN, infinite or ran away; the last good weights are kept."""


def unknown(what: str, given: str, allowed: Iterable[str]) -> UsageError:
    """The error for a name that is not one of `allowed`, with the nearest one suggested."""
    names = sorted(allowed)
    near = difflib.get_close_matches(given, names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return UsageError(f"unknown {what} {given!r}.{hint} Known: {', '.join(names)}.")


def number_of(count: int, noun: str, plural: str = "") -> str:
    """A count with its noun: "1 example", "2,000 examples"."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def some(names: Sequence[str], *, shown: int = 5) -> str:
    """The first few names of a list for a message, and how many more there are."""
    rest = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {rest} more" if rest > 0 else "")
