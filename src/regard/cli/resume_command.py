"""The command that resumes a run: the user's own command line, ready to be pasted."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

BUDGET = ("--steps", "--minutes")


def resume_command(arguments: Sequence[str], *, steps: int | None = None) -> str:
    """`regard <arguments>` with --resume instead of --force, and with another budget if `steps` is given."""
    kept: list[str] = []
    words = iter(arguments)
    for word in words:
        flag, given, _ = word.partition("=")
        if flag in ("--force", "--resume"):
            continue
        if steps is not None and flag in BUDGET:
            if not given:
                next(words, None)
            continue
        kept.append(word)
    budget = [] if steps is None else ["--steps", str(steps)]
    return shlex.join([*_program(), *kept, *budget, "--resume"])


def _program() -> list[str]:
    """How this program was called: by its name if the shell finds it, else by its path."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py" and called.parent.name == "regard":
        return [sys.executable, "-m", "regard"]
    found = shutil.which("regard")
    if called.name == "regard" and (found is None or Path(found).resolve() != called.resolve()):
        return [str(called)]
    return ["regard"]
