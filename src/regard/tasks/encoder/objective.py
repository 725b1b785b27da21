"""The base of objectives on an encoder: encoded examples, a model with a head, and what all of them do alike.

A model is new, with a tokenizer trained on the texts, or has the encoder of a pretrained folder under a new head.
"""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.batches import BatchPlan
from regard.models.bert.model import Bert
from regard.models.heads import HeadConfig
from regard.nn.init import seeded_init
from regard.nn.quantized import count_weights
from regard.nn.state_dict import load_into, unique_tensors
from regard.tasks.base import Predictor
from regard.tasks.encoder.batching import EncodedExample, EncoderBatch, collate
from regard.tasks.encoder.config import FREE, EncoderTraining, epoch_settings
from regard.tasks.encoder.forgetting import ForgettingCallback
from regard.tasks.encoder.inference import length_batches
from regard.tasks.encoder.predictor import encoder_of_folder
from regard.tokenizers.tokenizer import SpecialTokens, Tokenizer
from regard.tokenizers.training import train_tokenizer
from regard.training.callbacks import Callback
from regard.training.objective import Loss, Objective
from regard.training.pretrained_init import PretrainedInit, refuse_contradictions
from regard.training.request import TrainRequest
from regard.utils.errors import UsageError, number_of

SPECIAL_TOKENS = SpecialTokens(pad="[PAD]", unknown="[UNK]", start="[CLS]", end="[SEP]")
EMBEDDING_RMS = 0.06  # typical root mean square of a token embedding table; BERT's has 0.05


@dataclass(frozen=True)
class EncoderInit:
    """A model that is ready for training."""

    model: Any  # a module with a head
    tokenizer: Tokenizer
    pretrained: PretrainedInit | None
    max_seq_len: int
    notes: tuple[str, ...] = ()


def init_encoder(request: TrainRequest, head: HeadConfig, texts: Sequence[str]) -> EncoderInit:
    """A new model with a tokenizer trained on `texts`, or the pretrained encoder under a new head."""
    config = request.config
    assert isinstance(config, EncoderTraining), "tasks on encoders extend it"
    if request.folder is None:
        tokenizer = _train_tokenizer(texts, config.vocab_size)
        known = {"vocab_size": tokenizer.vocab_size}
        if "context_length" in request.architecture.config.model_fields:
            known["context_length"] = request.model_settings().get("context_length", max(config.max_seq_len, 8))
        shape = request.model_config(**known)
        model = seeded_init(lambda: request.architecture.build(shape, head), seed=config.seed)
        return EncoderInit(model, tokenizer, None, _max_seq_len(config, shape))
    model, tokenizer, new_parts = _pretrained_encoder(request, head)
    pretrained = PretrainedInit.of(
        str(request.pretrained), request.folder, model, lora=request.lora, seed=config.seed, new_parts=new_parts
    )
    freeze(model.bert, config.freeze, trainable=new_parts)
    notes = (pretrained.note(model),)
    return EncoderInit(model, tokenizer, pretrained, _max_seq_len(config, model.config), notes)


def _max_seq_len(config: EncoderTraining, shape: Any) -> int:
    return min(config.max_seq_len, getattr(shape, "context_length", config.max_seq_len))


def _train_tokenizer(texts: Sequence[str], vocab_size: int) -> Tokenizer:
    try:
        return train_tokenizer(
            texts, kind="wordpiece", vocab_size=vocab_size, special_tokens=SPECIAL_TOKENS, lowercase=True
        )
    except UsageError as error:
        raise UsageError(f"--vocab-size {vocab_size}: {error}", argument="vocab_size", value=vocab_size) from None


