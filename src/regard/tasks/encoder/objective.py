"""Objectives of encoder tasks: a new or pretrained model with a head, batches, losses and validation."""

from __future__ import annotations

import hashlib
import json
import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.checkpoint.predictors import load_predictor
from regard.data.batches import BatchPlan
from regard.metrics.score import Score
from regard.models.bert.model import Bert
from regard.models.heads import HeadConfig
from regard.nn.hooks import Trace
from regard.nn.init import seeded_init
from regard.nn.state_dict import load_into, unique_tensors
from regard.tasks.base import LabelledExample, Splits, describe_model, new_tokenizer
from regard.tasks.encoder.config import FREE, EncoderTraining, epoch_settings
from regard.tasks.encoder.inference import length_batches
from regard.tasks.encoder.mlm_eval import ForgettingCallback
from regard.tasks.encoder.predictor import Classification, EncodedExample, EncoderBatch, collate, most_common_labels
from regard.tokenizers.tokenizer import SpecialTokens, Tokenizer
from regard.training.callbacks import Callback
from regard.training.objective import Loss, Objective, Sample, SampleNames
from regard.training.pretrained_init import PretrainedInit, refuse_contradictions
from regard.training.run import TrainRequest
from regard.utils.errors import UsageError, number_of

SPECIAL_TOKENS = SpecialTokens(pad="[PAD]", unknown="[UNK]", start="[CLS]", end="[SEP]")
EMBEDDING_RMS = 0.06  # typical root mean square of a token embedding table; BERT's has 0.05
NUM_SAMPLES = 8  # validation examples in the report


@dataclass(frozen=True)
class EncoderInit:
    """A model that is ready for training."""

    model: Any  # a module with a head
    tokenizer: Tokenizer
    head: HeadConfig
    max_seq_len: int
    pretrained: PretrainedInit | None = None
    notes: tuple[str, ...] = ()


def init_encoder(request: TrainRequest, head: HeadConfig, texts: Sequence[str]) -> EncoderInit:
    """Return a new model with a tokenizer trained on `texts`, or a pretrained encoder with a new head."""
    config = request.config
    assert isinstance(config, EncoderTraining), "tasks on encoders extend it"
    if request.folder is None:
        tokenizer = new_tokenizer(
            texts, vocab_size=config.vocab_size, kind="wordpiece", special_tokens=SPECIAL_TOKENS, lowercase=True
        )
        known = {"vocab_size": tokenizer.vocab_size}
        if "context_length" in request.architecture.config.model_fields:
            known["context_length"] = request.model_settings().get("context_length", max(config.max_seq_len, 8))
        shape = request.model_config(**known)
        model = seeded_init(lambda: request.architecture.build(shape, head), seed=config.seed)
        return EncoderInit(model, tokenizer, head, _max_seq_len(config, shape))
    model, tokenizer, new_parts = _pretrained_encoder(request, head)
    pretrained = PretrainedInit.of(
        str(request.pretrained), request.folder, model, lora=request.lora, seed=config.seed, new_parts=new_parts
    )
    freeze(model.bert, config.freeze, trainable=new_parts)
    max_seq_len = _max_seq_len(config, model.config)
    return EncoderInit(model, tokenizer, head, max_seq_len, pretrained, (pretrained.note(model),))


def _max_seq_len(config: EncoderTraining, shape: Any) -> int:
    return min(config.max_seq_len, getattr(shape, "context_length", config.max_seq_len))


def _pretrained_encoder(request: TrainRequest, head: HeadConfig) -> tuple[Any, Tokenizer, list[nn.Module]]:
    """Add a new head to the pretrained encoder; also return the modules without pretrained weights."""
    assert request.folder is not None, "there are pretrained weights"
    pretrained = load_predictor(request.folder, task="embed")
    encoder, tokenizer = pretrained.bert, pretrained.tokenizer
    settings = {**request.recipe.model, **request.given_model}
    refuse_contradictions(settings, encoder.config, name=str(request.pretrained), free=FREE)
    shape = encoder.config.replace(**{key: value for key, value in settings.items() if key in FREE})
    model = seeded_init(lambda: request.architecture.build(shape, head), seed=request.config.seed)
    needed = unique_tensors(model.bert)
    known = {key: tensor for key, tensor in unique_tensors(encoder).items() if key in needed}
    load_into(model.bert, {**needed, **known})
    new_parts: list[nn.Module] = [model.head]
    if model.bert.pooler is not None and encoder.pooler is None:
        new_parts.append(model.bert.pooler)
    return model, tokenizer, new_parts


