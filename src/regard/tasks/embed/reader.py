"""Read texts to embed, and pairs of texts with similarities to evaluate on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.data.files import ReadResult
from regard.data.synthetic.labelled import similarities
from regard.tasks.base import LabelledExample, Reader
from regard.tasks.pair.reader import PairReader, labelled_example
from regard.tasks.readers import single_file
from regard.utils.errors import DataError


class EmbedReader(PairReader):
    """Reads pairs with similarities; a built-in similarity is 5 × the fraction of meaning that two texts share."""

    dataset = "built-in similarities"

    def read_test(self, data: Sequence[Path], predictor: Any) -> ReadResult[LabelledExample]:
        path = single_file(data, "test")
        found = self.read_file(path, regression=True)
        if len({example.gold for example in found.examples}) < 2:
            raise DataError(
                f"{path}: all {len(found.examples):,} pairs have the same number, so a correlation is undefined. Give "
                "pairs with different numbers.",
                path=str(path),
            )
        return found

    def synthetic(self, split: str) -> list[LabelledExample]:
        return [labelled_example(pair) for pair in similarities(split)]

    def read_inputs(self, path: Path, data: bytes | None = None) -> Sequence[Any]:
        return Reader.read_inputs(self, path, data)
