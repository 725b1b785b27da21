"""Readers of examples: labelled texts, pairs, tags, choices, questions and translations, from files or built in.

Does not import torch.
"""

from __future__ import annotations

import math
import random
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from regard.checkpoint.card import CardData
from regard.data.columns import SOURCE_TARGET
from regard.data.files import ReadResult
from regard.data.labelled import LabelledPair, read_labelled, read_labelled_pairs, refuse_unseen, require_two_labels
from regard.data.multiple_choice import MultipleChoiceExample, read_endings
from regard.data.pairs import Pair, read_pairs
from regard.data.splits import hold_out, split_validation
from regard.data.squad import Question, read_qa_inputs, read_questions
from regard.data.synthetic.choices import choices
from regard.data.synthetic.inference import inferences, similarities
from regard.data.synthetic.opinions import opinions
from regard.data.synthetic.passages import questions
from regard.data.synthetic.tagging import named_entities
from regard.data.synthetic.translation import sentences
from regard.data.tables import table_suffix
from regard.data.tagged import Tagged, is_conll, read_tagged
from regard.data.texts import read_text_column, read_text_pairs
from regard.metrics.labels import label_names
from regard.models.heads import HeadConfig
from regard.tasks.base import Gold, LabelledExample, Reader, Splits, Text
from regard.utils.errors import DataError, UsageError, number_of, shorten_list

E = TypeVar("E")

FEW_EXAMPLES = 30  # validation examples; with fewer, one mistake changes the scores a lot
MAX_HELD_OUT = 400  # passages; more take time from training and hardly change the scores
NUMBER = "number"  # name of the single regression output
SEPARATORS = (",", ";", "|", "/", " ")  # between several labels, the most usual first


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
        """Return the examples that fit the training examples, with all others as bad rows."""
        head = self.head_for(train)
        if head.labels and head.problem_type != "regression":
            require_two_labels(head.labels, path, len(train))
        return self._with_labels(found, path, head)

    def _with_labels(self, found: ReadResult[E], path: Path, head: HeadConfig) -> ReadResult[E]:
        """Make examples bad rows if `head` does not know their labels."""
        if not head.labels or head.problem_type == "regression":
            return found
        single = (head.kind, head.problem_type) == ("sequence_classification", "single_label_classification")
        skip = self.config.skip_bad_rows
        return refuse_unseen(found, path, head.labels, self.labels_of, single=single, skip_bad_rows=skip)

    def data_notes(self, examples: Sequence[E]) -> list[str]:
        """Return notes for the user about the training examples."""
        return []

    def kinds(self, examples: Sequence[E]) -> Sequence[object] | None:
        """Return the kind of each example, to stratify held-out examples by; None for a random choice."""
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


class ClassifyReader(LabelledReader):
    """Texts with one label each or, with a label separator, any number of labels."""

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
        """The separator with which most rows of a file have known labels."""

        def unknown_rows(separator: str) -> float:
            config = self.config.replace(label_separator=separator, skip_bad_rows=True)
            try:
                found = ClassifyReader(config).read_file(path)
            except DataError:  # no row is usable with this separator
                return math.inf
            return len(found.bad) + sum(not set(example.labels) <= set(head.labels) for example in found.examples)

        return min(SEPARATORS, key=unknown_rows)


class PairReader(LabelledReader):
    """Pairs with one label each or, for regression, a number."""

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


class EmbedReader(PairReader):
    """Pairs with one number each; the built-in numbers are the share of meaning that two texts have in common, × 5."""

    dataset = "built-in similarities"

    def read_test(self, data: Sequence[Path], predictor: Any) -> ReadResult[LabelledExample]:
        path = single_file(data, "test")
        found = self.read_file(path, regression=True)
        if len({example.gold for example in found.examples}) < 2:
            raise DataError(
                f"{path}: all {len(found.examples):,} pairs have the same number, and a constant has no correlation.",
                path=str(path),
            )
        return found

    def synthetic(self, split: str) -> list[LabelledExample]:
        return [labelled_example(pair) for pair in similarities(split)]

    def read_inputs(self, path: Path, data: bytes | None = None) -> Sequence[Any]:
        return Reader.read_inputs(self, path, data)


class TagReader(SingleFileReader[Tagged]):
    """Sentences with a tag for each word."""

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
        """Texts; for a CoNLL file, the words of each sentence."""
        if data is None and is_conll(path):
            found = TagReader(self.config.replace(repair_tags=True)).read_file(path)
            return [list(sentence.words) for sentence in found.examples]
        return super().read_inputs(path, data)