def freeze(encoder: Bert, part: str, *, trainable: Sequence[nn.Module] = ()) -> None:
    """Freeze a part of an encoder, except the modules in `trainable`."""
    if part == "encoder":
        encoder.requires_grad_(False)
    elif part != "nothing":
        num_layers = int(part) if part.isdecimal() else 0
        if num_layers > len(encoder.encoder):
            raise UsageError(
                f"--freeze must be at most {len(encoder.encoder)} (the layers of this model), got {num_layers}.",
                argument="freeze",
                value=num_layers,
            )
        encoder.embedding.requires_grad_(False)
        for block in encoder.encoder[:num_layers]:
            block.requires_grad_(False)
    for module in trainable:
        module.requires_grad_(True)


def lr_multipliers(encoder: Bert, decay: float) -> dict[Tensor, float]:
    """Return learning-rate factors by parameter; parameters without an entry have factor 1.

    With a `decay` below 1, each layer has a smaller factor than the layer above it, and the embeddings have the
    smallest. A token embedding table with larger values than usual gets a larger factor. A norm follows the table, so
    only relative changes matter, and updates of the usual size would hardly change a token vector.
    """
    num_layers, tables = len(encoder.encoder), encoder.embedding
    rms = tables.weight.detach().square().mean().sqrt().item()
    scale = max(1.0, rms / EMBEDDING_RMS)
    if decay == scale == 1:
        return {}
    factors: dict[Tensor, float] = dict.fromkeys(tables.parameters(), decay ** (num_layers + 1))
    factors[tables.weight] *= scale
    for layer, block in enumerate(encoder.encoder):
        factors |= dict.fromkeys(block.parameters(), decay ** (num_layers - layer))
    return factors


