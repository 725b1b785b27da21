"""Contexts and endings from tables such as SWAG's, or from the built-in dataset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.data.files import ReadResult
from regard.data.multiple_choice import MultipleChoiceExample, read_endings
from regard.data.splits import hold_out
from regard.data.synthetic.choices import choices
from regard.tasks.base import Reader, Splits
from regard.tasks.encoder.labels import builtin_splits, data_sources, held_out_note, overlap_note, single_file
from regard.utils.errors import number_of


class ChooseReader(Reader[MultipleChoiceExample]):
    """Contexts with endings; for training, all with the same number of endings."""

    def read(self, data: Sequence[Path], validation: Sequence[Path] | None) -> Splits[MultipleChoiceExample]:
        path = single_file(data, "training")
        found = self.read_file(path)
        num_endings = Counter(len(example.endings) for example in found.examples).most_common(1)[0][0]
        found = self._with_endings(found, path, num_endings)
        notes, sources = [f"data: {num_endings} endings per row", *found.notes()], data_sources(found, "training")
        if validation:
            path = single_file(validation, "validation")
            other = self._with_endings(self.read_file(path), path, num_endings)
            notes += [*other.notes(), *overlap_note(_texts(found.examples), _texts(other.examples))]
            sources += data_sources(other, "validation")
            return Splits(found.examples, other.examples, sources, tuple(notes))
        contexts = [example.context for example in found.examples]
        parts = hold_out(contexts, [()] * len(contexts), fraction=self.config.val_fraction)
        train, held_out = ([found.examples[index] for index in part] for part in parts)
        return Splits(train, held_out, sources, (*notes, held_out_note(len(held_out), "example")))

    def builtin(self) -> Splits[MultipleChoiceExample]:
        self.refuse_without_files(("skip_bad_rows",))
        return builtin_splits("built-in choices", choices)

    def read_test(self, data: Sequence[Path], predictor: Any) -> ReadResult[MultipleChoiceExample]:
        return self.read_file(single_file(data, "test"))

    def read_inputs(self, path: Path, data: bytes | None = None) -> Sequence[Any]:
        """(context, endings) of each row of a table; or of each line, separated by tabs."""
        found = read_endings(path, data=data, labelled=False, skip_bad_rows=self.config.skip_bad_rows)
        self.notes += found.notes()
        return [(example.context, example.endings) for example in found.examples]

    def read_file(self, path: Path) -> ReadResult[MultipleChoiceExample]:
        return read_endings(path, skip_bad_rows=self.config.skip_bad_rows)

    def _with_endings(
        self, found: ReadResult[MultipleChoiceExample], path: Path, num_endings: int
    ) -> ReadResult[MultipleChoiceExample]:
        """The rows of a file, each of which must have so many endings: these are learned side by side."""
        counts = enumerate(len(example.endings) for example in found.examples)
        faults = {
            index: f"{number_of(count, 'ending')} where {num_endings} are expected"
            for index, count in counts
            if count != num_endings
        }
        return found.without(faults, path).finish(path, "choices", skip_bad_rows=self.config.skip_bad_rows)


def _texts(examples: Sequence[MultipleChoiceExample]) -> list[tuple[str, ...]]:
    return [(example.context, *example.endings) for example in examples]
