"""Tagged sentences from CoNLL files, or from the built-in dataset."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.data.files import ReadResult
from regard.data.labelled import refuse_unseen, require_two_labels
from regard.data.splits import hold_out
from regard.data.synthetic.tagging import named_entities
from regard.data.tagged import Tagged, is_conll, read_tagged
from regard.tasks.base import Reader, Splits
from regard.tasks.encoder.labels import builtin_splits, data_sources, held_out_note, overlap_note, single_file


class TagReader(Reader[Tagged]):
    """Sentences with a tag for each word."""

    def read(self, data: Sequence[Path], validation: Sequence[Path] | None) -> Splits[Tagged]:
        path = single_file(data, "training")
        found = self.read_file(path)
        labels = tag_labels(found.examples)
        require_two_labels(labels, path, len(found.examples))
        notes, sources = found.notes(), data_sources(found, "training")
        if validation:
            other = self.read_known(single_file(validation, "validation"), labels)
            notes += [*other.notes(), *overlap_note(_words(found.examples), _words(other.examples))]
            sources += data_sources(other, "validation")
            return Splits(found.examples, other.examples, sources, tuple(notes))
        tags = [sentence.tags for sentence in found.examples]
        parts = hold_out(_words(found.examples), tags, fraction=self.config.val_fraction)
        train, held_out = ([found.examples[index] for index in part] for part in parts)
        return Splits(train, held_out, sources, (*notes, held_out_note(len(held_out), "sentence")))

    def builtin(self) -> Splits[Tagged]:
        self.refuse_without_files(("tag_column", "repair_tags", "skip_bad_rows"))
        return builtin_splits("built-in named entities", named_entities)

    def read_test(self, data: Sequence[Path], predictor: Any) -> ReadResult[Tagged]:
        return self.read_known(single_file(data, "test"), predictor.head.labels)

    def read_inputs(self, path: Path, data: bytes | None = None) -> Sequence[Any]:
        """Texts, or of a CoNLL file the words of each sentence."""
        if data is None and is_conll(path):
            found = TagReader(self.config.replace(repair_tags=True)).read_file(path)
            return [list(sentence.words) for sentence in found.examples]
        return super().read_inputs(path, data)

    def read_file(self, path: Path) -> ReadResult[Tagged]:
        config = self.config
        return read_tagged(
            path, tag_column=config.tag_column, repair_tags=config.repair_tags, skip_bad_rows=config.skip_bad_rows
        )

    def read_known(self, path: Path, labels: Sequence[str]) -> ReadResult[Tagged]:
        """The sentences of a file whose tags must be among `labels`."""
        found = self.read_file(path)
        return refuse_unseen(
            found, path, labels, lambda sentence: sentence.tags, skip_bad_rows=self.config.skip_bad_rows
        )


def tag_labels(sentences: Sequence[Tagged]) -> tuple[str, ...]:
    """The tags that occur, in alphabetical order."""
    return tuple(sorted({tag for sentence in sentences for tag in sentence.tags}))


def _words(sentences: Sequence[Tagged]) -> list[tuple[str, ...]]:
    return [sentence.words for sentence in sentences]
