"""Sentence pairs → loss: the cross-entropy of each next target token.

The source ends with the end token; the target starts with the start token and ends with the end token.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from itertools import compress
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from regard.data.batches import BatchPlan
from regard.data.pairs import Pair
from regard.generation.config import SearchConfig
from regard.metrics.score import Score
from regard.nn import masks
from regard.nn.hooks import Trace
from regard.nn.init import seeded_init
from regard.nn.layers import generator
from regard.nn.loss import linear_cross_entropy
from regard.nn.masks import pad
from regard.tasks.base import Splits, describe_model
from regard.tasks.translate.predictor import TokenizerPair, Translator
from regard.tasks.translate.spec import TranslateTraining
from regard.tokenizers.bpe_dropout import BPEDropout
from regard.training.objective import Loss, Objective, Sample
from regard.training.run import TrainRequest
from regard.utils.errors import DataError, UsageError, number_of

NUM_SCORED = 500  # validation pairs for the scores at the end
NUM_SAMPLES = 20  # scored pairs that the report shows
VALIDATION_TOKENS = 8192  # tokens per batch in validation


class Batch(NamedTuple):
    """Pairs as tensors, padded at the end of the rows."""

    source: Tensor  # (B, S)
    source_lengths: Tensor  # (B,)
    target: Tensor  # (B, T): decoder input, start token first
    next: Tensor  # (num_targets,): target ids of the real positions
    real: Tensor  # (num_targets,): indices of the real positions in B · T


def make_batch(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], tokenizers: TokenizerPair) -> Batch:
    """Add special tokens to the ids of pairs, pad them and return tensors."""
    source, source_lengths = pad([[*ids, tokenizers.source.end_id] for ids in sources], tokenizers.source.pad_id)
    start, end, pad_id = tokenizers.target.start_id, tokenizers.target.end_id, tokenizers.target.pad_id
    target, lengths = pad([[start, *ids] for ids in targets], pad_id)
    following, _ = pad([[*ids, end] for ids in targets], pad_id)
    real = (torch.arange(target.shape[1]) < lengths[:, None]).flatten().nonzero().squeeze(-1)
    return Batch(source, source_lengths, target, following.flatten()[real], real)


class _RandomSegmentation:
    """Training pairs with BPE dropout. Batch sizes are computed from token counts without dropout."""

    def __init__(self, pairs: Sequence[Pair], tokenizers: TokenizerPair, config: TranslateTraining) -> None:
        self.max_seq_len = config.max_seq_len
        self.source = BPEDropout(tokenizers.source, config.bpe_dropout)
        self.target = self.source if tokenizers.joint else BPEDropout(tokenizers.target, config.bpe_dropout)
        self._words = [(tokenizers.source.words(pair.source), tokenizers.target.words(pair.target)) for pair in pairs]

    def draw(self, index: int) -> tuple[list[int], list[int]] | None:
        """Return randomly segmented ids of both sides of a pair; None if a side is too long."""
        source_words, target_words = self._words[index]
        source, target = self.source.draw(source_words, generator()), self.target.draw(target_words, generator())
        return (source, target) if max(len(source), len(target)) < self.max_seq_len else None


class TranslateObjective(Objective):
    """Learn to translate: a model with its training and validation pairs."""

    loss_unit = "target tokens"
    reports_perplexity = True

    model: Any

    @classmethod
    def prepare(cls, splits: Splits[Pair], request: TrainRequest) -> Self:
        config, search = request.config, request.predict_config()
        assert isinstance(config, TranslateTraining), "the task's train_config"
        assert isinstance(search, SearchConfig), "the task's predict_config"
        tokenizers = TokenizerPair.train(splits.train, config)
        shape = request.model_config(**tokenizers.model_settings())
        model = seeded_init(lambda: request.architecture.build(shape), seed=config.seed)
        return cls(model, tokenizers, splits, config, search)

    def __init__(
        self,
        model: Any,
        tokenizers: TokenizerPair,
        splits: Splits[Pair],
        config: TranslateTraining,
        search: SearchConfig | None = None,
    ) -> None:
        self.model, self.tokenizers, self.config = model, tokenizers, config
        self._predictor = Translator(model, tokenizers, config=search)
        learned = getattr(model.config, "positions", None) == "learned"
        positions = model.config.max_positions if learned else 0
        if positions and config.max_seq_len > positions:
            raise UsageError(
                f"--max-seq-len {config.max_seq_len} exceeds the {positions} learned positions. Lower it, or raise "
                "--max-positions.",
                argument="max_seq_len",
                value=config.max_seq_len,
            )
        self._sources, self._targets, train = self._encode(splits.train, "training")
        self._random = _RandomSegmentation(train, tokenizers, config) if config.bpe_dropout else None
        self._val_sources, self._val_targets, self.validation = self._encode(splits.validation, "validation")
        self.num_validation_targets = sum(len(ids) + 1 for ids in self._val_targets)
        dropped = {
            "training": len(splits.train) - len(train),
            "validation": len(splits.validation) - len(self.validation),
        }
        too_long = f"longer than --max-seq-len {config.max_seq_len}"
        left_out = [f"left out: {number_of(n, f'{role} pair')} {too_long}" for role, n in dropped.items() if n]
        self.notes = (*splits.notes, *left_out)

    def _encode(self, pairs: Sequence[Pair], role: str) -> tuple[list[list[int]], list[list[int]], list[Pair]]:
        """Return source ids, target ids and pairs, without pairs that are too long."""
        sources = self.tokenizers.source.encode_batch([pair.source for pair in pairs])
        targets = self.tokenizers.target.encode_batch([pair.target for pair in pairs])
        limit = self.config.max_seq_len
        short = [max(len(source), len(target)) < limit for source, target in zip(sources, targets, strict=True)]
        if not any(short):
            raise DataError(f"every {role} pair is longer than {limit} tokens. Raise --max-seq-len.")
        return list(compress(sources, short)), list(compress(targets, short)), list(compress(pairs, short))

    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for ids in (*self._sources, *self._targets):
            digest.update(array("i", [len(ids), *ids]).tobytes())
        return f"{len(self._sources):,} pairs, checksum {digest.hexdigest()[:12]}"

    def lengths(self) -> list[tuple[int, int]]:
        return [self.size(index) for index in range(len(self._sources))]

    def size(self, index: int) -> tuple[int, int]:
        return len(self._sources[index]) + 1, len(self._targets[index]) + 1

    def batches(self, plan: BatchPlan, epoch: int) -> list[list[int]]:
        return plan.batches(self.lengths(), epoch)

    def loss(self, indices: Sequence[int]) -> Loss:
        rows = [(self._sources[index], self._targets[index]) for index in indices]
        if self._random and self.model.training:
            rows = [self._random.draw(index) or usual for index, usual in zip(indices, rows, strict=True)]
        batch = make_batch([source for source, _ in rows], [target for _, target in rows], self.tokenizers)
        if self.config.word_dropout and self.model.training:
            batch = batch._replace(target=self._hide_words(batch.target))
        return self._loss(batch, self.config.label_smoothing)

    def _hide_words(self, target: Tensor) -> Tensor:
        """Replace random decoder inputs, except the start token, with the unknown token."""
        hidden = torch.rand(target.shape, generator=generator()) < self.config.word_dropout
        hidden[:, 0] = False
        tokenizer = self.tokenizers.target
        unknown_id = tokenizer.pad_id if tokenizer.unknown_id is None else tokenizer.unknown_id
        return target.masked_fill(hidden, unknown_id)

    def _loss(self, batch: Batch, smoothing: float) -> Loss:
        device = self.model.output_weight.device
        batch = Batch(*(tensor.to(device) for tensor in batch))
        mask = masks.lengths(batch.source_lengths)
        memory = self.model.encode(batch.source, mask)  # (B, S, D)
        hidden = self.model.decode(batch.target, memory, mask).flatten(0, 1)[batch.real]  # (num_targets, D)
        smooth, plain = linear_cross_entropy(
            hidden, self.model.output_weight, batch.next, bias=self.model.output_bias, smoothing=smoothing
        )
        return Loss(smooth, plain, len(batch.next))

    @torch.no_grad()
    def validation_loss(self) -> float:
        total, num_targets = 0.0, 0
        lengths = [(len(s) + 1, len(t) + 1) for s, t in zip(self._val_sources, self._val_targets, strict=True)]
        for rows in BatchPlan(max_tokens=VALIDATION_TOKENS, shuffle=False).batches(lengths, 0):
            sources, targets = [self._val_sources[i] for i in rows], [self._val_targets[i] for i in rows]
            loss = self._loss(make_batch(sources, targets, self.tokenizers), 0.0)
            total, num_targets = total + float(loss.plain) * loss.num_targets, num_targets + loss.num_targets
        return total / max(num_targets, 1)

    def predictor(self) -> Translator:
        self.model.eval()
        return self._predictor

    @property
    def scored_on(self) -> str:
        count = len(self.validation)
        return "validation" if count <= NUM_SCORED else f"validation, the first {NUM_SCORED:,} of {count:,} pairs"

    def evaluate(self) -> tuple[list[Score], list[Sample]]:
        pairs, translator = self.validation[:NUM_SCORED], self.predictor()
        outputs = [result.text for result in translator.predict([pair.source for pair in pairs])]
        samples = [Sample(p.source, p.target, output) for p, output in zip(pairs[:NUM_SAMPLES], outputs, strict=False)]
        return translator.score(outputs, pairs), samples

    def traces(self, samples: Sequence[Sample]) -> list[tuple[str, Trace]]:
        return [(sample.source, self.predictor().trace(sample.source)) for sample in samples[:2] if sample.output]

    def describe(self) -> str:
        data = f"{len(self._sources):,} training and {len(self.validation):,} validation pairs"
        return f"model: {describe_model(self.model, self.tokenizers.target.vocab_size)}; data: {data}"
