"""`metrics.jsonl`: one line a logged step, none twice, whatever was killed in between."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from regard.utils.atomic_files import storage_errors, write_file

NAME = "metrics.jsonl"
CHECKPOINTS_STAY = "The checkpoints of this run are intact: go on with --resume."


class MetricsLog:
    """Appends lines; on resume, what came after the checkpoint is forgotten first."""

    def __init__(self, run: Path, *, last_step: int) -> None:
        run.mkdir(parents=True, exist_ok=True)
        self.path = run / NAME
        kept = [row for row in read_metrics(run) if row["step"] <= last_step]
        write_file(self.path, "".join(json.dumps(row) + "\n" for row in kept))
        # Without a buffer nothing is left to be written, and to fail again, when the file is closed.
        self._file = self.path.open("ab", buffering=0)

    def write(self, row: dict[str, Any]) -> None:
        line = (json.dumps(row) + "\n").encode("utf-8")
        with storage_errors(self.path, len(line), CHECKPOINTS_STAY):
            self._file.write(line)

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
