"""Read texts with labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.data.files import ReadResult
from regard.data.labelled import read_labelled
from regard.data.synthetic.labelled import opinions
from regard.models.heads import HeadConfig
from regard.tasks.base import LabelledExample
from regard.tasks.readers import LabelledReader
from regard.utils.errors import DataError

SEPARATORS = (",", ";", "|", "/", " ")  # separators of labels, most common first


class ClassifyReader(LabelledReader):
    """Reads texts with one label each or, if a label separator is set, with any number of labels."""

    dataset = "built-in opinions"
    file_options = ("text_column", "label_column", "label_separator", "skip_bad_rows")

    def read_file(self, path: Path) -> ReadResult[LabelledExample]:
        options = {name: getattr(self.config, name) for name in self.file_options}
        return read_labelled(path, **options).map(lambda example: LabelledExample(example.text, example.labels))

    def synthetic(self, split: str) -> list[LabelledExample]:
        return [LabelledExample(example.text, example.labels) for example in opinions(split)]

    def read_test(self, data: Sequence[Path], predictor: Any) -> ReadResult[LabelledExample]:
        several = predictor.head.problem_type == "multi_label_classification"
        if several and self.config.label_separator is None and len(data) == 1:
            separator = self._separator(data[0], predictor.head)
            return ClassifyReader(self.config.replace(label_separator=separator)).read_test(data, predictor)
        return super().read_test(data, predictor)

    def _separator(self, path: Path, head: HeadConfig) -> str:
        """Return the separator with which the most rows of a file have known labels."""

        def unknown_rows(separator: str) -> float:
            config = self.config.replace(label_separator=separator, skip_bad_rows=True)
            try:
                found = ClassifyReader(config).read_file(path)
            except DataError:  # no row is usable with this separator
                return math.inf
            return len(found.bad) + sum(not set(example.labels) <= set(head.labels) for example in found.examples)

        return min(SEPARATORS, key=unknown_rows)
