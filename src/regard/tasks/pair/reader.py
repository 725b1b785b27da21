"""Read pairs of texts with labels or numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.data.files import ReadResult
from regard.data.inputs import read_text_pairs
from regard.data.labelled import LabelledPair, read_labelled_pairs
from regard.data.synthetic.labelled import inferences
from regard.models.heads import HeadConfig
from regard.tasks.base import LabelledExample
from regard.tasks.readers import LabelledReader


class PairReader(LabelledReader):
    """Reads pairs with one label each or, for regression, with a number each."""

    dataset = "built-in inferences"
    columns = ("first_column", "second_column", "label_column")
    file_options = (*columns, "regression", "skip_bad_rows")

    def read_file(self, path: Path, *, regression: bool | None = None) -> ReadResult[LabelledExample]:
        options = {name: getattr(self.config, name) for name in (*self.columns, "skip_bad_rows")}
        chosen = getattr(self.config, "regression", False) if regression is None else regression
        return read_labelled_pairs(path, regression=chosen, **options).map(labelled_example)

    def read_known(self, path: Path, head: HeadConfig) -> ReadResult[LabelledExample]:
        if head.problem_type == "regression":
            return self.read_file(path, regression=True)
        return super().read_known(path, head)

    def synthetic(self, split: str) -> list[LabelledExample]:
        return [labelled_example(pair) for pair in inferences(split)]

    def read_inputs(self, path: Path, data: bytes | None = None) -> Sequence[Any]:
        config = self.config
        return read_text_pairs(path, data, first_column=config.first_column, second_column=config.second_column)


def labelled_example(pair: LabelledPair) -> LabelledExample:
    gold = (pair.label,) if isinstance(pair.label, str) else pair.label
    return LabelledExample((pair.first, pair.second), gold)
