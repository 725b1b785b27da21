"""Read texts with a tag for each word."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.data.files import ReadResult
from regard.data.synthetic.labelled import named_entities
from regard.data.tagged import Tagged, is_conll, read_tagged
from regard.models.heads import HeadConfig
from regard.tasks.readers import SingleFileReader


class TagReader(SingleFileReader[Tagged]):
    """Reads sentences with a tag for each word."""

    dataset = "built-in named entities"
    noun = "sentence"
    file_options = ("tag_column", "repair_tags", "skip_bad_rows")

    def read_file(self, path: Path) -> ReadResult[Tagged]:
        return read_tagged(path, **{name: getattr(self.config, name) for name in self.file_options})

    def synthetic(self, split: str) -> list[Tagged]:
        return named_entities(split)

    def head_for(self, examples: Sequence[Tagged]) -> HeadConfig:
        labels = sorted({tag for sentence in examples for tag in sentence.tags})
        return HeadConfig(kind="token_classification", labels=tuple(labels))

    def key(self, example: Tagged) -> tuple[str, ...]:
        return example.words

    def labels_of(self, example: Tagged) -> tuple[str, ...]:
        return example.tags

    def read_inputs(self, path: Path, data: bytes | None = None) -> Sequence[Any]:
        """Return texts; for a CoNLL file, the words of each sentence."""
        if data is None and is_conll(path):
            found = TagReader(self.config.replace(repair_tags=True)).read_file(path)
            return [list(sentence.words) for sentence in found.examples]
        return super().read_inputs(path, data)
