"""Texts, one per line."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.checkpoint.card import CardData
from regard.data.files import BadRow, FileLines, ReadResult
from regard.tasks.base import Reader, Splits


class ReverseReader(Reader[str]):
    """Lines of text files, or random words."""

    def read(self, data: Sequence[Path], validation: Sequence[Path] | None) -> Splits[str]:
        train = self._read(data)
        held_out = self._read(validation) if validation else None
        texts = train.examples
        if held_out is None:
            texts, checks = texts[: -len(texts) // 10 or -1], texts[-len(texts) // 10 or -1 :]
        else:
            checks = held_out.examples
        sources = tuple(
            CardData(name=Path(path).name, role="training", num_rows=len(texts), sha256=checksum)
            for path, checksum in train.checksums.items()
        )
        return Splits(texts, checks, sources, tuple(train.notes()))

    def builtin(self) -> Splits[str]:
        rng = random.Random(0)
        words = ["".join(rng.choices("abcdefgh", k=rng.randint(2, 8))) for _ in range(440)]
        sources = (CardData(name="random words", role="training", num_rows=400),)
        return Splits(words[:400], words[400:], sources, ("data: random words",))

    def read_test(self, data: Sequence[Path], predictor: Any) -> ReadResult[str]:
        return self._read(data)

    def _read(self, paths: Sequence[Path]) -> ReadResult[str]:
        found: ReadResult[str] = ReadResult()
        for path in paths:
            for number, line in enumerate(FileLines.read(path, found.checksums).lines, start=1):
                if line.strip():
                    found.add(number, line.strip())
                else:
                    found.bad.append(BadRow(str(path), number, "empty line"))
        return found.finish(paths[0], "texts", skip_bad_rows=self.config.skip_bad_rows)