class ChooseReader(SingleFileReader[MultipleChoiceExample]):
    """Contexts with endings; for training, all with the same number of endings."""

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
        """The examples with as many endings as most training examples: a batch holds them side by side."""
        expected = Counter(len(example.endings) for example in train).most_common(1)[0][0]
        counts = enumerate(len(example.endings) for example in found.examples)
        faults = {
            index: f"{number_of(count, 'ending')} where {expected} are expected"
            for index, count in counts
            if count != expected
        }
        return found.without(faults, path).finish(path, "choices", skip_bad_rows=self.config.skip_bad_rows)

    def data_notes(self, examples: Sequence[MultipleChoiceExample]) -> list[str]:
        return [f"data: {len(examples[0].endings)} endings per row"]

    def read_inputs(self, path: Path, data: bytes | None = None) -> Sequence[Any]:
        """(context, endings) of each row of a table, or of each line with tabs between the texts."""
        found = read_endings(path, data=data, labelled=False, skip_bad_rows=self.config.skip_bad_rows)
        self.notes += found.notes()
        return [(example.context, example.endings) for example in found.examples]


class AnswerReader(SingleFileReader[Question]):
    """Questions with passages and gold answers."""

    dataset = "built-in passages"
    noun = "question"

    def read_file(self, path: Path) -> ReadResult[Question]:
        return read_questions(path, skip_bad_rows=self.config.skip_bad_rows)

    def synthetic(self, split: str) -> list[Question]:
        return questions(split)

    def head_for(self, examples: Sequence[Question]) -> HeadConfig:
        return HeadConfig(kind="question_answering")

    def key(self, example: Question) -> str:
        return example.passage

    def hold_out(self, examples: Sequence[Question]) -> tuple[list[Question], list[Question]]:
        """Questions for training and for validation, about different passages if there is more than one."""
        fraction, several = self.config.val_fraction, len({question.passage for question in examples}) > 1
        if several:
            return split_by(self.key, examples, fraction=fraction, maximum=MAX_HELD_OUT)
        return split_by(id, examples, fraction=fraction)

    def held_out_note(self, examples: Sequence[Question], detail: str = "") -> str:
        passages = number_of(len({question.passage for question in examples}), "passage")
        return super().held_out_note(examples, f" about {passages}")

    def read_inputs(self, path: Path, data: bytes | None = None) -> Sequence[Any]:
        """(question, passage, id) of each question in SQuAD's JSON, a table or JSON lines; stdin also takes tabs."""
        found = read_qa_inputs(path, data, skip_bad_rows=self.config.skip_bad_rows)
        self.notes += found.notes()
        return [(question.question, question.passage, question.id) for question in found.examples]


class TranslateReader(Reader[Pair]):
    """Pairs of one table or of two line-aligned files; with `reverse` from the second language to the first."""

    def builtin(self) -> Splits[Pair]:
        self.refuse_without_files(("columns", "skip_bad_rows"))
        found = builtin_splits(
            "built-in sentence pairs", lambda split: [Pair(s.source, s.target) for s in sentences(split)]
        )
        return self._splits(found.train, found.validation, found.sources, [*found.notes])

    def read(self, data: Sequence[Path], validation: Sequence[Path] | None) -> Splits[Pair]:
        found = self._read(data)
        notes = found.notes()
        if validation:
            other = self._read(validation)
            train, held_out = found.examples, other.examples
            notes += other.notes()
        else:
            if len({pair.source for pair in found.examples}) < 2:
                count = len(found.examples)
                pairs = "one pair" if count == 1 else f"{count:,} pairs with the same source"
                names = " and ".join(map(str, data))
                raise DataError(f"{names} has {pairs}; training needs at least 2, better thousands.", path=data[0])
            train, held_out = split_by(lambda pair: pair.source, found.examples)
            held = number_of(len(held_out), "pair")
            notes.append(f"validation: {held} held out from the training file (no --validation given)")
        sources = data_sources(found, "training", len(train))
        if validation:
            sources += data_sources(other, "validation")
        # Files are often sorted, and only the first validation pairs are scored.
        return self._splits(train, random.Random(0).sample(held_out, len(held_out)), sources, notes)

    def read_test(self, data: Sequence[Path], predictor: Any) -> ReadResult[Pair]:
        found = self._read(data)
        found.examples[:] = self._directed(found.examples)
        return found

    def read_inputs(self, path: Path, data: bytes | None = None) -> Sequence[str]:
        if data is not None or not table_suffix(path):
            return super().read_inputs(path, data)
        side, columns = int(self.config.reverse), self.config.columns
        names = tuple(header[side] for header in SOURCE_TARGET)
        return read_text_column(path, columns[side] if columns else None, names=names, flag="--columns")

    def _read(self, paths: Sequence[Path]) -> ReadResult[Pair]:
        return read_pairs(paths, columns=self.config.columns, skip_bad_rows=self.config.skip_bad_rows)

    def _splits(
        self, train: Sequence[Pair], validation: Sequence[Pair], sources: tuple[CardData, ...], notes: list[str]
    ) -> Splits[Pair]:
        if self.config.reverse:
            notes.append("direction: second language → first")
        return Splits(self._directed(train), self._directed(validation), sources, tuple(notes))

    def _directed(self, pairs: Sequence[Pair]) -> list[Pair]:
        return [pair.reversed() for pair in pairs] if self.config.reverse else list(pairs)
