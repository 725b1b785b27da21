"""Masked language modeling and next-sentence prediction with BERT: inputs, losses, scores, and forgetting.

A row consists of one or two segments of text with some tokens masked. The second segment either follows the first in
the same document or comes from another document.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.checkpoint.predictors import load_predictor
from regard.data.batches import BatchPlan
from regard.data.corpus import Corpus
from regard.data.documents import Documents, read_documents
from regard.data.pretraining import (
    ALONE,
    NOT_NEXT,
    Bits,
    Masked,
    PaddedRows,
    Rows,
    Vocabulary,
    longest_sentence,
    mask_rows,
    plan_rows,
    row_keys,
    write_rows,
)
from regard.metrics.ngram_baseline import NgramBaseline
from regard.metrics.score import Score
from regard.models.bert.model import BertForPretraining, MLMHead, encoder_of
from regard.nn.init import empty_weights
from regard.nn.loss import linear_cross_entropy
from regard.tasks.encoder.config import ROW_TOKENS
from regard.tokenizers.tokenizer import Tokenizer
from regard.training.callbacks import ExtraMetrics, ExtraScores
from regard.training.pretrained_init import PretrainedInit
from regard.utils.errors import UsageError

EVAL_SEED = 1_000_003  # fixed, so that evaluation rows are the same in every run
BATCH_TOKENS = 1 << 13  # tokens per forward pass, including padding
LOGITS_ROWS = 1 << 12  # masked tokens per chunk of logits, to limit memory
FORGETTING_TOKENS = 100_000  # evaluate on this many last tokens of the --forgetting text
FORGETTING_EVAL_TOKENS = 1 << 14  # tokens of that text per evaluation during training
FORGETTING_METRIC = "masked_word_loss"  # name in metrics.jsonl

Array = npt.NDArray[Any]


class EncodedRows(NamedTuple):
    """Hidden states of a batch of rows, with their targets."""

    hidden: Tensor  # (B, T, D)
    targets: Tensor  # (B · T,) the ids before masking
    nsp_labels: npt.NDArray[np.int64]  # (B,)


@dataclass(frozen=True)
class MaskedDocuments:
    """Documents split into masked rows; the masks of a row depend only on its key."""

    documents: Documents
    tokenizer: Tokenizer
    whole_words: bool = False

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary.of(self.tokenizer)

    def rows(self, rows: Rows, keys: Bits) -> tuple[PaddedRows, Masked]:
        """Return rows before and after masking."""
        special = {name: getattr(self.tokenizer, name) for name in ("start_id", "end_id", "pad_id")}
        table = write_rows(self.documents.ids, rows, **special)
        return table, mask_rows(table.ids, keys, self.vocabulary, whole_words=self.whole_words)


class MLMEvaluator:
    """Evaluates models on a text that is always split and masked in the same way."""

    def __init__(
        self, documents: Documents, tokenizer: Tokenizer, *, window: int, pairs: bool, whole_words: bool = False
    ) -> None:
        self.masked = MaskedDocuments(documents, tokenizer, whole_words)
        pairs = pairs and len(documents) > 1  # negative pairs need a second document
        self.rows = plan_rows(documents, window=window, seed=EVAL_SEED, epoch=0, pairs=pairs)

    def batches(
        self, model: BertForPretraining, *, max_tokens: int | None = None
    ) -> Iterator[tuple[PaddedRows, Masked, EncodedRows]]:
        """Yield rows with the model's hidden states, in batches from short to long, up to `max_tokens` tokens."""
        count = len(self.rows)
        if max_tokens is not None:
            count = max(1, int(np.searchsorted(np.cumsum(self.rows.lengths), max_tokens)))
        lengths = self.rows.lengths[:count]
        for batch in BatchPlan(max_tokens=BATCH_TOKENS, shuffle=False).batches(lengths, 0):  # type: ignore[arg-type]
            numbers = np.array(batch)
            table, masked = self.masked.rows(self.rows[numbers], row_keys(numbers, seed=EVAL_SEED, epoch=0))
            yield table, masked, encode_rows(model, table, masked.ids)

    @torch.no_grad()
    def loss(self, model: BertForPretraining, *, max_tokens: int | None = None, masked_only: bool = False) -> float:
        """Return the mean cross-entropy of all chosen tokens, as in training, or only of those replaced by [MASK]."""
        total, count = 0.0, 0
        for _, masked, encoded in self.batches(model, max_tokens=max_tokens):
            flags = masked.masked if masked_only else masked.chosen
            positions = torch.from_numpy(np.flatnonzero(flags)).to(encoded.hidden.device)
            total += mlm_loss(model, encoded, positions).item() * len(positions)
            count += len(positions)
        return total / max(1, count)

    @torch.no_grad()
    def predict(self, model: BertForPretraining) -> MLMPredictions:
        """Predict the tokens at each [MASK] and whether the second segment of each pair follows the first."""
        targets, previous, predicted, losses, nsp_correct = [], [], [], [], []
        for table, masked, encoded in self.batches(model):
            at = np.flatnonzero(masked.masked)
            positions = torch.from_numpy(at).to(encoded.hidden.device)
            for part in torch.split(positions, LOGITS_ROWS):
                logits = mlm_head(model)(encoded.hidden.flatten(0, 1)[part], model.bert.embedding.weight)
                losses.append(F.cross_entropy(logits, encoded.targets[part], reduction="none").double().cpu().numpy())
                predicted.append(logits.argmax(dim=-1).cpu().numpy())
            targets.append(table.ids.ravel()[at])
            previous.append(table.ids.ravel()[at - 1])  # always exists, because each row starts with [CLS]
            pairs = np.flatnonzero(encoded.nsp_labels != ALONE)
            if model.nsp is not None and len(pairs):
                logits, classes = nsp_logits(model, encoded, pairs)
                nsp_correct.append((logits.argmax(dim=-1) == classes).cpu().numpy())
        found = (targets, previous, predicted, losses, nsp_correct)
        return MLMPredictions(*(np.concatenate(parts) if parts else np.zeros(0) for parts in found))