class EncoderObjective(Objective):
    """Base class for training on encoded examples. Each task defines its inputs, targets, loss and samples."""

    loss_unit = "examples"
    noun: ClassVar[str] = "example"
    rows_per_example = 1  # encoded inputs per example, adjacent in `train`
    windowed: ClassVar[str] = ""  # name of inputs that are split into windows instead of truncated, such as "passages"
    model: Any

    @classmethod
    def prepare(cls, splits: Splits[Any], request: TrainRequest) -> Self:
        return cls(init_encoder(request, splits.head, cls.tokenizer_texts(splits.train)), request, splits)

    def __init__(self, init: EncoderInit, request: TrainRequest, splits: Splits[Any]) -> None:
        config = request.config
        assert isinstance(config, EncoderTraining), "tasks on encoders extend it"
        self.model, self.tokenizer, self.init, self.head = init.model, init.tokenizer, init.pretrained, init.head
        self.splits, self.request, self.config = splits, request, config
        self._predictor: Any = request.spec.load("predictor")(
            init.model,
            init.tokenizer,
            head=init.head,
            config=request.predict_config(),
            max_seq_len=init.max_seq_len,
            majority_label=self.majority_label(splits.train),
        )
        self.train, train_targets = self.encode(splits.train)
        self.validation, validation_targets = self.encode(splits.validation)
        self._targets = train_targets, validation_targets
        self.num_validation_targets = self.num_targets(validation_targets)
        self.notes = (*splits.notes, *self.length_notes(init.max_seq_len), *init.notes)
        encoder = getattr(init.model, "bert", None)
        if encoder is not None:
            self.sparse_embeddings = (encoder.embedding,)
        self.lr_multipliers = lr_multipliers(encoder, config.layer_decay) if init.pretrained and encoder else {}

    # --- defined by each task -------------------------------------------------------------------------------

    @staticmethod
    @abstractmethod
    def tokenizer_texts(examples: Sequence[Any]) -> list[str]:
        """Return the texts to train the tokenizer of a new model on."""

    @abstractmethod
    def encode(self, examples: Sequence[Any]) -> tuple[list[EncodedExample], Sequence[Any]]:
        """Return the encoded inputs of examples, and their targets as plain numbers."""

    @abstractmethod
    def compute_loss(self, logits: Tensor, targets: list[Any], batch: EncoderBatch) -> Tensor:
        """Return the mean loss of a batch; `targets` come from `encode`."""

    @abstractmethod
    def sample(self, example: Any, result: Any) -> Sample:
        """Return a validation example with its prediction; a correct output equals the reference."""

    def trace_inputs(self, example: Any) -> tuple[str, ...]:
        """Return the arguments of `trace` for an example."""
        text = self._predictor.input_of(example)
        return (text,) if isinstance(text, str) else tuple(text)

    def majority_label(self, examples: Sequence[Any]) -> tuple[str, ...] | None:
        """Return the most common training label for the baseline, or None if the task has no labels."""
        return None

    def logits(self, batch: EncoderBatch, targets: list[Any]) -> Tensor:
        logits: Tensor = self.model(*batch)
        return logits

    def num_targets(self, targets: Sequence[Any]) -> int:
        """Return the number of predictions that the loss of a batch averages over."""
        return len(targets)

    def length_notes(self, max_seq_len: int) -> list[str]:
        if self.windowed and (extra := len(self.train) - len(self.splits.train)):
            windows = number_of(extra, "extra window")
            longer = f"{self.windowed} longer than --max-seq-len {max_seq_len}"
            return [f"length: {longer} are split into {windows}, not truncated"]
        if truncated := sum(example.dropped > 0 for example in self.train):
            return [f"length: {truncated:,} of {len(self.train):,} texts were truncated to --max-seq-len {max_seq_len}"]
        return []

    # --- training -------------------------------------------------------------------------------------------

    def training_settings(self) -> dict[str, Any]:
        return dict(epoch_settings(self.request, len(self.train) // self.rows_per_example))

    def callbacks(self) -> Sequence[Callback]:
        path = self.config.forgetting
        return [] if path is None or self.init is None else [ForgettingCallback(self.model, self.init, path)]

    def batches(self, plan: BatchPlan, epoch: int) -> list[list[int]]:
        return plan.row_batches(self._lengths(self.train), self.config.batch_size, epoch)

    def size(self, index: int) -> tuple[int, int]:
        return (max(len(row.ids) for row in self._rows(self.train, index)),) * 2

    def _rows(self, rows: Sequence[EncodedExample], index: int) -> Sequence[EncodedExample]:
        """Return the inputs of one example."""
        return rows[index * self.rows_per_example : (index + 1) * self.rows_per_example]

    def _lengths(self, rows: Sequence[EncodedExample]) -> list[int]:
        """Return the length in tokens of each example's longest input."""
        count = len(rows) // self.rows_per_example
        return [max(len(row.ids) for row in self._rows(rows, index)) for index in range(count)]

    def loss(self, indices: Sequence[int]) -> Loss:
        return self._loss(self.train, self._targets[0], indices)

    def _loss(self, rows: Sequence[EncodedExample], targets: Sequence[Any], indices: Sequence[int]) -> Loss:
        chosen = [row for index in indices for row in self._rows(rows, index)]
        batch = collate(chosen, self.tokenizer.pad_id, next(self.model.parameters()).device)
        wanted = [targets[index] for index in indices]
        loss = self.compute_loss(self.logits(batch, wanted), wanted, batch)
        return Loss(loss, loss.detach(), self.num_targets(wanted))

    # --- validation -----------------------------------------------------------------------------------------

    @torch.no_grad()
    def validation_loss(self) -> float:
        batches = length_batches(self._lengths(self.validation))
        losses = [self._loss(self.validation, self._targets[1], batch) for batch in batches]
        return sum(loss.plain.item() * loss.num_targets for loss in losses) / sum(loss.num_targets for loss in losses)

    @property
    def scored_on(self) -> str:
        return f"validation, {number_of(len(self.splits.validation), self.noun)}"

    def evaluate(self) -> tuple[list[Score], list[Sample]]:
        """Return the scores and a few samples, mistakes first because they are the most instructive."""
        examples, predictor = self.splits.validation, self.predictor()
        scores, results = self.score(predictor.predict([predictor.input_of(example) for example in examples]))
        samples = [self.sample(example, result) for example, result in zip(examples, results, strict=True)]
        return scores, sorted(samples, key=lambda sample: sample.reference == sample.output)[:NUM_SAMPLES]

    def score(self, results: list[Any]) -> tuple[list[Score], list[Any]]:
        """Score the validation results; return the scores and the scored results."""
        return self._predictor.score(self.splits.validation, results), results

    def traces(self, samples: Sequence[Sample]) -> list[tuple[str, Trace]]:
        if "attention" not in self._predictor.capabilities:
            return []
        inputs = self.trace_inputs(self.splits.validation[0])
        return [(" / ".join(inputs)[:80], self.predictor().trace(*inputs))]

    def predictor(self) -> Any:
        self.model.eval()
        return self._predictor

    def fingerprint(self) -> str:
        train, validation = map(self._checksum, (self.train, self.validation), self._targets)
        counts = f"{len(self.train):,} rows, checksum {train}; {len(self.validation):,} for validation"
        return f"{counts}, checksum {validation}"

    def _checksum(self, rows: Sequence[EncodedExample], targets: Sequence[Any]) -> str:
        """Return a checksum of inputs, targets and head config."""
        digest = hashlib.sha256(json.dumps([self.head.to_dict(), list(targets)]).encode())
        for row in rows:
            digest.update(np.asarray([len(row.ids), row.first, *row.ids], dtype="<i4").tobytes())
        return digest.hexdigest()[:12]

    def describe(self) -> str:
        train, validation = (len(rows) // self.rows_per_example for rows in (self.train, self.validation))
        model = describe_model(self.model, self.tokenizer.vocab_size)
        return f"model: {model}; data: {train:,} training and {validation:,} validation examples"


# --- Sequence classification and regression -------------------------------------------------------------------


class SequenceObjective(EncoderObjective):
    """Trains a model to predict labels or numbers for texts or pairs: the objective of `classify` and `pair`.

    The loss is cross-entropy for one label, binary cross-entropy for several labels and squared error for regression.
    """

    @classmethod
    def prepare(cls, splits: Splits[LabelledExample], request: TrainRequest) -> Self:
        if _is_balanced(request) and splits.head.problem_type != "single_label_classification":
            message = "--class-weights balanced needs exactly one label per text. Remove it."
            raise UsageError(message, argument="class_weights")
        objective = super().prepare(splits, request)
        if splits.head.problem_type == "regression":  # start at the mean to save training steps
            numbers = [example.gold for example in splits.train if isinstance(example.gold, float)]
            objective.model.head.output.bias.data.fill_(math.fsum(numbers) / len(numbers))
        return objective

    def __init__(self, init: EncoderInit, request: TrainRequest, splits: Splits[LabelledExample]) -> None:
        super().__init__(init, request, splits)
        self.sample_names = SampleNames(
            "Text", "Label", "Prediction", self.head.problem_type != "regression", mistakes_first=True
        )
        balanced = _is_balanced(request)
        self._class_weights = class_weights(self._targets[0], len(self.head.labels)) if balanced else None

    @staticmethod
    def tokenizer_texts(examples: Sequence[LabelledExample]) -> list[str]:
        return [example.text if isinstance(example.text, str) else " ".join(example.text) for example in examples]

    def majority_label(self, examples: Sequence[LabelledExample]) -> tuple[str, ...] | None:
        return most_common_labels([example.gold for example in examples])

    def encode(self, examples: Sequence[LabelledExample]) -> tuple[list[EncodedExample], list[Any]]:
        """Encode examples; the target is a label index, a 0 or 1 for each label, or the number itself."""
        rows, labels = self._predictor.encode([example.text for example in examples]), self.head.labels
        if self.head.problem_type == "regression":
            return rows, [[example.gold] for example in examples]
        if self.head.problem_type == "multi_label_classification":
            return rows, [[float(label in example.labels) for label in labels] for example in examples]
        index = {label: place for place, label in enumerate(labels)}
        return rows, [index[example.labels[0]] for example in examples]

    def compute_loss(self, logits: Tensor, targets: list[Any], batch: EncoderBatch) -> Tensor:
        wanted = torch.tensor(targets, device=logits.device)
        if self.head.problem_type != "single_label_classification":
            compare = F.mse_loss if self.head.problem_type == "regression" else F.binary_cross_entropy_with_logits
            return compare(logits, wanted, reduction="none").mean(dim=-1).mean()
        losses = F.cross_entropy(logits, wanted, reduction="none")
        # The validation loss is weighted too, so that the best weights are selected by the training loss.
        weights = self._class_weights
        return losses.mean() if weights is None else (losses * weights.to(logits.device)[wanted]).mean()

    def sample(self, example: LabelledExample, result: Classification) -> Sample:
        reference = f"{example.gold:g}" if isinstance(example.gold, float) else ", ".join(example.gold)
        return Sample(" / ".join(self.trace_inputs(example)), reference, str(result))


def _is_balanced(request: TrainRequest) -> bool:
    return getattr(request.config, "class_weights", "none") == "balanced"


def class_weights(targets: Sequence[int], num_labels: int) -> Tensor:
    """Return a weight per label such that all labels count the same; the mean weight over examples is 1."""
    counts = torch.bincount(torch.tensor(targets), minlength=num_labels).clamp(min=1)
    return len(targets) / (num_labels * counts.float())
