"""How commands speak: answers on stdout, as text or as JSON; everything else on stderr."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from regard.errors import UsageError


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