@dataclass(frozen=True)
class MLMPredictions:
    """Masked tokens with preceding tokens, predictions and losses, and whether each pair was classified correctly."""

    targets: Array
    previous: Array
    predicted: Array
    losses: Array
    nsp_correct: Array

    @property
    def accuracy(self) -> float:
        """Accuracy on masked tokens in %."""
        return 100 * float((self.predicted == self.targets).mean()) if len(self.targets) else 0.0

    @property
    def loss(self) -> float:
        return float(self.losses.mean()) if len(self.targets) else 0.0

    def __add__(self, other: MLMPredictions) -> MLMPredictions:
        names = [item.name for item in fields(self)]
        return MLMPredictions(*(np.concatenate([getattr(self, name), getattr(other, name)]) for name in names))

    def scores(self, unigram: float, bigram: float, *, counted_on: str = "") -> list[Score]:
        """Return the scores and those of unigram and bigram baselines counted on another text."""
        scores = []
        if len(self.targets):
            name, count = "masked words", f"{len(self.targets):,} masked words"
            most_frequent = f"always the most frequent word{counted_on}, {count}"
            after_previous = f"the most frequent word after the previous one{counted_on}, {count}"
            scores = [
                Score(name, self.accuracy, f"accuracy in %, {count}"),
                Score("unigram baseline", unigram, most_frequent, baseline_of=name),
                Score("bigram baseline", bigram, after_previous, baseline_of=name),
                Score("perplexity", math.exp(min(self.loss, 50)), count),
            ]
        if len(self.nsp_correct):
            accuracy, pairs = 100 * float(self.nsp_correct.mean()), f"{len(self.nsp_correct):,} pairs"
            scores.append(Score("next sentence", accuracy, f"accuracy in %, {pairs}; chance: 50"))
        return scores

    def scores_beside(self, baseline: NgramBaseline) -> list[Score]:
        """Return the scores and those of baselines counted on the training text."""
        return self.scores(baseline.unigram(self.targets), baseline.bigram(self.previous, self.targets))


def evaluate_in_halves(
    model: BertForPretraining, documents: Documents, tokenizer: Tokenizer, *, window: int, pairs: bool
) -> list[Score]:
    """Score a model whose training text is unknown; the baselines of each half are counted on the other half."""
    halves = documents.split(fraction=0.5, max_tokens=len(documents.ids))
    predictions: list[MLMPredictions] = []
    correct = np.zeros(2)
    for half, other in (halves, halves[::-1]):
        found = MLMEvaluator(half, tokenizer, window=window, pairs=pairs).predict(model)
        counted = NgramBaseline.fit(other.ids, tokenizer.vocab_size)
        baselines = [counted.unigram(found.targets), counted.bigram(found.previous, found.targets)]
        correct += np.array(baselines) * len(found.targets)
        predictions.append(found)
    whole = predictions[0] + predictions[1]
    unigram, bigram = (correct / max(1, len(whole.targets))).tolist()
    return whole.scores(unigram, bigram, counted_on=" in the other half of the text")


def encode_rows(model: BertForPretraining, table: PaddedRows, ids: npt.NDArray[np.int64]) -> EncodedRows:
    """Compute the hidden states of rows whose masked ids are `ids`."""
    device = model.bert.embedding.weight.device
    tensors = [torch.from_numpy(array).to(device) for array in (ids, table.type_ids, table.lengths, table.ids)]
    # Rows of equal length need no attention mask, and attention is faster without one.
    lengths = tensors[2] if int(table.lengths.min()) < ids.shape[1] else None
    return EncodedRows(model.bert(tensors[0], lengths, tensors[1]), tensors[3].flatten(), table.nsp_labels)


