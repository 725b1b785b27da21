"""Reading labelled texts or pairs for training and evaluation: labels, validation split, and notes on both.

Knows tables and labels, and no torch.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from regard.checkpoint.card import CardData
from regard.data.files import ReadResult
from regard.data.labelled import refuse_unseen, require_two_labels
from regard.data.splits import hold_out
from regard.metrics.labels import label_names
from regard.models.heads import HeadConfig
from regard.tasks.base import Reader, Splits
from regard.utils.errors import UsageError, number_of, shorten_list

E = TypeVar("E")

FEW_EXAMPLES = 30  # validation examples; with fewer one mistake more or less changes the picture
NUMBER = "number"  # the name of the single output of a regression

Text = str | tuple[str, str]
Gold = tuple[str, ...] | float  # labels, or the number of a regression


@dataclass(frozen=True, slots=True)
class LabelledExample:
    """A text or a pair with its labels, or with a number."""

    text: Text
    gold: Gold


@dataclass(frozen=True)
class LabelledSplits(Splits[LabelledExample]):
    """Examples with the head that their labels need."""

    head: HeadConfig = HeadConfig()


class LabelledReader(Reader[LabelledExample]):
    """The reading of any labelled table; a task says how one file becomes examples."""

    dataset: ClassVar[str]  # what the built-in examples are called
    file_options: ClassVar[tuple[str, ...]]  # reading options that need a file

    @abstractmethod
    def read_file(self, path: Path) -> ReadResult[LabelledExample]:
        """The examples of one file."""

    @abstractmethod
    def synthetic(self, split: str) -> list[LabelledExample]:
        """The examples of the built-in dataset."""

    def builtin(self) -> LabelledSplits:
        self.refuse_without_files(self.file_options)
        found = builtin_splits(self.dataset, self.synthetic)
        return LabelledSplits(found.train, found.validation, found.sources, found.notes, self.head_for(found.train))

    def read(self, data: Sequence[Path], validation: Sequence[Path] | None) -> LabelledSplits:
        path = single_file(data, "training")
        found = self.read_file(path)
        head = self.head_for(found.examples)
        notes = [*found.notes()]
        sources = data_sources(found, "training")
        if head.problem_type != "regression":
            require_two_labels(head.labels, path, len(found.examples))
            notes.append(count_labels(found.examples))
        if validation:
            other = self.read_known(single_file(validation, "validation"), head)
            notes += [*other.notes(), *overlap_note(_texts(found.examples), _texts(other.examples))]
            sources += data_sources(other, "validation")
            return LabelledSplits(found.examples, other.examples, sources, tuple(notes), head)
        train, held_out = split_examples(found.examples, head, fraction=self.config.val_fraction)
        notes.append(held_out_note(len(held_out), "example"))
        return LabelledSplits(train, held_out, sources, tuple(notes), head)

    def read_test(self, data: Sequence[Path], predictor: Any) -> ReadResult[LabelledExample]:
        return self.read_known(single_file(data, "test"), predictor.head)

    def read_known(self, path: Path, head: HeadConfig) -> ReadResult[LabelledExample]:
        """The examples of a file whose labels must be among those of `head`."""
        found = self.read_file(path)
        if head.problem_type == "regression":
            return found
        single = head.problem_type == "single_label_classification"
        return refuse_unseen(
            found,
            path,
            head.labels,
            lambda example: example.gold,  # type: ignore[arg-type,return-value]
            single=single,
            skip_bad_rows=self.config.skip_bad_rows,
        )

    def head_for(self, examples: Sequence[LabelledExample]) -> HeadConfig:
        """The head that these labels need."""
        gold = [example.gold for example in examples]
        if all(isinstance(value, float) for value in gold):
            return HeadConfig(kind="sequence_classification", labels=(NUMBER,), problem_type="regression")
        sets = [value for value in gold if isinstance(value, tuple)]
        several = bool(getattr(self.config, "label_separator", None)) or any(len(labels) != 1 for labels in sets)
        return HeadConfig(
            kind="sequence_classification",
            labels=label_names(label for labels in sets for label in labels),
            problem_type="multi_label_classification" if several else "single_label_classification",
        )


def split_examples(
    examples: Sequence[LabelledExample], head: HeadConfig, *, fraction: float
) -> tuple[list[LabelledExample], list[LabelledExample]]:
    """Training and validation examples; each label gives its fraction to both."""
    gold = [example.gold for example in examples]
    labels = [value if isinstance(value, tuple) else () for value in gold]
    kinds = None if head.problem_type == "regression" else gold
    parts = hold_out(_texts(examples), labels, fraction=fraction, kinds=kinds)
    train, held_out = ([examples[index] for index in part] for part in parts)
    return train, held_out


def _texts(examples: Sequence[LabelledExample]) -> list[Text]:
    return [example.text for example in examples]


def builtin_splits(dataset: str, examples_of: Callable[[str], list[E]]) -> Splits[E]:
    """Training and validation examples of the built-in dataset; `examples_of` takes the name of a split."""
    train, validation = examples_of("train"), examples_of("validation")
    sources = tuple(
        CardData(name=dataset, role=role, num_rows=len(examples))
        for role, examples in (("training", train), ("validation", validation))
    )
    return Splits(train, validation, sources, (f"data: {dataset} (no file was given)",))


def single_file(paths: Sequence[Path], role: str) -> Path:
    """The only file of a list."""
    if len(paths) != 1:
        raise UsageError(
            f"{len(paths)} {role} files were given; this task reads one.", argument="data", value=len(paths)
        )
    return paths[0]


def data_sources(found: ReadResult[Any], role: str) -> tuple[CardData, ...]:
    """The files of a reading, for the model card."""
    return tuple(
        CardData(name=Path(path).name, role=role, num_rows=len(found.examples), sha256=checksum)
        for path, checksum in found.checksums.items()
    )


def count_labels(examples: Sequence[LabelledExample]) -> str:
    """How often each label occurs, the most common first."""
    golds = [example.gold for example in examples]
    counts = Counter(label for gold in golds if isinstance(gold, tuple) for label in gold)
    return f"labels: {shorten_list([f'{label} {count:,}' for label, count in counts.most_common()])}"


def overlap_note(train: Sequence[Hashable], validation: Sequence[Hashable]) -> list[str]:
    """How many validation texts are training texts, where some are."""
    known = set(train)
    count = sum(text in known for text in validation)
    if not count:
        return []
    return [f"validation: {count:,} of {len(validation):,} texts are also in the training file"]


def held_out_note(count: int, noun: str, detail: str = "") -> str:
    """How many examples were held out, and a warning if they are few."""
    few = "; scores on so few vary a lot: give more data, or --validation" if count < FEW_EXAMPLES else ""
    return f"validation: {number_of(count, noun)}{detail} held out from the training file (no --validation given){few}"
