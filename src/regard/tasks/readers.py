"""Readers of examples: labelled texts, pairs, tags, choices, questions and translations, from files or built in.

Does not import torch.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from regard.checkpoint.card import CardData
from regard.data.batches import hold_out, split_validation
from regard.data.files import ReadResult
from regard.data.labelled import refuse_unseen, require_two_labels
from regard.metrics.labels import label_names
from regard.models.heads import HeadConfig
from regard.tasks.base import Gold, LabelledExample, Reader, Splits, Text
from regard.utils.errors import UsageError, number_of, shorten_list

E = TypeVar("E")

FEW_EXAMPLES = 30  # validation examples; with fewer, one mistake changes the scores a lot
NUMBER = "number"  # name of the single regression output


class SingleFileReader(Reader[E]):
    """Reads one training file and one validation file, or holds out a part of the training file."""

    dataset: ClassVar[str]  # name of the built-in examples
    noun: ClassVar[str] = "example"
    file_options: ClassVar[tuple[str, ...]] = ("skip_bad_rows",)  # reading options that need a file

    @abstractmethod
    def read_file(self, path: Path) -> ReadResult[E]:
        """Return the examples in one file."""

    @abstractmethod
    def synthetic(self, split: str) -> list[E]:
        """Return the examples of one split of the built-in dataset."""

    @abstractmethod
    def head_for(self, examples: Sequence[E]) -> HeadConfig:
        """Return the head config of a model trained on these examples."""

    @abstractmethod
    def key(self, example: E) -> Hashable:
        """Return a key; examples with the same key go to the same split."""

    def labels_of(self, example: E) -> tuple[str, ...]:
        """Return the labels of an example, if the task has labels."""
        return ()

    def usable(self, found: ReadResult[E], path: Path, train: Sequence[E]) -> ReadResult[E]:
        """Return the examples that are compatible with the training examples; all others become bad rows."""
        head = self.head_for(train)
        if head.labels and head.problem_type != "regression":
            require_two_labels(head.labels, path, len(train))
        return self._with_labels(found, path, head)

    def _with_labels(self, found: ReadResult[E], path: Path, head: HeadConfig) -> ReadResult[E]:
        """Turn examples into bad rows if their labels are not among those of `head`."""
        if not head.labels or head.problem_type == "regression":
            return found
        single = (head.kind, head.problem_type) == ("sequence_classification", "single_label_classification")
        skip = self.config.skip_bad_rows
        return refuse_unseen(found, path, head.labels, self.labels_of, single=single, skip_bad_rows=skip)

    def data_notes(self, examples: Sequence[E]) -> list[str]:
        """Return notes for the user about the training examples."""
        return []

    def kinds(self, examples: Sequence[E]) -> Sequence[object] | None:
        """Return a key per example by which the held-out examples are stratified; None for a random choice."""
        return None

    def hold_out(self, examples: Sequence[E]) -> tuple[list[E], list[E]]:
        """Split into training and validation; training keeps every label."""
        keys, labels = list(map(self.key, examples)), list(map(self.labels_of, examples))
        parts = hold_out(keys, labels, fraction=self.config.val_fraction, kinds=self.kinds(examples))
        train, held_out = ([examples[index] for index in part] for part in parts)
        return train, held_out

    def held_out_note(self, examples: Sequence[E], detail: str = "") -> str:
        """Return a note with the number of held-out examples, and a warning if there are few."""
        count = number_of(len(examples), self.noun)
        few = "; scores on so few examples vary a lot: add data or --validation" if len(examples) < FEW_EXAMPLES else ""
        return f"validation: {count}{detail} held out from the training file (no --validation given){few}"

    def builtin(self) -> Splits[E]:
        self.refuse_without_files(self.file_options)
        return builtin_splits(self.dataset, self.synthetic, self.head_for)

    def read(self, data: Sequence[Path], validation: Sequence[Path] | None) -> Splits[E]:
        path = single_file(data, "training")
        found = self.read_file(path)
        head = self.head_for(found.examples)
        found = self.usable(found, path, found.examples)
        notes = [*found.notes(), *self.data_notes(found.examples)]
        sources = data_sources(found, "training")
        if not validation:
            train, held_out = self.hold_out(found.examples)
            return Splits(train, held_out, sources, (*notes, self.held_out_note(held_out)), head)
        path = single_file(validation, "validation")
        other = self.usable(self.read_file(path), path, found.examples)
        notes += other.notes()
        known = set(map(self.key, found.examples))
        if count := sum(self.key(example) in known for example in other.examples):
            notes.append(f"validation: {count:,} of {len(other.examples):,} texts are also in the training file")
        return Splits(found.examples, other.examples, sources + data_sources(other, "validation"), tuple(notes), head)

    def read_test(self, data: Sequence[Path], predictor: Any) -> ReadResult[E]:
        return self.read_known(single_file(data, "test"), predictor.head)

    def read_known(self, path: Path, head: HeadConfig) -> ReadResult[E]:
        """Return the examples in a file and check that `head` knows their labels."""
        return self._with_labels(self.read_file(path), path, head)


def split_by(key: Callable[[E], Hashable], examples: Sequence[E], **options: Any) -> tuple[list[E], list[E]]:
    """Split into training and validation examples; examples with the same key go to the same split."""
    keys = list(dict.fromkeys(map(key, examples)))
    chosen = {keys[index] for index in split_validation(len(keys), **options)[1]}
    train = [example for example in examples if key(example) not in chosen]
    return train, [example for example in examples if key(example) in chosen]


def builtin_splits(
    dataset: str, examples_of: Callable[[str], list[E]], head_for: Callable[[list[E]], HeadConfig] | None = None
) -> Splits[E]:
    """Return both splits of the built-in dataset. `examples_of` takes the name of a split."""
    train, validation = examples_of("train"), examples_of("validation")
    sources = tuple(
        CardData(name=dataset, role=role, num_rows=len(examples))
        for role, examples in (("training", train), ("validation", validation))
    )
    head = None if head_for is None else head_for(train)
    return Splits(train, validation, sources, (f"data: {dataset} (no file was given)",), head)


def single_file(paths: Sequence[Path], role: str) -> Path:
    """Return the only file in a list; raise if the list has any other number of files."""
    if len(paths) != 1:
        problem = f"this task takes exactly one {role} file, got {len(paths)}. Merge the files, or give one."
        raise UsageError(problem, argument="validation" if role == "validation" else "data", value=len(paths))
    return paths[0]


def data_sources(found: ReadResult[Any], role: str, num_rows: int | None = None) -> tuple[CardData, ...]:
    """Return the files that were read, for the model card."""
    count = len(found.examples) if num_rows is None else num_rows
    files = found.checksums.items()
    return tuple(CardData(name=Path(path).name, role=role, num_rows=count, sha256=sha) for path, sha in files)


class LabelledReader(SingleFileReader[LabelledExample]):
    """Reads labelled tables; subclasses implement how one file becomes examples."""

    def key(self, example: LabelledExample) -> Text:
        return example.text

    def labels_of(self, example: LabelledExample) -> tuple[str, ...]:
        return example.labels

    def data_notes(self, examples: Sequence[LabelledExample]) -> list[str]:
        """Return a note with the count of each label, most common first."""
        counts = Counter(label for example in examples for label in example.labels).most_common()
        return [f"labels: {shorten_list([f'{label} {count:,}' for label, count in counts])}"] if counts else []

    def kinds(self, examples: Sequence[LabelledExample]) -> list[Gold] | None:
        is_regression = self.head_for(examples).problem_type == "regression"
        return None if is_regression else [example.gold for example in examples]

    def head_for(self, examples: Sequence[LabelledExample]) -> HeadConfig:
        if all(isinstance(example.gold, float) for example in examples):
            return HeadConfig(kind="sequence_classification", labels=(NUMBER,), problem_type="regression")
        several = bool(getattr(self.config, "label_separator", None)) or any(len(e.labels) != 1 for e in examples)
        return HeadConfig(
            kind="sequence_classification",
            labels=label_names(label for example in examples for label in example.labels),
            problem_type="multi_label_classification" if several else "single_label_classification",
        )
