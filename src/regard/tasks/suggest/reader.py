"""Read texts to complete."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard.tasks.base import Reader
from regard.tasks.generate.reader import GenerateReader


class SuggestReader(GenerateReader):
    """Reads text like the reader of `generate`, but each line of an input file is one input."""

    def read_inputs(self, path: Path, data: bytes | None = None) -> Sequence[str]:
        return Reader.read_inputs(self, path, data)