def _pretrained_encoder(request: TrainRequest, head: HeadConfig) -> tuple[Any, Tokenizer, list[nn.Module]]:
    """The encoder of a folder under a new head, and the parts without pretrained weights: the head, maybe a pooler."""
    assert request.folder is not None, "there are pretrained weights"
    encoder, tokenizer = encoder_of_folder(request.folder)
    settings = {**request.recipe.model, **request.given_model}
    refuse_contradictions(settings, encoder.config, name=str(request.pretrained), free=FREE)
    changes = {key: value for key, value in settings.items() if key in FREE}
    shape = encoder.config.replace(**changes)
    model = seeded_init(lambda: request.architecture.build(shape, head), seed=request.config.seed)
    needed = unique_tensors(model.bert)
    known = {key: tensor for key, tensor in unique_tensors(encoder).items() if key in needed}
    load_into(model.bert, {**needed, **known})
    new_parts: list[nn.Module] = [model.head]
    if model.bert.pooler is not None and encoder.pooler is None:
        new_parts.append(model.bert.pooler)
    return model, tokenizer, new_parts


def freeze(encoder: Bert, part: str, *, trainable: Sequence[nn.Module] = ()) -> None:
    """Freeze a part of an encoder, except modules that are `trainable` in any case."""
    if part == "encoder":
        encoder.requires_grad_(False)
    elif part != "nothing":
        num_layers = int(part) if part.isdecimal() else 0
        if num_layers > len(encoder.encoder):
            raise UsageError(
                f"--freeze {num_layers} exceeds the {len(encoder.encoder)} layers of this model.",
                argument="freeze",
                value=num_layers,
            )
        encoder.embedding.requires_grad_(False)
        for block in encoder.encoder[:num_layers]:
            block.requires_grad_(False)
    for module in trainable:
        module.requires_grad_(True)


