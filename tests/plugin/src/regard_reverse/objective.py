"""Texts and their reverse → loss."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.batches import BatchPlan
from regard.metrics.score import Score
from regard.nn.init import seeded_init
from regard.nn.masks import pad
from regard.tasks.base import Splits
from regard.tokenizers.tokenizer import Tokenizer
from regard.tokenizers.training import train_tokenizer
from regard.training.objective import Loss, Objective, Sample
from regard.training.run import TrainRequest
from regard_reverse.predictor import Reverser, decoder_ids, encoder_ids


def truncate(splits: Splits[str], max_seq_len: int) -> Splits[str]:
    """Texts of at most `max_seq_len` characters, with a note if some were longer."""
    num_longer = sum(len(text) > max_seq_len for text in (*splits.train, *splits.validation))
    train, validation = ([text[:max_seq_len] for text in texts] for texts in (splits.train, splits.validation))
    notes = (f"length: {num_longer} texts were truncated to --max-seq-len {max_seq_len}",) if num_longer else ()
    return replace(splits, train=train, validation=validation, notes=(*splits.notes, *notes))


class ReverseObjective(Objective):
    """Learn to write texts backwards."""

    loss_unit = "characters"
    reports_perplexity = True

    @classmethod
    def prepare(cls, splits: Splits[str], request: TrainRequest) -> Self:
        splits = truncate(splits, request.config.max_seq_len)
        tokenizer = train_tokenizer(splits.train, kind="char", vocab_size=1000)
        config = request.model_config(vocab_size=tokenizer.vocab_size)
        model = seeded_init(lambda: request.architecture.build(config), seed=request.config.seed)
        return cls(model, tokenizer, splits, request)

    def __init__(self, model: nn.Module, tokenizer: Tokenizer, splits: Splits[str], request: TrainRequest) -> None:
        self.model, self.tokenizer, self.splits = model, tokenizer, splits
        self.config, self.notes = request.predict_config(), splits.notes
        self.num_validation_targets = sum(len(text) + 1 for text in splits.validation)

    def batches(self, plan: BatchPlan, epoch: int) -> Sequence[Sequence[int]]:
        return plan.batches([self.size(index) for index in range(len(self.splits.train))], epoch)

    def size(self, index: int) -> tuple[int, int]:
        return (len(self.splits.train[index]) + 1,) * 2

    def loss(self, indices: Sequence[int]) -> Loss:
        loss, count = self._loss([self.splits.train[index] for index in indices])
        return Loss(loss, loss.detach(), count)

    def _loss(self, texts: Sequence[str]) -> tuple[Tensor, int]:
        pad_id = self.tokenizer.pad_id
        source, _ = pad([encoder_ids(self.tokenizer, text) for text in texts], pad_id)
        target, _ = pad([decoder_ids(self.tokenizer, text[::-1]) for text in texts], pad_id)
        logits = self.model(source, target[:, :-1], attention_mask=source != pad_id)  # (B, T, V)
        loss = F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=pad_id)
        return loss, int((target[:, 1:] != pad_id).sum())

    @torch.no_grad()
    def validation_loss(self) -> float:
        return float(self._loss(self.splits.validation)[0])

    @property
    def scored_on(self) -> str:
        return f"validation, {len(self.splits.validation)} texts"

    def evaluate(self) -> tuple[list[Score], list[Sample]]:
        texts = list(self.splits.validation)
        results = self.predictor().predict(texts)
        samples = [Sample(text, text[::-1], result.text) for text, result in zip(texts, results, strict=True)]
        return list(self.predictor().evaluate(texts)), samples[:8]

    def traces(self, samples: Sequence[Sample]) -> list[tuple[str, Any]]:
        return [(samples[0].source, self.predictor().trace(samples[0].source))]

    def predictor(self) -> Reverser:
        return Reverser(self.model, self.tokenizer, self.config)

    def describe(self) -> str:
        return f"data: {len(self.splits.train)} training and {len(self.splits.validation)} validation texts"

    def fingerprint(self) -> str:
        return hashlib.sha256("\n".join(self.splits.train).encode()).hexdigest()[:12]
