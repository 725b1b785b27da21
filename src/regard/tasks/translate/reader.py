"""Read pairs of sentences."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.checkpoint.card import CardData
from regard.data.files import ReadResult
from regard.data.inputs import read_text_column
from regard.data.pairs import SOURCE_TARGET, Pair, read_pairs
from regard.data.synthetic.translation import sentences
from regard.data.tables import table_suffix
from regard.tasks.base import Reader, Splits
from regard.tasks.readers import builtin_splits, data_sources, split_by
from regard.utils.errors import DataError, number_of


class TranslateReader(Reader[Pair]):
    """Reads pairs from one table or two line-aligned files; `reverse` swaps source and target."""

    def builtin(self) -> Splits[Pair]:
        self.refuse_without_files(("columns", "skip_bad_rows"))
        found = builtin_splits(
            "built-in sentence pairs", lambda split: [Pair(s.source, s.target) for s in sentences(split)]
        )
        return self._splits(found.train, found.validation, found.sources, [*found.notes])

    def read(self, data: Sequence[Path], validation: Sequence[Path] | None) -> Splits[Pair]:
        found = self._read(data)
        notes = found.notes()
        if validation:
            other = self._read(validation)
            train, held_out = found.examples, other.examples
            notes += other.notes()
        else:
            if len({pair.source for pair in found.examples}) < 2:
                count = len(found.examples)
                pairs = "one pair" if count == 1 else f"{count:,} pairs with the same source"
                names = " and ".join(map(str, data))
                message = f"{names} has {pairs}. Give pairs with different sources, better thousands."
                raise DataError(message, path=data[0])
            train, held_out = split_by(lambda pair: pair.source, found.examples)
            held = number_of(len(held_out), "pair")
            notes.append(f"validation: {held} held out from the training file (no --validation given)")
        sources = data_sources(found, "training", len(train))
        if validation:
            sources += data_sources(other, "validation")
        # Shuffle, because files are often sorted and only the first validation pairs are scored.
        return self._splits(train, random.Random(0).sample(held_out, len(held_out)), sources, notes)

    def read_test(self, data: Sequence[Path], predictor: Any) -> ReadResult[Pair]:
        found = self._read(data)
        found.examples[:] = self._directed(found.examples)
        return found

    def read_inputs(self, path: Path, data: bytes | None = None) -> Sequence[str]:
        if data is not None or not table_suffix(path):
            return super().read_inputs(path, data)
        side, columns = int(self.config.reverse), self.config.columns
        names = tuple(header[side] for header in SOURCE_TARGET)
        return read_text_column(path, columns[side] if columns else None, names=names, flag="--columns")

    def _read(self, paths: Sequence[Path]) -> ReadResult[Pair]:
        return read_pairs(paths, columns=self.config.columns, skip_bad_rows=self.config.skip_bad_rows)

    def _splits(
        self, train: Sequence[Pair], validation: Sequence[Pair], sources: tuple[CardData, ...], notes: list[str]
    ) -> Splits[Pair]:
        if self.config.reverse:
            notes.append("direction: second language → first")
        return Splits(self._directed(train), self._directed(validation), sources, tuple(notes))

    def _directed(self, pairs: Sequence[Pair]) -> list[Pair]:
        return [pair.reversed() for pair in pairs] if self.config.reverse else list(pairs)
