"""Pairs of texts with numbers, such as similarity judgements, for evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from regard.data.files import ReadResult
from regard.data.labelled import LabelledPair, read_labelled_pairs
from regard.data.synthetic.inference import similarities
from regard.tasks.base import Reader, Splits
from regard.tasks.encoder.labels import LabelledExample, builtin_splits, single_file
from regard.utils.errors import DataError, UsageError


class EmbedReader(Reader[LabelledExample]):
    """Pairs with one number each."""

    def read_test(self, data: Sequence[Path], predictor: Any) -> ReadResult[LabelledExample]:
        path, config = single_file(data, "test"), self.config
        found = read_labelled_pairs(
            path,
            first_column=config.first_column,
            second_column=config.second_column,
            label_column=config.label_column,
            regression=True,
            skip_bad_rows=config.skip_bad_rows,
        ).map(_example)
        if len({example.gold for example in found.examples}) < 2:
            raise DataError(
                f"{path}: all {len(found.examples):,} pairs have the same number, and a constant has no correlation.",
                path=str(path),
            )
        return found

    def read(self, data: Sequence[Path], validation: Sequence[Path] | None) -> NoReturn:
        raise UsageError("embed has no training of its own; it uses models of other tasks.", argument="task")

    def builtin(self) -> Splits[LabelledExample]:
        """Pairs with the share of their meaning that is the same, from 0 to 5; only for evaluation."""
        return builtin_splits("built-in similarities", lambda split: [_example(pair) for pair in similarities(split)])


def _example(pair: LabelledPair) -> LabelledExample:
    return LabelledExample((pair.first, pair.second), float(pair.label))
