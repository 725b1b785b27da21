"""Readers and helpers that several tasks share, for example files, labelled texts, plain text and built-in datasets.

Does not import torch.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from regard.checkpoint.card import CardData
from regard.data.batches import hold_out
from regard.data.corpus import Corpus
from regard.data.files import ReadResult
from regard.data.labelled import refuse_unseen, require_two_labels
from regard.data.synthetic.stories import stories
from regard.metrics.labels import label_names
from regard.models.heads import HeadConfig
from regard.tasks.base import Reader, Splits
from regard.tokenizers.tokenizer import Tokenizer
from regard.tokenizers.training import train_tokenizer
from regard.utils.errors import UsageError, number_of, shorten_list

E = TypeVar("E")

FEW_EXAMPLES = 30  # validation examples; with fewer, one mistake changes the scores a lot
STORIES = "built-in stories"
MAX_VALIDATION_TOKENS = 300_000  # for plain text; scoring more takes long and adds little precision
NUMBER = "number"  # name of the single regression output

Text = str | tuple[str, str]
Gold = tuple[str, ...] | float  # labels, or a regression target


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

    def usable(self, found: ReadResult[E], path: Path, train: Sequence[E]) -> ReadResult[E]:
        """Return the examples that fit the training examples, with all others as bad rows."""
        return found

    def data_notes(self, examples: Sequence[E]) -> list[str]:
        """Return notes for the user about the training examples."""
        return []

    def hold_out(self, examples: Sequence[E]) -> tuple[list[E], list[E]]:
        """Split `examples` into training and validation examples."""
        return self.split(examples, [()] * len(examples))

    def split(
        self, examples: Sequence[E], labels: Sequence[Iterable[str]], kinds: Sequence[object] | None = None
    ) -> tuple[list[E], list[E]]:
        """Split into training and validation; training keeps every label, and `kinds` stratifies the split."""
        keys = [self.key(example) for example in examples]
        parts = hold_out(keys, labels, fraction=self.config.val_fraction, kinds=kinds)
        train, held_out = ([examples[index] for index in part] for part in parts)
        return train, held_out

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
        keys = ([self.key(example) for example in side] for side in (found.examples, other.examples))
        notes += [*other.notes(), *overlap_note(*keys)]
        return Splits(found.examples, other.examples, sources + data_sources(other, "validation"), tuple(notes), head)

    def held_out_note(self, examples: Sequence[E]) -> str:
        return held_out_note(len(examples), self.noun)

    def read_test(self, data: Sequence[Path], predictor: Any) -> ReadResult[E]:
        return self.read_file(single_file(data, "test"))


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
    """Return the only file in a list, and refuse a list with any other number of files."""
    if len(paths) != 1:
        problem = f"This task takes exactly one {role} file, got {len(paths)}."
        raise UsageError(problem, argument="data", value=len(paths))
    return paths[0]


def data_sources(found: ReadResult[Any], role: str, num_rows: int | None = None) -> tuple[CardData, ...]:
    """Return the files of a result for the model card."""
    count = len(found.examples) if num_rows is None else num_rows
    files = found.checksums.items()
    return tuple(CardData(name=Path(path).name, role=role, num_rows=count, sha256=sha) for path, sha in files)


def overlap_note(train: Sequence[Hashable], validation: Sequence[Hashable]) -> list[str]:
    """Return a note with the number of validation texts that are also training texts, if there are any."""
    known = set(train)
    count = sum(text in known for text in validation)
    return [f"validation: {count:,} of {len(validation):,} texts are also in the training file"] if count else []


def held_out_note(count: int, noun: str, detail: str = "") -> str:
    """Return a note with the number of held-out examples, and a warning if there are few."""
    few = "; scores on so few examples vary a lot: add data or --validation" if count < FEW_EXAMPLES else ""
    return f"validation: {number_of(count, noun)}{detail} held out from the training file (no --validation given){few}"


@dataclass(frozen=True, slots=True)
class LabelledExample:
    """A text or a text pair with its labels or its regression target."""

    text: Text
    gold: Gold

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels; empty for regression."""
        return self.gold if isinstance(self.gold, tuple) else ()


