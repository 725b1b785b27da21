"""`metrics.jsonl`: one line a logged step, none twice, whatever was killed in between."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

NAME = "metrics.jsonl"


class MetricsLog:
    """Appends lines; on resume, what came after the checkpoint is forgotten first."""

    def __init__(self, run: Path, *, last_step: int) -> None:
        self.path = run / NAME
        kept = [row for row in read_metrics(run) if row["step"] <= last_step]
        text = "".join(json.dumps(row) + "\n" for row in kept)
        temporary = self.path.with_suffix(".jsonl.tmp")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(self.path)
        self._file = self.path.open("a", encoding="utf-8")

    def write(self, row: dict[str, Any]) -> None:
        self._file.write(json.dumps(row) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def read_metrics(run: Path) -> list[dict[str, Any]]:
    """All whole lines; a line torn by a kill is not one."""
    path = run / NAME
    if not path.exists():
        return []
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and isinstance(row.get("step"), int):
            rows.append(row)
    return rows
