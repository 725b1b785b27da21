"""How commands speak: answers on stdout, as text or as JSON; everything else on stderr."""

from __future__ import annotations

import json
import sys
from typing import Any


def answer(text: str) -> None:
    sys.stdout.write(text + "\n")


def answer_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")


def note(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
