"""Read texts to score."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard.tasks.generate.reader import GenerateReader


class ScoreReader(GenerateReader):
    """Reads text like the reader of `generate`, but a file with several documents is one text."""

    def read_inputs(self, path: Path, data: bytes | None = None) -> Sequence[str]:
        return ["".join(super().read_inputs(path, data))]