class LabelledReader(SingleFileReader[LabelledExample]):
    """Reads labelled tables; subclasses implement how one file becomes examples."""

    def key(self, example: LabelledExample) -> Text:
        return example.text

    def usable(
        self, found: ReadResult[LabelledExample], path: Path, train: Sequence[LabelledExample]
    ) -> ReadResult[LabelledExample]:
        head = self.head_for(train)
        if head.problem_type != "regression":
            require_two_labels(head.labels, path, len(train))
        return self._with_labels(found, path, head)

    def _with_labels(
        self, found: ReadResult[LabelledExample], path: Path, head: HeadConfig
    ) -> ReadResult[LabelledExample]:
        if head.problem_type == "regression":
            return found
        single = head.problem_type == "single_label_classification"
        skip = self.config.skip_bad_rows
        return refuse_unseen(found, path, head.labels, lambda e: e.labels, single=single, skip_bad_rows=skip)

    def read_test(self, data: Sequence[Path], predictor: Any) -> ReadResult[LabelledExample]:
        return self.read_known(single_file(data, "test"), predictor.head)

    def read_known(self, path: Path, head: HeadConfig) -> ReadResult[LabelledExample]:
        """Return the examples in a file and check that `head` knows their labels."""
        return self._with_labels(self.read_file(path), path, head)

    def data_notes(self, examples: Sequence[LabelledExample]) -> list[str]:
        """Return a note with the count of each label, most common first."""
        counts = Counter(label for example in examples for label in example.labels).most_common()
        return [f"labels: {shorten_list([f'{label} {count:,}' for label, count in counts])}"] if counts else []

    def hold_out(self, examples: Sequence[LabelledExample]) -> tuple[list[LabelledExample], list[LabelledExample]]:
        """Split into training and validation examples, stratified by label."""
        is_regression = self.head_for(examples).problem_type == "regression"
        kinds = None if is_regression else [example.gold for example in examples]
        return self.split(examples, [example.labels for example in examples], kinds)

    def head_for(self, examples: Sequence[LabelledExample]) -> HeadConfig:
        if all(isinstance(example.gold, float) for example in examples):
            return HeadConfig(kind="sequence_classification", labels=(NUMBER,), problem_type="regression")
        several = bool(getattr(self.config, "label_separator", None)) or any(len(e.labels) != 1 for e in examples)
        return HeadConfig(
            kind="sequence_classification",
            labels=label_names(label for example in examples for label in example.labels),
            problem_type="multi_label_classification" if several else "single_label_classification",
        )


@dataclass(frozen=True)
class CorpusSplits(Splits[str]):
    """Plain training text, as files or as the documents in `train`, and optional validation files.

    The text is tokenized later, when the tokenizer is known.
    """

    corpus: Corpus | None = None
    validation_corpus: Corpus | None = None

    def sources_of(self, *num_tokens: int) -> tuple[CardData, ...]:
        """Return the training and validation text for the model card, with their token counts."""
        name = STORIES if self.corpus is None else str(self.corpus)
        names = name, f"{name}, the end" if self.validation_corpus is None else str(self.validation_corpus)
        parts = zip(names, ("training", "validation"), num_tokens, strict=True)
        return tuple(CardData(name=name, role=role, num_rows=count) for name, role, count in parts)


class CorpusReader(Reader[Any]):
    """Reads plain text from files and folders."""

    def read(self, data: Sequence[Path], validation: Sequence[Path] | None) -> CorpusSplits:
        corpora = [Corpus.find(paths) if paths else None for paths in (data, validation)]
        notes = tuple(note for corpus in corpora if corpus is not None for note in corpus.notes())
        return CorpusSplits((), (), notes=notes, corpus=corpora[0], validation_corpus=corpora[1])

    def builtin(self) -> CorpusSplits:
        return CorpusSplits(stories(), (), notes=(f"data: {STORIES} (no file was given)",))


def new_tokenizer(texts: Iterable[str], *, vocab_size: int, **options: Any) -> Tokenizer:
    """Train a tokenizer on texts; errors name the flag --vocab-size."""
    try:
        return train_tokenizer(texts, vocab_size=vocab_size, **options)
    except UsageError as error:
        raise UsageError(f"--vocab-size {vocab_size}: {error}", argument="vocab_size", value=vocab_size) from None