def lr_multipliers(encoder: Bert, decay: float) -> dict[Tensor, float]:
    """Factors of the learning rate, where they are not 1.

    With a `decay` below 1 the last layer has one factor less than the head, and the embeddings have the smallest. An
    embedding table with larger numbers than usual has a larger factor: a norm follows, so only proportions matter, and
    updates of the usual size would hardly move a token.
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


def mistakes_first(is_right: Sequence[bool], *, num_samples: int = 8) -> list[int]:
    """The indices of a few examples for the report: mistakes first, since they are the most instructive."""
    return sorted(range(len(is_right)), key=lambda index: (is_right[index], index))[:num_samples]


def windows_note(extra: int, noun: str, max_seq_len: int) -> list[str]:
    """How many more windows than examples there are, where long examples are read in several."""
    if not extra:
        return []
    windows = number_of(extra, "more window")
    return [f"length: {noun} longer than --max-seq-len {max_seq_len} are read in {windows}; none is truncated"]


class EncoderObjective(Objective):
    """Encoded examples with targets. Each task defines its own loss, targets and scores."""

    loss_unit = "examples"
    rows_per_example = 1  # inputs that belong to one example and stand side by side

    tokenizer: Tokenizer
    head: HeadConfig

    def __init__(
        self,
        init: EncoderInit,
        request: TrainRequest,
        *,
        train: Sequence[EncodedExample],
        validation: Sequence[EncodedExample],
        notes: Sequence[str] = (),
    ) -> None:
        config = request.config
        assert isinstance(config, EncoderTraining), "tasks on encoders extend it"
        self.model, self.tokenizer, self.init = init.model, init.tokenizer, init.pretrained
        self.train, self.validation, self.config = train, validation, config
        self.request = request
        self.notes = (*notes, *self._truncation_note(init.max_seq_len), *init.notes)
        encoder = getattr(init.model, "bert", None)
        if encoder is not None:
            self.sparse_embeddings = (encoder.embedding,)
        self.lr_multipliers = lr_multipliers(encoder, config.layer_decay) if init.pretrained and encoder else {}

    def _truncation_note(self, max_seq_len: int) -> list[str]:
        truncated = sum(example.dropped > 0 for example in self.train)
        if not truncated:
            return []
        return [f"length: {truncated:,} of {len(self.train):,} texts were truncated to --max-seq-len {max_seq_len}"]

    @abstractmethod
    def compute_loss(self, logits: Tensor, indices: Sequence[int], *, validation: bool) -> Loss:
        """The loss of the logits of the training (or validation) examples at `indices`."""

    @abstractmethod
    def target_bytes(self, *, validation: bool) -> bytes:
        """The targets of the training (or validation) examples, for their checksum."""

    @abstractmethod
    def predictor(self) -> Predictor[Any]: ...

    def training_settings(self) -> dict[str, Any]:
        return dict(epoch_settings(self.request, len(self.train) // self.rows_per_example))

    def callbacks(self) -> Sequence[Callback]:
        if self.config.forgetting is None or self.init is None:
            return ()
        return (ForgettingCallback(self.model, self.init, self.config.forgetting),)

    def batches(self, plan: BatchPlan, epoch: int) -> list[list[int]]:
        return plan.row_batches(self._lengths(self.train), self.config.batch_size, epoch)

    def size(self, index: int) -> tuple[int, int]:
        return (max(len(row.ids) for row in self._rows(self.train, index)),) * 2

    def _rows(self, rows: Sequence[EncodedExample], index: int) -> Sequence[EncodedExample]:
        """The inputs of one example."""
        return rows[index * self.rows_per_example : (index + 1) * self.rows_per_example]

    def _lengths(self, rows: Sequence[EncodedExample]) -> list[int]:
        """The longest input of each example, in tokens."""
        count = len(rows) // self.rows_per_example
        return [max(len(row.ids) for row in self._rows(rows, index)) for index in range(count)]

    def loss(self, indices: Sequence[int]) -> Loss:
        return self._loss(self.train, indices, validation=False)

    def _loss(self, rows: Sequence[EncodedExample], indices: Sequence[int], *, validation: bool) -> Loss:
        device = next(self.model.parameters()).device
        chosen = [row for index in indices for row in self._rows(rows, index)]
        batch = collate(chosen, self.tokenizer.pad_id, device)
        return self.compute_loss(self.logits(batch, indices, validation=validation), indices, validation=validation)

    def logits(self, batch: EncoderBatch, indices: Sequence[int], *, validation: bool) -> Tensor:
        """The model's output for a batch, which holds the examples at `indices`."""
        logits: Tensor = self.model(*batch)
        return logits

    @torch.no_grad()
    def validation_loss(self) -> float:
        batches = length_batches(self._lengths(self.validation))
        losses = [self._loss(self.validation, batch, validation=True) for batch in batches]
        return sum(loss.plain.item() * loss.num_targets for loss in losses) / sum(loss.num_targets for loss in losses)

    def fingerprint(self) -> str:
        train, held_out = (
            self._checksum(rows, validation=rows is self.validation) for rows in (self.train, self.validation)
        )
        return (
            f"{len(self.train):,} rows, checksum {train}; {len(self.validation):,} for validation, checksum {held_out}"
        )

    def _checksum(self, rows: Sequence[EncodedExample], *, validation: bool) -> str:
        """A checksum of inputs, targets and the meaning of the labels."""
        digest = hashlib.sha256(json.dumps(self.head.to_dict()).encode())
        for row in rows:
            digest.update(np.asarray([len(row.ids), row.first, *row.ids], dtype="<i4").tobytes())
        digest.update(self.target_bytes(validation=validation))
        return digest.hexdigest()[:12]

    def describe(self) -> str:
        shape: Any = self.model.config
        layers = f"{shape.num_layers} layers, " if hasattr(shape, "num_layers") else ""
        return (
            f"model: {count_weights(self.model) / 1e6:.2f} M parameters, {layers}d_model {shape.d_model}, "
            f"{self.tokenizer.vocab_size:,} tokens; data: {len(self.train) // self.rows_per_example:,} training and "
            f"{len(self.validation) // self.rows_per_example:,} validation examples"
        )
