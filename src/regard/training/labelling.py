"""From labelled texts, or pairs of them, to a classifier: read, check the labels, hold some out, train.

Whatever can be wrong with a request is found before torch is loaded, and whatever can be wrong with data before
anything is trained.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.checkpoint.card import CardData
from regard.checkpoint.output import check_output, output_folder
from regard.checkpoint.presence import check_folder
from regard.config import from_dict
from regard.data.batches import split_validation
from regard.data.files import Reading
from regard.data.labelled import (
    Labelled,
    LabelledPair,
    PairColumns,
    TextColumns,
    label_names,
    read_labelled,
    read_labelled_pairs,
    refuse_unseen,
    require_two_labels,
)
from regard.data.world.inference import inferences
from regard.data.world.opinions import opinions
from regard.errors import UsageError, unknown
from regard.metrics.score import Score
from regard.models.bert_settings import PRESETS, BertConfig, HeadConfig
from regard.nn.lora_settings import LoRAConfig
from regard.tasks.settings import LabelConfig
from regard.text.tokenizer import Symbols, Tokenizer
from regard.text.training import train_tokenizer
from regard.training.options import Budget, RunOptions, find_folder, lora_settings, sort_settings
from regard.training.recipes import labelling_recipe
from regard.training.settings import TrainingConfig
from regard.training.translation import skipped_rows

if TYPE_CHECKING:
    from regard.models.bert import BertForSequence
    from regard.tasks.classify import Classifier, Gold, Text
    from regard.training.runs import Run

SIZES = tuple(PRESETS)
USUAL_SIZE = "tiny"
CLASSIFY, PAIR = "classify", "pair"
NUMBER = "number"
WORLD = {CLASSIFY: "the built-in world's opinions", PAIR: "the built-in world's inferences"}
SYMBOLS = Symbols(pad="[PAD]", unknown="[UNK]", start="[CLS]", end="[SEP]")
NOT_FOR_LABELS = ("label_smoothing", "batch_tokens")  # batches are counted in examples


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
    if size is not None and size not in SIZES:
        raise unknown("size", size, SIZES)
    parts = sort_settings(settings or {}, (BertConfig, TrainingConfig, LabelConfig, LoRAConfig))
    adapters = lora_settings(parts[LoRAConfig], lora=lora, begins=from_ is not None)
    config = from_dict(LabelConfig, parts[LabelConfig])
    shape = {**PRESETS[size or USUAL_SIZE], **parts[BertConfig]}
    _check_request(config, shape, size=size, parts=parts, from_=from_, lora=lora)
    check_output(out, resume=options.resume, force=options.force)
    folder = None
    if from_ is not None:
        folder = find_folder(str(from_), out)
        check_folder(folder)
    found = _read(task, files, config)
    training = {**labelling_recipe(begins=from_ is not None, lora=lora).training, **parts[TrainingConfig]}
    budget = _budget(training, config, len(found.texts[0]), out, resume=options.resume)
    from regard.tasks.classify import ClassifyTask
    from regard.tasks.labelling import freeze, layer_rates
    from regard.training.beginning import Beginning
    from regard.training.runs import carry_out

    with output_folder(out, resume=options.resume, force=options.force):
        seed = budget.config.seed
        if folder is not None:
            model, tokenizer = _begin(folder, str(from_), parts[BertConfig], found.head, seed=seed)
            beginning = Beginning.of(str(from_), folder, model, lora=adapters, seed=seed, fresh=model.head)
            freeze(model.bert, config.freeze)
            remarks, described = [beginning.remark(model)], {}
        else:
            model, tokenizer = _new(shape, config, found, seed=seed)
            beginning, remarks, described = None, [], {"size": size or USUAL_SIZE}
        config = dataclasses.replace(config, max_tokens=min(config.max_tokens, model.config.context))
        _begin_at_the_mean(model, found)
        doing = ClassifyTask(
            task=task,
            model=model,
            tokenizer=tokenizer,
            head=found.head,
            texts=found.texts,
            gold=found.gold,
            config=config,
            data=found.card,
        )
        cut = sum(len(row.ids) >= config.max_tokens for row in doing.train)
        if cut:
            remarks.append(f"length: {cut:,} of {len(doing.train):,} texts reach --max-tokens {config.max_tokens}, "
                           "and no more of them is read")  # fmt: skip
        return carry_out(
            doing,
            budget,
            out,
            options,
            described=described,
            remarks=[*found.remarks, *remarks],
            beginning=beginning,
            rates=layer_rates(model.bert, config.layer_decay),
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
) -> Run[Classifier]:
    """`train_labels` on the files of a list, of which there is one or none."""
    for name, given in (("training", data), ("validation", validation)):
        if given and len(given) > 1:
            raise UsageError(f"{len(given)} {name} files were given; labels are read from one table.")
    files = LabelFiles(
        data=data[0] if data else None,
        validation=validation[0] if validation else None,
        columns=columns or {},
        separator=separator,
        numbers=numbers,
        skip_bad_rows=skip_bad_rows,
    )
    return train_labels(task, files, out, **how)


def score_file(model: Classifier, files: LabelFiles) -> tuple[list[Score], list[str]]:
    """The scores of a model on a file with labels, and what there is to say about the file."""
    from regard.tasks.classify import baseline, gold_of, score_answers

    assert files.data is not None, "a file to score on"
    numbers = model.head.answers == "number" if model.task == PAIR else None
    several = "," if model.head.answers == "several" and files.separator is None else files.separator
    reading = read_examples(model.task, dataclasses.replace(files, numbers=numbers, separator=several), files.data)
    reading = known_only(reading, files.data, model.head, skip_bad_rows=files.skip_bad_rows)
    texts, gold = zip(*_sides(reading.examples), strict=True)
    answers = [gold_of(found) for found in model(list(texts))]
    scores = score_answers(answers, gold, model.head) + baseline(gold, gold, model.head)
    return scores, [*reading.remarks, *skipped_rows(reading.bad)]


def _check_request(
    config: LabelConfig,
    shape: Mapping[str, Any],
    *,
    size: str | None,
    parts: Mapping[type, Mapping[str, Any]],
    from_: Path | str | None,
    lora: bool,
) -> None:
    """What does not go together."""
    if from_ is None:
        from_dict(BertConfig, {**shape, "vocab_size": 1})  # how many pieces there are is not known yet
        for flag, value, usual in (("freeze", config.freeze, "nothing"), ("layer-decay", config.layer_decay, 1.0)):
            if value != usual:
                raise UsageError(f"--{flag} is for weights that know something already: name their folder with --from.")
        return
    for name, given in (("size", size), ("pieces", parts[LabelConfig].get("pieces"))):
        if given is not None:
            raise UsageError(f"--{name} {given} does not go with --from: the model in {from_} has its size and tokens.")
    if lora and config.freeze != "nothing":
        raise UsageError("--lora leaves all weights as they are but its own: give no --freeze beside it.")


def _budget(training: Mapping[str, Any], config: LabelConfig, examples: int, out: Path, *, resume: bool) -> Budget:
    """So many epochs, where neither steps nor minutes were asked for; a tenth of the steps warms up."""
    an_epoch = math.ceil(examples / config.batch_rows)
    given = {"validations": max(1, math.ceil(config.epochs)), **training}
    remark = ""
    if given.get("steps") is None and given.get("minutes") is None:
        steps = max(1, round(config.epochs * an_epoch))
        given["steps"], remark = steps, f"budget: {steps:,} steps, {config.epochs:g} epochs of {an_epoch:,} (--epochs)"
    if "warmup_steps" not in given:
        given["warmup_steps"] = max(1, (given.get("steps") or 3 * an_epoch) // 10)
    settled = Budget.settle(given, out, resume=resume)
    return Budget(settled.config, remark or settled.remark)


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
        for flag, given in (("--validation", files.validation), ("--skip-bad-rows", files.skip_bad_rows)):
            if given:
                raise UsageError(f"{flag} needs a training file beside it; without a file the built-in world is used.")
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
    card = _card(reading, "training")
    if head.answers != "number":
        require_two_labels(head.labels, files.data, len(reading.examples))
    if files.validation is not None:
        numbers = head.answers == "number" if task == PAIR else None
        checking = read_examples(task, dataclasses.replace(files, numbers=numbers), files.validation)
        checking = known_only(checking, files.validation, head, skip_bad_rows=files.skip_bad_rows)
        remarks += [*checking.remarks, *skipped_rows(checking.bad)]
        return _data(sides[0], _sides(checking.examples), head, card + _card(checking, "validation"), tuple(remarks))
    train, held = split_validation(len(sides[0]), share=config.validation_share)
    remarks.append(f"validation: {len(held):,} examples held out of the training file (no --validation was given)")
    kept, out = ([sides[0][number] for number in part] for part in (train, held))
    return _data(
        kept, out, _head([gold for _, gold in sides[0]], several=files.separator is not None), card, tuple(remarks)
    )


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
    return refuse_unseen(reading, path, head.labels, lambda example: _side(example)[1], skip_bad_rows=skip_bad_rows)  # type: ignore[arg-type,return-value]


def _side(example: Labelled | LabelledPair) -> tuple[Text, Gold]:
    if isinstance(example, Labelled):
        return example.text, example.labels
    label = example.label
    return (example.first, example.second), (label,) if isinstance(label, str) else label


def _sides(examples: Sequence[Labelled | LabelledPair]) -> list[tuple[Text, Gold]]:
    return [_side(example) for example in examples]


def _head(gold: Sequence[Gold], *, several: bool) -> HeadConfig:
    if all(isinstance(value, float) for value in gold):
        return HeadConfig(kind="sequence", labels=(NUMBER,), answers="number")
    sets = [value for value in gold if isinstance(value, tuple)]
    several = several or any(len(labels) != 1 for labels in sets)
    names = label_names(label for labels in sets for label in labels)
    return HeadConfig(kind="sequence", labels=names, answers="several" if several else "one")


def _data(
    train: Sequence[tuple[Text, Gold]],
    held: Sequence[tuple[Text, Gold]],
    head: HeadConfig,
    card: tuple[CardData, ...],
    remarks: tuple[str, ...],
) -> _Data:
    texts = [text for text, _ in train], [text for text, _ in held]
    return _Data(texts, ([gold for _, gold in train], [gold for _, gold in held]), head, card, remarks)


def _card(reading: Reading[Any], role: str) -> tuple[CardData, ...]:
    return tuple(
        CardData(name=Path(path).name, role=role, num_rows=len(reading.examples), sha256=checksum)
        for path, checksum in reading.checksums.items()
    )


# --- Models ------------------------------------------------------------------------------------------------


def _new(
    shape: Mapping[str, Any], config: LabelConfig, found: _Data, *, seed: int
) -> tuple[BertForSequence, Tokenizer]:
    from regard.tasks.classify import make_classifier_model

    words = [text if isinstance(text, str) else " ".join(text) for text in found.texts[0]]
    try:
        tokenizer = train_tokenizer(words, kind="wordpiece", vocab_size=config.pieces, symbols=SYMBOLS, lowercase=True)
    except UsageError as error:
        raise UsageError(f"--pieces {config.pieces}: {error}") from None
    context = {"context": max(config.max_tokens, 8), **shape}
    settings = from_dict(BertConfig, {**context, "vocab_size": tokenizer.vocab_size})
    return make_classifier_model(settings, found.head, seed=seed), tokenizer


def _begin(
    folder: Path, name: str, given: Mapping[str, Any], head: HeadConfig, *, seed: int
) -> tuple[BertForSequence, Tokenizer]:
    """The encoder of a folder under a fresh head. A folder without a pooler gets a fresh one."""
    from regard.checkpoint.folder import load_into, own_tensors
    from regard.tasks.classify import make_classifier_model
    from regard.tasks.folders import load_embedder
    from regard.training.beginning import refuse_contradictions

    embedder = load_embedder(folder)
    old = embedder.bert.config
    free = ("dropout", "attention_dropout", "head_dropout")
    refuse_contradictions(given, old, name=name, free=free)
    changes = {key: value for key, value in given.items() if key in free}
    model = make_classifier_model(dataclasses.replace(old, **changes, pooler=True), head, seed=seed)
    load_into(model.bert, {**own_tensors(model.bert), **own_tensors(embedder.bert)})
    return model, embedder.tokenizer


def _begin_at_the_mean(model: BertForSequence, found: _Data) -> None:
    """A regression that begins with the mean need not spend its first steps on finding it."""
    numbers = [value for value in found.gold[0] if isinstance(value, float)]
    if found.head.answers == "number":
        model.head.output.bias.data.fill_(math.fsum(numbers) / len(numbers))
