"""From labelled texts, or pairs of them, to a classifier: read, check the labels, hold some out, train.

Whatever can be wrong with a request is found before torch is loaded, and whatever can be wrong with data before
anything is trained.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.checkpoint.card import CardData
from regard.checkpoint.output import output_folder
from regard.config import from_dict
from regard.data.batches import hold_out
from regard.data.endings import names_endings
from regard.data.files import Reading, skipped_rows
from regard.data.labelled import (
    Labelled,
    LabelledPair,
    PairColumns,
    TextColumns,
    names_pairs,
    read_labelled,
    read_labelled_pairs,
    refuse_unseen,
    require_two_labels,
)
from regard.data.world.inference import inferences
from regard.data.world.opinions import opinions
from regard.errors import DataError, UsageError, some
from regard.metrics.labels import confusion, label_names
from regard.metrics.score import Scores
from regard.models.bert_settings import HeadConfig
from regard.tasks.settings import CLASSIFY, NUMBER, PAIR, LabelConfig
from regard.training.choosing import train_chooser
from regard.training.encoders import (
    Request,
    card_of,
    held_remark,
    length_remark,
    only_file,
    overlap_remark,
    refuse_without_file,
)
from regard.training.options import RunOptions

if TYPE_CHECKING:
    from regard.models.bert import BertForSequence
    from regard.tasks.choose import Chooser
    from regard.tasks.classify import Classifier, Gold, Text
    from regard.training.runs import Run

    Side = tuple[Text, Gold]  # an example: what is read, and what should be answered

SEPARATORS = (",", ";", "|", "/", " ")  # of several labels, the most usual first
WORLD = {CLASSIFY: "the built-in world's opinions", PAIR: "the built-in world's inferences"}


@dataclass(frozen=True, kw_only=True)
class LabelFiles:
    """Which files, and how they are read."""

    data: Path | None = None
    validation: Path | None = None
    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)  # text, or first and second; label
    separator: str | None = None  # between several labels of a text
    numbers: bool | None = None  # of pairs: numbers instead of labels; None: as the file looks
    skip_bad_rows: bool = False


def train_labels(
    task: str,
    files: LabelFiles,
    out: Path,
    *,
    size: str | None = None,
    from_: Path | str | None = None,
    lora: bool = False,
    settings: Mapping[str, Any] | None = None,
    options: RunOptions | None = None,
) -> Run[Classifier]:
    """Train a classifier of texts (`classify`) or of pairs (`pair`), on a file or on the built-in world.

    With `from_` the encoder in a folder goes on learning under a new head; without it a new BERT of `size` begins,
    with a tokenizer learned from the texts.
    """
    options = options or RunOptions()
    request = Request.check(settings or {}, out, size=size, from_=from_, lora=lora, options=options)
    found = _read(task, files, request.config)
    if request.config.class_weights != "none" and found.head.answers != "one":
        raise UsageError("--class-weights balanced is for texts with one label each.")
    budget = request.budget(len(found.texts[0]), out, resume=options.resume)
    from regard.tasks.classify import ClassifyTask, make_classifier_model
    from regard.tasks.labelling import layer_rates
    from regard.training.runs import carry_out

    with output_folder(out, resume=options.resume, force=options.force):
        words = [text if isinstance(text, str) else " ".join(text) for text in found.texts[0]]
        ready = request.model_for(found.head, make_classifier_model, words, seed=budget.config.seed)
        _begin_at_the_mean(ready.model, found)
        config = ready.config(request.config)
        doing = ClassifyTask(
            task=task,
            model=ready.model,
            tokenizer=ready.tokenizer,
            head=found.head,
            texts=found.texts,
            gold=found.gold,
            config=config,
            data=found.card,
        )
        return carry_out(
            doing,
            budget,
            out,
            options,
            described=ready.described,
            remarks=[*found.remarks, *ready.remarks, *length_remark(doing.train, config)],
            beginning=ready.beginning,
            rates=layer_rates(ready.model.bert, config.layer_decay),
        )


def train_label_files(
    task: str,
    data: Sequence[Path] | None,
    out: Path,
    *,
    validation: Sequence[Path] | None = None,
    columns: Mapping[str, str] | None = None,
    separator: str | None = None,
    numbers: bool | None = None,
    skip_bad_rows: bool = False,
    **how: Any,
) -> Run[Classifier] | Run[Chooser]:
    """`train_labels` on the files of a list, of which there is one or none; of a table of endings `train_chooser`."""
    files = LabelFiles(
        data=only_file(data, "training", "labels are read from one table"),
        validation=only_file(validation, "validation", "labels are read from one table"),
        columns=columns or {},
        separator=separator,
        numbers=numbers,
        skip_bad_rows=skip_bad_rows,
    )
    if task == PAIR and not files.columns and files.data is not None and _holds_endings(files.data):
        if numbers:
            raise UsageError(f"--numbers is for labels of pairs, and {files.data} names endings to choose from.")
        return train_chooser(files.data, out, validation=files.validation, skip_bad_rows=skip_bad_rows, **how)
    return train_labels(task, files, out, **how)


def _holds_endings(path: Path) -> bool:
    """Whether a table is one of endings; what can be read only once, such as a pipe, is none."""
    return path.is_file() and names_endings(path)


def score_file(model: Classifier, files: LabelFiles) -> tuple[Scores, list[str]]:
    """The scores of a model on a file with labels, and what there is to say about the file."""
    from regard.tasks.classify import baseline, gold_of, score_answers

    assert files.data is not None, "a file to score on"
    task = _task_of(model, files)
    numbers = model.head.answers == "number" if task == PAIR else None
    separator = files.separator
    if task == CLASSIFY and model.head.answers == "several" and separator is None:
        separator = _separator(files, files.data, model.head)
    reading = read_examples(task, dataclasses.replace(files, numbers=numbers, separator=separator), files.data)
    reading = known_only(reading, files.data, model.head, skip_bad_rows=files.skip_bad_rows)
    texts, gold = zip(*_sides(reading.examples), strict=True)
    found = model(list(texts))
    answers = [gold_of(one) for one in found]
    scores = score_answers(answers, gold, model.head) + baseline(model.commonest, texts, gold, model.head)
    taken = None
    if model.head.answers == "one":
        taken = confusion([one.label for one in found], [labels[0] for labels in gold])
    return Scores(scores, taken), [*reading.remarks, *skipped_rows(reading.bad)]


def _task_of(model: Classifier, files: LabelFiles) -> str:
    """What a model is for; where it does not say whether texts or pairs, the columns of the file do."""
    if not model.either or files.data is None:
        return model.task
    if "text" in files.columns:
        return CLASSIFY
    asked = model.head.answers == "number" or {"first", "second"} & files.columns.keys()
    return PAIR if asked or names_pairs(files.data) else CLASSIFY


def _separator(files: LabelFiles, path: Path, head: HeadConfig) -> str:
    """What stands between the labels of a file: the mark by which most rows have labels that are known."""

    def strange(mark: str) -> float:
        try:
            reading = read_examples(CLASSIFY, dataclasses.replace(files, separator=mark, skip_bad_rows=True), path)
        except DataError:  # by this mark no row can be used; if by none, the reading itself will say why
            return math.inf
        return len(reading.bad) + sum(not set(example.labels) <= set(head.labels) for example in reading.examples)

    return min(SEPARATORS, key=strange)


# --- Data --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Data:
    """Texts and their gold, of training and of validation, and what the head answers."""

    texts: tuple[list[Text], list[Text]]
    gold: tuple[list[Gold], list[Gold]]
    head: HeadConfig
    card: tuple[CardData, ...]
    remarks: tuple[str, ...]


def _read(task: str, files: LabelFiles, config: LabelConfig) -> _Data:
    if files.data is None:
        columns = {f"--{role}-column": name for role, name in files.columns.items()}
        forms = {"--numbers": files.numbers is not None, "--separator": files.separator is not None}
        refuse_without_file(
            {"--validation": files.validation, "--skip-bad-rows": files.skip_bad_rows, **forms, **columns}
        )
        draw: Any = opinions if task == CLASSIFY else inferences
        sides = [_sides(draw(split)) for split in ("train", "validation")]
        head = _head([gold for _, gold in sides[0]], several=False)
        card = tuple(
            CardData(name=WORLD[task], role=role, num_rows=len(side))
            for role, side in zip(("training", "validation"), sides, strict=True)
        )
        return _data(sides[0], sides[1], head, card, (f"data: {WORLD[task]} (no file was given)",))
    reading = read_examples(task, files, files.data)
    sides = [_sides(reading.examples)]
    head = _head([gold for _, gold in sides[0]], several=files.separator is not None)
    remarks = [*reading.remarks, *skipped_rows(reading.bad)]
    card = card_of(reading, "training")
    if head.answers != "number":
        require_two_labels(head.labels, files.data, len(reading.examples))
        remarks.append(_counted([gold for _, gold in sides[0]]))
    if files.validation is not None:
        numbers = head.answers == "number" if task == PAIR else None
        checking = read_examples(task, dataclasses.replace(files, numbers=numbers), files.validation)
        checking = known_only(checking, files.validation, head, skip_bad_rows=files.skip_bad_rows)
        held = _sides(checking.examples)
        remarks += [*checking.remarks, *skipped_rows(checking.bad), *overlap_remark(_texts(sides[0]), _texts(held))]
        return _data(sides[0], held, head, card + card_of(checking, "validation"), tuple(remarks))
    kept, held = _held_out(sides[0], head, share=config.validation_share)
    remarks.append(held_remark(len(held), "example"))
    return _data(kept, held, head, card, tuple(remarks))


def _held_out(sides: Sequence[Side], head: HeadConfig, *, share: float) -> tuple[list[Side], list[Side]]:
    """Examples for training and for validation, to which every label gives its share."""
    gold = [gold for _, gold in sides]
    labels = [value if isinstance(value, tuple) else () for value in gold]
    parts = hold_out(_texts(sides), labels, share=share, kinds=None if head.answers == "number" else gold)
    train, held = ([sides[number] for number in part] for part in parts)
    return train, held


def _texts(sides: Sequence[Side]) -> list[Text]:
    return [text for text, _ in sides]


def _counted(gold: Sequence[Gold]) -> str:
    """How often each label occurs, the commonest first."""
    counts = Counter(label for labels in gold if isinstance(labels, tuple) for label in labels)
    return f"labels: {some([f'{label} {count:,}' for label, count in counts.most_common()])}"


def read_examples(task: str, files: LabelFiles, path: Path) -> Reading[Any]:
    """The examples of a file, as their task reads them."""
    if task == CLASSIFY:
        return read_labelled(
            path,
            columns=from_dict(TextColumns, files.columns),
            separator=files.separator,
            skip_bad_rows=files.skip_bad_rows,
        )
    return read_labelled_pairs(
        path,
        columns=from_dict(PairColumns, files.columns),
        numbers=files.numbers,
        skip_bad_rows=files.skip_bad_rows,
    )


def known_only(reading: Reading[Any], path: Path, head: HeadConfig, *, skip_bad_rows: bool) -> Reading[Any]:
    """`reading`, whose labels must be among those of training."""
    if head.answers == "number":
        return reading
    return refuse_unseen(
        reading,
        path,
        head.labels,
        lambda example: _side(example)[1],  # type: ignore[arg-type,return-value]
        single=head.answers == "one",
        skip_bad_rows=skip_bad_rows,
    )


def _side(example: Labelled | LabelledPair) -> Side:
    if isinstance(example, Labelled):
        return example.text, example.labels
    label = example.label
    return (example.first, example.second), (label,) if isinstance(label, str) else label


def _sides(examples: Sequence[Labelled | LabelledPair]) -> list[Side]:
    return [_side(example) for example in examples]


def _head(gold: Sequence[Gold], *, several: bool) -> HeadConfig:
    if all(isinstance(value, float) for value in gold):
        return HeadConfig(kind="sequence", labels=(NUMBER,), answers="number")
    sets = [value for value in gold if isinstance(value, tuple)]
    several = several or any(len(labels) != 1 for labels in sets)
    names = label_names(label for labels in sets for label in labels)
    return HeadConfig(kind="sequence", labels=names, answers="several" if several else "one")


def _data(
    train: Sequence[Side],
    held: Sequence[Side],
    head: HeadConfig,
    card: tuple[CardData, ...],
    remarks: tuple[str, ...],
) -> _Data:
    texts = [text for text, _ in train], [text for text, _ in held]
    return _Data(texts, ([gold for _, gold in train], [gold for _, gold in held]), head, card, remarks)


def _begin_at_the_mean(model: BertForSequence, found: _Data) -> None:
    """A regression that begins with the mean need not spend its first steps on finding it."""
    numbers = [value for value in found.gold[0] if isinstance(value, float)]
    if found.head.answers == "number":
        model.head.output.bias.data.fill_(math.fsum(numbers) / len(numbers))