def mlm_loss(model: BertForPretraining, encoded: EncodedRows, positions: Tensor) -> Tensor:
    """Return the cross-entropy at `positions` of the B · T positions; other logits are not computed."""
    if not len(positions):
        return encoded.hidden.sum() * 0
    head = mlm_head(model)
    hidden = head.transform(encoded.hidden.flatten(0, 1)[positions])
    return linear_cross_entropy(hidden, model.bert.embedding.weight, encoded.targets[positions], bias=head.bias)[0]


def nsp_logits(model: BertForPretraining, encoded: EncodedRows, rows: npt.NDArray[np.int64]) -> tuple[Tensor, Tensor]:
    """Return logits (rows, 2) for "follows" and "does not follow", and the target classes."""
    assert model.nsp is not None, "the caller checks this"
    first = encoded.hidden[:, :1][torch.from_numpy(rows).to(encoded.hidden.device)]  # only [CLS] is pooled
    logits: Tensor = model.nsp(model.bert.pool(first))
    classes = torch.from_numpy((encoded.nsp_labels[rows] == NOT_NEXT).astype(np.int64)).to(first.device)
    return logits, classes


def predicts_pairs(model: BertForPretraining) -> bool:
    """Return whether a model has a next-sentence head and at least two token types, one per segment."""
    return model.nsp is not None and model.config.type_vocab_size > 1


def mlm_head(model: Any) -> MLMHead:
    """Return the masked-language-model head of a model; raise UsageError if it has none."""
    head = getattr(model, "mlm", None)
    if not isinstance(head, MLMHead):
        raise UsageError(
            "this model has no masked-language-model head. Train one with `regard train fill`.", argument="head"
        )
    return head


# --- Forgetting ---------------------------------------------------------------------------------------------


class ForgettingCallback(ExtraMetrics):
    """Measures how much masked-token accuracy the encoder of `model` loses while it is fine-tuned.

    It evaluates the encoder with its pretrained masked-language-model head on the text in `path`, with the same masks
    every time: before training, at each evaluation, and at the end.
    """

    def __init__(self, model: Any, init: PretrainedInit, path: Path) -> None:
        super().__init__(self._metrics)
        pretrained = load_predictor(init.folder, task="fill")
        tokenizer, window = pretrained.tokenizer, min(ROW_TOKENS, pretrained.bert.config.context_length)
        documents = read_documents(Corpus.find([path]), tokenizer, longest=longest_sentence(window))
        if len(documents.ids) > FORGETTING_TOKENS:
            fraction = FORGETTING_TOKENS / len(documents.ids)
            documents = documents.split(fraction=fraction, max_tokens=FORGETTING_TOKENS)[1]
        self.text, self.evaluator = path.name, MLMEvaluator(documents, tokenizer, window=window, pairs=False)
        self.before = self.evaluator.predict(pretrained.model)
        if not len(self.before.targets):
            raise UsageError(
                f"--forgetting {path} is too short: it has no masked tokens. Use a longer text.",
                argument="forgetting",
                value=str(path),
                path=str(path),
            )
        encoder = encoder_of(model)
        with empty_weights():
            self.model = BertForPretraining(encoder.config, nsp=False)
        self.model.bert = encoder
        self.model.mlm = mlm_head(pretrained.model).to(encoder.embedding.weight.device)

    def _metrics(self) -> dict[str, float]:
        loss = self.evaluator.loss(self.model, max_tokens=FORGETTING_EVAL_TOKENS, masked_only=True)
        return {FORGETTING_METRIC: loss}

    def on_scores(self) -> ExtraScores:
        before, after = self.before, self.evaluator.predict(self.model)
        note = (
            f"forgetting: {before.accuracy:.1f} % of {len(before.targets):,} masked words in {self.text} were correct "
            f"before training, {after.accuracy:.1f} % after it (loss {before.loss:.3f} and {after.loss:.3f}). To "
            "preserve more, lower --learning-rate or --layer-decay, or use --freeze or --lora."
        )
        return ExtraScores([note], self._scores("before", before) + self._scores("after", after))

    def _scores(self, when: str, predictions: MLMPredictions) -> list[Score]:
        signature = f"{len(predictions.targets):,} words, with the pretrained head"
        return [
            Score(f"masked words {when}", predictions.accuracy, f"accuracy in %, {signature}", on=self.text),
            Score(f"loss of masked words {when}", predictions.loss, signature, on=self.text),
        ]
