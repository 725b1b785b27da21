"""Read texts with several endings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.data.files import ReadResult
from regard.data.inputs import TableInputs
from regard.data.labelled import MultipleChoiceExample, read_endings
from regard.data.synthetic.labelled import choices
from regard.models.heads import HeadConfig
from regard.tasks.readers import SingleFileReader
from regard.utils.errors import number_of


class ChooseReader(SingleFileReader[MultipleChoiceExample]):
    """Reads contexts with endings; in training, all examples have the same number of endings."""

    dataset = "built-in choices"

    def read_file(self, path: Path) -> ReadResult[MultipleChoiceExample]:
        return read_endings(path, skip_bad_rows=self.config.skip_bad_rows)

    def synthetic(self, split: str) -> list[MultipleChoiceExample]:
        return choices(split)

    def head_for(self, examples: Sequence[MultipleChoiceExample]) -> HeadConfig:
        return HeadConfig(kind="multiple_choice")

    def key(self, example: MultipleChoiceExample) -> str:
        return example.context

    def usable(
        self, found: ReadResult[MultipleChoiceExample], path: Path, train: Sequence[MultipleChoiceExample]
    ) -> ReadResult[MultipleChoiceExample]:
        """Keep the examples with the most common number of endings, because all examples must have the same number."""
        expected = Counter(len(example.endings) for example in train).most_common(1)[0][0]
        counts = enumerate(len(example.endings) for example in found.examples)
        faults = {
            index: f"{number_of(count, 'ending')} instead of {expected}" for index, count in counts if count != expected
        }
        return found.without(faults, path).finish(path, "choices", skip_bad_rows=self.config.skip_bad_rows)

    def data_notes(self, examples: Sequence[MultipleChoiceExample]) -> list[str]:
        return [f"data: {len(examples[0].endings)} endings per row"]

    def read_inputs(self, path: Path, data: bytes | None = None) -> Sequence[Any]:
        """Return (context, endings) for each row of a table, or for each line of tab-separated texts."""
        found = read_endings(path, data=data, labelled=False, skip_bad_rows=self.config.skip_bad_rows)
        self.notes += found.notes()
        inputs = ((example.context, example.endings) for example in found.examples)
        return TableInputs(inputs, found.lines, found.header)
