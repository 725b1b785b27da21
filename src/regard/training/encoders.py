"""What trainings on BERT have in common before they begin: settings that go together, a budget of epochs, a model.

A model is new, with a tokenizer learned from the texts, or has the encoder of a folder under a fresh head.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from regard.checkpoint.card import CardData
from regard.checkpoint.output import check_output
from regard.checkpoint.presence import check_folder, has_word_head, width_of
from regard.config import from_dict
from regard.data.files import Reading
from regard.errors import UsageError, number_of, unknown
from regard.models.bert_settings import PRESETS, BertConfig, HeadConfig
from regard.nn.lora_settings import LoRAConfig
from regard.tasks.settings import LabelConfig
from regard.text.tokenizer import Symbols, Tokenizer
from regard.text.training import train_tokenizer
from regard.training.options import (
    BUDGET,
    Budget,
    RunOptions,
    earlier_settings,
    find_folder,
    lora_settings,
    no_head_for_words,
    sort_settings,
)
from regard.training.recipes import labelling_recipe
from regard.training.settings import TrainingConfig

if TYPE_CHECKING:
    from torch import nn

    from regard.models.bert import BertForSequence, BertForSpans, BertForTokens
    from regard.tasks.labelling import Row
    from regard.training.beginning import Beginning

# BERT with the head of a task.
Headed = TypeVar("Headed", bound="BertForSequence | BertForTokens | BertForSpans")

SIZES = tuple(PRESETS)
USUAL_SIZE = "tiny"
SYMBOLS = Symbols(pad="[PAD]", unknown="[UNK]", start="[CLS]", end="[SEP]")
# Settings of other trainings, and what to do instead.
NOT_FOR_LABELS = {
    "label_smoothing": "labels are learned by plain cross-entropy. Leave it out",
    "batch_tokens": "batches are counted in examples. Give batch_rows",
}
USUAL_EPOCHS = 3  # of weights that know something already, and of many examples
FEWEST_STEPS = 300  # that a new model needs before it has learned anything from few examples
MOST_EPOCHS = 40  # beyond which it only learns them by heart
MOST_VALIDATIONS = 10  # more lines than that nobody reads
FEW = 30  # examples that one or two mistakes more or less make look good or bad
FREE = ("dropout", "attention_dropout", "head_dropout")  # what may be other than in the folder that is begun with


@dataclass(frozen=True)
class Request:
    """What was asked for, checked as far as it can be without data and without torch."""

    config: LabelConfig
    training: Mapping[str, Any]
    model: Mapping[str, Any]  # its settings, as far as they were given or belong to the recipe
    size: str
    from_: str | None
    folder: Path | None  # where `from_` lies
    lora: LoRAConfig | None

    @classmethod
    def check(
        cls,
        settings: Mapping[str, Any],
        out: Path,
        *,
        size: str | None,
        from_: Path | str | None,
        lora: bool,
        options: RunOptions,
    ) -> Request:
        if size is not None and size not in SIZES:
            raise unknown("size", size, SIZES)
        parts = sort_settings(settings, (BertConfig, TrainingConfig, LabelConfig, LoRAConfig))
        for setting, advice in NOT_FOR_LABELS.items():
            if parts[TrainingConfig].get(setting):
                raise UsageError(f"{setting} is not for trainings on labels: {advice}.")
        adapters = lora_settings(parts[LoRAConfig], lora=lora, begins=from_ is not None)
        config = from_dict(LabelConfig, parts[LabelConfig])
        if from_ is None:
            _check_new(config, {**PRESETS[size or USUAL_SIZE], **parts[BertConfig]})
        else:
            _check_begun(config, from_, size=size, pieces=parts[LabelConfig].get("pieces"), lora=lora)
        if options.forgetting is not None and from_ is None:
            raise UsageError("--forgetting is for weights that know something already: name their folder with --from.")
        check_output(out, resume=options.resume, force=options.force)
        folder = find_folder(str(from_), out) if from_ is not None else None
        width = None
        if folder is not None:
            check_folder(folder)
            width = width_of(folder)
            if options.forgetting is not None and has_word_head(folder) is False:
                raise no_head_for_words(str(from_))
        recipe = labelling_recipe(begins=from_ is not None, lora=lora, width=width)
        # Whoever stops because it gets worse wants what was better.
        kept = {"keep": "best"} if parts[TrainingConfig].get("patience") else {}
        training, model = {**recipe.training, **kept, **parts[TrainingConfig]}, {**recipe.model, **parts[BertConfig]}
        name = None if from_ is None else str(from_)
        return cls(config, training, model, size or USUAL_SIZE, name, folder, adapters)

    def budget(self, examples: int, out: Path, *, resume: bool) -> Budget:
        """So many epochs, where neither steps nor minutes were asked for; a tenth of the steps warms up."""
        an_epoch = math.ceil(examples / self.config.batch_rows)
        epochs = self.config.epochs or (USUAL_EPOCHS if self.from_ else usual_epochs(an_epoch))
        # What follows from a budget stays what it was when a run began.
        earlier = earlier_settings(out, (*BUDGET, "warmup_steps", "validations")) if resume else {}
        if self.config.epochs is not None or any(self.training.get(name) is not None for name in BUDGET):
            earlier = {name: value for name, value in earlier.items() if name not in BUDGET}
        given = {"validations": min(MOST_VALIDATIONS, math.ceil(epochs)), **earlier, **self.training}
        remark = ""
        if given.get("steps") is None and given.get("minutes") is None:
            given["steps"] = max(1, round(epochs * an_epoch))
            seen = f"{epochs:g} {'epoch' if epochs == 1 else 'epochs'} of {an_epoch:,}"
            remark = f"budget: {number_of(given['steps'], 'step')}, {seen} (--epochs)"
        if "warmup_steps" not in given:
            given["warmup_steps"] = max(1, (given.get("steps") or 3 * an_epoch) // 10)
        settled = Budget.settle(given, out, resume=resume)
        return Budget(settled.config, remark or settled.remark)

    def model_for(
        self, head: HeadConfig, make: Callable[..., Headed], texts: Sequence[str], *, seed: int
    ) -> Prepared[Headed]:
        """The model to train and its tokenizer; `make` puts the head onto an encoder."""
        if self.folder is None or self.from_ is None:
            tokenizer = self._new_tokenizer(texts)
            shape = {"context": max(self.config.max_tokens, 8), **PRESETS[self.size], **self.model}
            settings = from_dict(BertConfig, {**shape, "vocab_size": tokenizer.vocab_size})
            return Prepared(make(settings, head, seed=seed), tokenizer, None, (), {"size": self.size})
        from regard.tasks.labelling import freeze
        from regard.training.beginning import Beginning

        model, tokenizer, fresh = self._begun(self.folder, self.from_, head, make, seed=seed)
        beginning = Beginning.of(self.from_, self.folder, model, lora=self.lora, seed=seed, fresh=fresh)
        freeze(model.bert, self.config.freeze, learning=fresh)
        return Prepared(model, tokenizer, beginning, (beginning.remark(model),), {})

    def _new_tokenizer(self, texts: Sequence[str]) -> Tokenizer:
        pieces = self.config.pieces
        try:
            return train_tokenizer(texts, kind="wordpiece", vocab_size=pieces, symbols=SYMBOLS, lowercase=True)
        except UsageError as error:
            raise UsageError(f"--pieces {pieces}: {error}") from None

    def _begun(
        self, folder: Path, name: str, head: HeadConfig, make: Callable[..., Headed], *, seed: int
    ) -> tuple[Headed, Tokenizer, list[nn.Module]]:
        """The encoder of a folder under a head, and which parts are fresh: the head, and a pooler if there was none."""
        from regard.checkpoint.folder import load_into, own_tensors
        from regard.tasks.folders import load_embedder
        from regard.training.beginning import refuse_contradictions

        embedder = load_embedder(folder)
        refuse_contradictions(self.model, embedder.bert.config, name=name, free=FREE)
        changes = {key: value for key, value in self.model.items() if key in FREE}
        model = make(dataclasses.replace(embedder.bert.config, **changes), head, seed=seed)
        needed = own_tensors(model.bert)
        known = {key: tensor for key, tensor in own_tensors(embedder.bert).items() if key in needed}
        load_into(model.bert, {**needed, **known})
        fresh: list[nn.Module] = [model.head]
        if model.bert.pooler is not None and embedder.bert.pooler is None:
            fresh.append(model.bert.pooler)
        return model, embedder.tokenizer, fresh


def refuse_without_file(given: Mapping[str, object]) -> None:
    """Flags that speak of a file, where there is none."""
    for flag, value in given.items():
        if value:
            raise UsageError(f"{flag} needs a training file beside it; without a file the built-in world is used.")


def only_file(given: Sequence[Path] | None, role: str, why: str) -> Path | None:
    """The one file of a list, or none; there must not be more."""
    if given and len(given) > 1:
        raise UsageError(f"{len(given)} {role} files were given; {why}.")
    return given[0] if given else None


def card_of(reading: Reading[Any], role: str) -> tuple[CardData, ...]:
    """What a model card says about the files of a reading."""
    return tuple(
        CardData(name=Path(path).name, role=role, num_rows=len(reading.examples), sha256=checksum)
        for path, checksum in reading.checksums.items()
    )


def overlap_remark(train: Sequence[Hashable], held: Sequence[Hashable]) -> list[str]:
    """That a validation file has texts of the training file, where it has."""
    known = set(train)
    count = sum(one in known for one in held)
    if not count:
        return []
    return [f"validation: {count:,} of {len(held):,} texts are in the training file, too, and may be known by heart"]


def length_remark(rows: Sequence[Row], config: LabelConfig, what: str = "texts") -> list[str]:
    """How many rows are too long, where some are."""
    cut = sum(len(row.ids) >= config.max_tokens for row in rows)
    if not cut:
        return []
    return [
        f"length: {cut:,} of {len(rows):,} {what} reach --max-tokens {config.max_tokens}, and no more of them is read"
    ]


def held_remark(count: int, what: str, beside: str = "") -> str:
    """That some of the training file were held out, and what so few would be worth."""
    says = "says" if count == 1 else "say"
    few = f"; {count:,} {says} little about others: give more, or --validation" if count < FEW else ""
    return (
        f"validation: {number_of(count, what)}{beside} held out of the training file (no --validation was given){few}"
    )


def usual_epochs(steps: int) -> int:
    """How often a new model sees its examples, if that takes so many steps each time."""
    return max(USUAL_EPOCHS, min(MOST_EPOCHS, math.ceil(FEWEST_STEPS / steps)))


@dataclass(frozen=True)
class Prepared(Generic[Headed]):
    """A model that is ready to learn."""

    model: Headed
    tokenizer: Tokenizer
    beginning: Beginning | None
    remarks: tuple[str, ...]
    described: Mapping[str, Any]  # for the card

    def config(self, asked: LabelConfig) -> LabelConfig:
        """The settings with no more tokens than the model can read."""
        return dataclasses.replace(asked, max_tokens=min(asked.max_tokens, self.model.config.context))


def _check_new(config: LabelConfig, shape: Mapping[str, Any]) -> None:
    from_dict(BertConfig, {**shape, "vocab_size": 1})  # how many pieces there are is not known yet
    for flag, value, usual in (("freeze", config.freeze, "nothing"), ("layer-decay", config.layer_decay, 1.0)):
        if value != usual:
            raise UsageError(f"--{flag} is for weights that know something already: name their folder with --from.")


def _check_begun(config: LabelConfig, from_: Path | str, *, size: str | None, pieces: int | None, lora: bool) -> None:
    for name, given in (("size", size), ("pieces", pieces)):
        if given is not None:
            raise UsageError(f"--{name} {given} does not go with --from: the model in {from_} has its size and tokens.")
    if lora and config.freeze != "nothing":
        raise UsageError("--lora leaves all weights as they are but its own: give no --freeze beside it.")
