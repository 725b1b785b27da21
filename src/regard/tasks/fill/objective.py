"""Plain text → loss: masked language modeling and next-sentence prediction, as in BERT.

A row usually consists of two segments of text, with some tokens masked. The second segment either follows the first in
the same document or comes from another document. The loss is the cross-entropy of the chosen tokens plus that of
next-sentence prediction.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.checkpoint.card import CardData
from regard.checkpoint.predictors import load_predictor
from regard.data.batches import BatchPlan
from regard.data.corpus import Ids
from regard.data.documents import Documents, documents_of, read_documents
from regard.data.pretraining import ALONE, CHOSEN, MaskingStats, Rows, longest_sentence, plan_rows, row_keys
from regard.metrics.ngram_baseline import MAX_COUNTED, NgramBaseline
from regard.metrics.score import Score
from regard.models.bert.model import STD, BertForPretraining
from regard.models.heads import HeadConfig
from regard.nn.hooks import Trace
from regard.nn.init import ppmi_vectors, seeded_init
from regard.nn.positions import sinusoids
from regard.nn.state_dict import load_into, unique_tensors
from regard.tasks.base import describe_model
from regard.tasks.corpus import MAX_VALIDATION_TOKENS, CorpusSplits
from regard.tasks.encoder.config import FREE, ROW_TOKENS
from regard.tasks.encoder.mlm_eval import (
    EncodedRows,
    ForgettingCallback,
    MaskedDocuments,
    MLMEvaluator,
    encode_rows,
    mlm_head,
    mlm_loss,
    nsp_logits,
    predicts_pairs,
)
from regard.tasks.fill.predictor import MaskFiller
from regard.tasks.fill.spec import FillTraining
from regard.tokenizers.tokenizer import BERT_SPECIAL_TOKENS, Tokenizer
from regard.training.callbacks import Callback
from regard.training.objective import Loss, Objective, Sample, SampleNames
from regard.training.pretrained_init import PretrainedInit, refuse_contradictions
from regard.training.run import TrainRequest
from regard.utils.errors import UsageError

EVAL_TOKENS = 1 << 15  # validation tokens of each evaluation during training
NUM_SAMPLES = 6  # validation sentences in the report
POSITION_SCALE = 0.3  # of initial position embeddings; token embeddings reach this size within some dozens of steps
TOKEN_SCALE = 0.2  # of initial token embeddings; much smaller ones would have no effect beside the position embeddings
POSITION_LR = 0.02  # learning-rate factor of position and token type embeddings
ROW_BITS, EPOCH_BITS = 32, 32  # bits of a row index for the row number and the epoch; the seed uses the bits above them


class FillObjective(Objective):
    """Learn to predict masked tokens, and whether the second segment follows the first."""

    loss_unit = "masked tokens"
    reports_perplexity = True
    sample_names = SampleNames("Text", "Masked token", "Most probable tokens", comparable=False)

    model: BertForPretraining

    @classmethod
    def prepare(cls, splits: CorpusSplits, request: TrainRequest) -> Self:
        config, init = request.config, None
        assert isinstance(config, FillTraining), "the train_config of this task"
        pretrained: Any = None
        if request.folder is not None:
            pretrained = load_predictor(request.folder, task=request.spec.name)
            refuse_contradictions(request.given_model, pretrained.model.config, name=str(request.pretrained), free=FREE)
        shape: Any = pretrained.model.config if pretrained else request.model_config(vocab_size=1)
        window = _window(config, shape.context_length, pretrained=pretrained is not None)
        tokenizer = pretrained.tokenizer if pretrained else _train_tokenizer(splits, config)
        train, validation = _documents(splits, tokenizer, longest_sentence(window), config.val_fraction)
        next_sentence = config.next_sentence and (pretrained is None or predicts_pairs(pretrained.model))
        notes = [*splits.notes]
        if next_sentence and (reason := _no_pairs(train)):
            notes.append(f"next sentence: not trained, because {reason}; a blank line or a heading starts a document")
            next_sentence = False
        head = HeadConfig(kind="pretraining" if next_sentence else "mlm")
        if request.folder is None:
            shape = request.model_config(vocab_size=tokenizer.vocab_size)
            model = seeded_init(lambda: request.architecture.build(shape, head), seed=config.seed)
            initialize(model, train.ids)
        else:
            changes = {name: value for name, value in request.given_model.items() if name in FREE}
            model = _adjusted(pretrained.model, changes, nsp=next_sentence)
            init = PretrainedInit.of(str(request.pretrained), request.folder, model, lora=None, seed=config.seed)
            notes.append(init.note(model))
        predict = request.predict_config(pretrained.config if pretrained else None)
        filler = MaskFiller(model, tokenizer, head=head, config=predict)
        sources = splits.sources_of(len(train.ids), len(validation.ids))
        return cls(filler, config, train, validation, window=window, init=init, notes=notes, sources=sources)

    def __init__(
        self,
        filler: MaskFiller,
        config: FillTraining,
        train: Documents,
        validation: Documents,
        *,
        window: int,
        init: PretrainedInit | None = None,
        notes: Sequence[str] = (),
        sources: Sequence[CardData] = (),
    ) -> None:
        self.model, self.tokenizer, self.config = filler.model, filler.tokenizer, config
        self.train, self.validation, self.window = train, validation, window
        self.init, self.notes, self.sources = init, notes, sources
        # Every step updates all positions and token types. At the learning rate of tokens, the sinusoids would be lost
        # before attention has learned to use them, and the model would predict frequent words for a long time.
        tables = self.model.bert.embedding.positions, self.model.bert.embedding.token_types
        self.lr_multipliers = {} if init else {table.weight: POSITION_LR for table in tables}
        pairs, whole_words = self.model.nsp is not None, config.whole_words
        self.evaluator = MLMEvaluator(validation, self.tokenizer, window=window, pairs=pairs, whole_words=whole_words)
        num_tokens = min(EVAL_TOKENS, int(self.evaluator.rows.lengths.sum()))
        self.num_validation_targets = round(CHOSEN * num_tokens)  # expected number
        self.masked = MaskedDocuments(train, self.tokenizer, whole_words)
        self.stats = MaskingStats()  # masking counts since this process started
        self._filler = filler
        self._stats_lock = threading.Lock()
        self._plans: dict[tuple[int, int], Rows] = {}  # rows of the last two epochs, keyed by (seed, epoch)

    # --- training -------------------------------------------------------------------------------------------

    def batches(self, plan: BatchPlan, epoch: int) -> list[list[int]]:
        rows = self._plan(plan.seed, epoch)
        return [
            [row_index(plan.seed, epoch, number) for number in batch]
            for batch in plan.batches(rows.lengths, epoch)  # type: ignore[arg-type]
        ]

    def size(self, index: int) -> tuple[int, int]:
        seed, epoch, number = split_index(index)
        rows = self._plan(seed, epoch)
        return int(np.diff(rows.first[number])[0] + np.diff(rows.second[number])[0]), 0

    def loss(self, indices: Sequence[int]) -> Loss:
        parts, keys = [], []
        for (seed, epoch), numbers in _by_epoch(indices):
            parts.append(self._plan(seed, epoch)[numbers])
            keys.append(row_keys(numbers, seed=seed, epoch=epoch))
        table, masked = self.masked.rows(Rows.concatenate(parts), np.concatenate(keys))
        with self._stats_lock:
            self.stats.add(MaskingStats.count(table.ids, masked, self.masked.vocabulary, table.nsp_labels))
        encoded = encode_rows(self.model, table, masked.ids)
        positions = torch.from_numpy(np.flatnonzero(masked.chosen)).to(encoded.hidden.device)
        tokens = mlm_loss(self.model, encoded, positions)
        sentences = self._nsp_loss(encoded)
        return Loss(tokens if sentences is None else tokens + sentences, tokens.detach(), max(1, len(positions)))

    def _nsp_loss(self, encoded: EncodedRows) -> Tensor | None:
        pairs = np.flatnonzero(encoded.nsp_labels != ALONE)
        if self.model.nsp is None or not len(pairs):
            return None
        return F.cross_entropy(*nsp_logits(self.model, encoded, pairs))

    def _plan(self, seed: int, epoch: int) -> Rows:
        """Return the rows of an epoch."""
        rows = self._plans.get((seed, epoch))
        if rows is None:
            pairs = self.model.nsp is not None
            rows = plan_rows(self.train, window=self.window, seed=seed, epoch=epoch, pairs=pairs)
            self._plans = {**dict([*self._plans.items()][-1:]), (seed, epoch): rows}
        return rows

    def callbacks(self) -> Sequence[Callback]:
        path = self.config.forgetting
        return [] if path is None or self.init is None else [ForgettingCallback(self.model, self.init, path)]

    # --- validation -----------------------------------------------------------------------------------------

    def validation_loss(self) -> float:
        return self.evaluator.loss(self.model, max_tokens=EVAL_TOKENS)

    @property
    def scored_on(self) -> str:
        return f"validation, {len(self.validation.ids):,} tokens"

    def evaluate(self) -> tuple[list[Score], list[Sample]]:
        baseline = NgramBaseline.fit(self.train.ids, self.tokenizer.vocab_size)
        scores = self.evaluator.predict(self.model).scores_beside(baseline)
        if self.stats.tokens:
            chosen = 100 * self.stats.chosen / self.stats.tokens
            counted = f"in %, counted since the training process started: {self.stats}"
            scores.append(Score("masked tokens chosen", chosen, counted))
        return scores, self._samples()

    def _samples(self) -> list[Sample]:
        """Return validation sentences with one token masked, and the most probable tokens at that position."""
        filler, documents = self.predictor(), self.validation
        samples = []
        for number in np.linspace(0, documents.num_sentences - 1, NUM_SAMPLES).astype(int).tolist():
            ids = documents.ids[documents.sentences[number] : documents.sentences[number + 1]].tolist()
            ordinary = [place for place, id_ in enumerate(ids) if self.masked.vocabulary.is_ordinary[id_]]
            if not ordinary:
                continue
            place = ordinary[len(ordinary) // 2]
            parts = ids[:place], [ids[place]], ids[place + 1 :]
            before, token, after = map(self.tokenizer.decode, parts)
            text = f"{before} {filler.mask} {after}".strip()
            [best] = filler(text, top=5, all=False).masks
            samples.append(Sample(text, token, ", ".join(f"{item.token} {item.score:.0%}" for item in best)))
        return samples

    def traces(self, samples: Sequence[Sample]) -> list[tuple[str, Trace]]:
        return [(sample.source[:80], self.predictor().trace(sample.source)) for sample in samples[:1]]

    def predictor(self) -> MaskFiller:
        self.model.eval()
        return self._filler

    def describe(self) -> str:
        train, model = self.train, describe_model(self.model, self.tokenizer.vocab_size)
        return (
            f"model: {model}; data: {train.words:,} words, {len(train.ids):,} tokens in {train.num_sentences:,} "
            f"sentences of {len(train):,} documents for training, {len(self.validation.ids):,} tokens for validation"
        )

    def fingerprint(self) -> str:
        ids = self.train.ids
        digest = hashlib.sha256(ids[: 1 << 20].tobytes() + ids[-(1 << 20) :].tobytes())
        return f"{len(ids):,} tokens in {len(self.train):,} documents, checksum {digest.hexdigest()[:12]}"


# --- Indices of rows ----------------------------------------------------------------------------------------


def row_index(seed: int, epoch: int, number: int) -> int:
    """Return the index of a row, which encodes seed, epoch and row number, and so determines how the row is masked."""
    return (seed << EPOCH_BITS | epoch) << ROW_BITS | number


def split_index(index: int) -> tuple[int, int, int]:
    """Return the seed, epoch and row number that an index encodes."""
    key, number = index >> ROW_BITS, index & ((1 << ROW_BITS) - 1)
    return key >> EPOCH_BITS, key & ((1 << EPOCH_BITS) - 1), number


def _by_epoch(indices: Sequence[int]) -> Iterator[tuple[tuple[int, int], Any]]:
    """Group row indices: yield each (seed, epoch) with its row numbers."""
    groups: dict[tuple[int, int], list[int]] = {}
    for index in indices:
        seed, epoch, number = split_index(index)
        groups.setdefault((seed, epoch), []).append(number)
    for key, numbers in groups.items():
        yield key, np.asarray(numbers, dtype=np.int64)


# --- Models -------------------------------------------------------------------------------------------------


@torch.no_grad()
def initialize(model: BertForPretraining, ids: Ids | None = None) -> None:
    """Initialize position and token embeddings with structure that would otherwise have to be learned.

    Positions start as sinusoids, in which moving to the next position is the same rotation everywhere; with random
    vectors, the model would have to learn which positions are adjacent. If `ids` (a text) are given, the output bias
    starts at the log frequency of each token, and tokens with similar neighbors start with similar vectors.
    """
    config = model.config
    if config.d_model % 2 == 0:
        waves = sinusoids(config.context_length, config.d_model)
        model.bert.embedding.positions.weight.copy_(POSITION_SCALE * waves)
    if ids is None:
        return
    text, head = np.asarray(ids[:MAX_COUNTED]), mlm_head(model)
    frequencies = torch.from_numpy(np.log(np.bincount(text, minlength=config.vocab_size) + 1))
    head.bias.copy_(frequencies - frequencies.mean())
    vectors = ppmi_vectors(text, config.vocab_size, config.d_model)
    model.bert.embedding.weight.add_(TOKEN_SCALE * config.d_model**0.5 * vectors)
    # The values of the embedding table are larger now; scale the head's norm so that logits start as small as before.
    for parameter in head.norm.parameters():
        parameter.mul_(STD / TOKEN_SCALE)


def _adjusted(model: BertForPretraining, changes: Mapping[str, Any], *, nsp: bool) -> BertForPretraining:
    """Return the pretrained model with changed dropout; without `nsp`, also without next-sentence head and pooler."""
    if not changes and nsp == (model.nsp is not None):
        return model
    adjusted = BertForPretraining(model.config.replace(**changes), nsp=nsp)
    names = unique_tensors(adjusted)
    load_into(adjusted, {name: tensor for name, tensor in unique_tensors(model).items() if name in names})
    return adjusted


def _window(config: FillTraining, context_length: int, *, pretrained: bool) -> int:
    """Return the maximum number of tokens in a training row."""
    window = config.window or (min(context_length, ROW_TOKENS) if pretrained else context_length)
    if window > context_length:
        raise UsageError(
            f"--window {window} exceeds the model's context length, {context_length}. Use at most {context_length}"
            f"{'' if pretrained else ', or raise --context-length'}.",
            argument="window",
            value=window,
        )
    return window


def _train_tokenizer(splits: CorpusSplits, config: FillTraining) -> Tokenizer:
    settings = {"vocab_size": config.vocab_size, "lowercase": config.lowercase}
    key = {"tokenizer": "wordpiece", **settings}
    return splits.train_tokenizer(splits.train, key, kind="wordpiece", special_tokens=BERT_SPECIAL_TOKENS, **settings)


def _documents(
    splits: CorpusSplits, tokenizer: Tokenizer, longest: int, val_fraction: float
) -> tuple[Documents, Documents]:
    """Return training and validation documents, split into sentences of at most `longest` tokens."""
    if splits.corpus is None:
        found = documents_of(splits.train, tokenizer, longest=longest)
    else:
        found = read_documents(splits.corpus, tokenizer, longest=longest)
    if splits.validation_corpus is not None:
        return found, read_documents(splits.validation_corpus, tokenizer, longest=longest)
    return found.split(fraction=val_fraction, max_tokens=MAX_VALIDATION_TOKENS)


def _no_pairs(documents: Documents) -> str:
    """Return the reason why next-sentence prediction cannot be trained on these documents, or "" if it can."""
    if len(documents) < 2:
        return "the text is one document, but negative pairs need a second document"
    if documents.num_sentences == len(documents):
        return "every document is a single sentence"
    return ""
