"""Plain text → loss: the cross-entropy of each next token, in windows of the text."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.checkpoint.card import CardData
from regard.checkpoint.predictors import load_predictor
from regard.data.batches import BatchPlan
from regard.data.corpus import Ids, WindowBatches, corpus_ids, split_ids, window_starts
from regard.metrics.score import Score
from regard.nn.hooks import Trace
from regard.nn.init import seeded_init
from regard.nn.loss import linear_cross_entropy
from regard.nn.state_dict import load_into, unique_tensors
from regard.tasks.base import describe_model
from regard.tasks.corpus import MAX_VALIDATION_TOKENS, CorpusSplits
from regard.tasks.generate.predictor import TextGenerator
from regard.tasks.generate.spec import GenerateTraining
from regard.tokenizers.tokenizer import Tokenizer
from regard.training.objective import Loss, Objective, Sample, SampleNames
from regard.training.pretrained_init import PretrainedInit, refuse_contradictions
from regard.training.run import TrainRequest
from regard.utils.errors import DataError, UsageError

TOKENIZERS = {"char": "char", "bpe": "byte-bpe"}  # value of --tokenizer → kind of tokenizer
MAX_CHARACTERS = 1 << 16  # maximum vocabulary size of a character tokenizer
MAX_WINDOW = 1024  # maximum default --window with --from: the context length may exceed the batch size
VALIDATION_TOKENS = 1 << 13  # tokens per batch in validation
EVAL_TOKENS = 1 << 15  # validation tokens of each evaluation during training
COUNTED_TOKENS = 1 << 20  # tokens whose bytes are counted at a time
NUM_SAMPLES = 4  # continuations in the report
FREE = ("dropout",)  # settings of a pretrained model that training may change


class GenerateObjective(Objective):
    """Learn to predict the next token of a text."""

    reports_perplexity = True
    sample_names = SampleNames("Prompt", "Text", "Generated", comparable=False)

    model: Any

    @classmethod
    def prepare(cls, splits: CorpusSplits, request: TrainRequest) -> Self:
        config, init = request.config, None
        assert isinstance(config, GenerateTraining), "the task's train_config"
        pretrained: Any = None
        window = config.window
        if request.folder is not None:
            pretrained = load_predictor(request.folder, task=request.spec.name)
            model, tokenizer = _adjusted(pretrained.model, request), pretrained.tokenizer
            window = window or min(pretrained.context_length, MAX_WINDOW)
        else:
            tokenizer = _train_tokenizer(splits, config)
            shape = request.model_config(vocab_size=tokenizer.vocab_size)
            model = seeded_init(lambda: request.architecture.build(shape), seed=config.seed)
        train, validation = _ids(splits, tokenizer, config.val_fraction)
        notes = [*splits.notes]
        if len(validation) > MAX_VALIDATION_TOKENS:
            notes.append(f"validation: the first {MAX_VALIDATION_TOKENS:,} of {len(validation):,} tokens, to save time")
            validation = validation[:MAX_VALIDATION_TOKENS]
        if request.folder is not None:
            name, lora = str(request.pretrained), request.lora
            init = PretrainedInit.of(name, request.folder, model, lora=lora, seed=config.seed)
            notes.append(init.note(model))
        predict = request.predict_config(pretrained.config if pretrained else None)
        sources = splits.sources_of(len(train), len(validation))
        generator = TextGenerator(model, tokenizer, config=predict)
        return cls(generator, train, validation, window=window, init=init, notes=notes, sources=sources)

    def __init__(
        self,
        generator: TextGenerator,
        train: Ids,
        validation: Ids,
        *,
        window: int | None = None,
        init: PretrainedInit | None = None,
        notes: Sequence[str] = (),
        sources: Sequence[CardData] = (),
    ) -> None:
        self.model, self.tokenizer, self._predictor = generator.model, generator.tokenizer, generator
        self.train, self.validation = train, validation
        self.init, self.notes, self.sources = init, notes, sources
        self.window = window or generator.context_length
        if self.window > generator.context_length:
            raise UsageError(
                f"--window {self.window} exceeds the model's context length, {generator.context_length}. Use at most "
                f"{generator.context_length}{'' if init else ', or raise --context-length'}.",
                argument="window",
                value=self.window,
            )
        for ids, role in ((train, "training"), (validation, "validation")):
            if len(ids) <= self.window:
                setting = "context_length" if window is None else "window"
                raise DataError(
                    f"the {role} text has {len(ids):,} tokens, but a {setting} of {self.window} needs at least "
                    f"{self.window + 1:,}. Use a longer text or a smaller --{setting.replace('_', '-')}.",
                    argument=setting,
                    value=self.window,
                )
        self.num_validation_targets = len(self._starts(validation, EVAL_TOKENS)) * self.window

    def fingerprint(self) -> str:
        digest = hashlib.sha256(self.train[: 1 << 20].tobytes() + self.train[-(1 << 20) :].tobytes())
        return f"{len(self.train):,} tokens, checksum {digest.hexdigest()[:12]}"

    def batches(self, plan: BatchPlan, epoch: int) -> WindowBatches:
        starts = window_starts(len(self.train), context=self.window, seed=plan.seed, epoch=epoch)
        rows = max(1, plan.max_tokens // self.window)
        return WindowBatches(starts, rows, rank=plan.rank, world_size=plan.world_size)

    def size(self, index: int) -> tuple[int, int]:
        return self.window, self.window

    def loss(self, indices: Sequence[int]) -> Loss:
        loss = self._loss(*self._windows(self.train, indices))
        return Loss(loss, loss.detach(), len(indices) * self.window)

    def _windows(self, ids: Ids, starts: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return inputs and targets, each (B, T)."""
        rows = np.stack([ids[start : start + self.window + 1] for start in starts]).astype(np.int64)
        both = torch.from_numpy(rows).to(self.model.output_weight.device)
        return both[:, :-1], both[:, 1:]

    def _loss(self, ids: Tensor, targets: Tensor) -> Tensor:
        hidden = self.model.decode(ids).flatten(0, 1)  # (B · T, D)
        if self.model.config.logit_softcap is not None:
            return F.cross_entropy(self.model.logits(hidden), targets.flatten())
        return linear_cross_entropy(hidden, self.model.output_weight, targets.flatten(), smoothing=0.0)[0]

    def validation_loss(self) -> float:
        return self.text_loss(self.validation, max_tokens=EVAL_TOKENS)

    @torch.no_grad()
    def text_loss(self, ids: Ids, *, max_tokens: int | None = None) -> float:
        """Mean cross-entropy over windows without overlap; with `max_tokens`, over evenly spaced windows."""
        starts = self._starts(ids, max_tokens)
        rows = max(1, VALIDATION_TOKENS // self.window)
        total = 0.0
        for first in range(0, len(starts), rows):
            part = starts[first : first + rows]
            total += self._loss(*self._windows(ids, part)).item() * len(part)
        return total / len(starts)

    def _starts(self, ids: Ids, max_tokens: int | None) -> range:
        starts = range(0, len(ids) - self.window, self.window)
        return starts if max_tokens is None else starts[:: max(1, -(-len(starts) * self.window // max_tokens))]

    def predictor(self) -> TextGenerator:
        self.model.eval()
        return self._predictor

    @property
    def scored_on(self) -> str:
        return f"validation, {len(self.validation):,} tokens"

    def evaluate(self) -> tuple[list[Score], list[Sample]]:
        loss = self.text_loss(self.validation)
        tokens_per_byte = len(self.validation) / max(1, self._num_bytes(self.validation))
        scores = [
            Score("perplexity", math.exp(min(loss, 50)), f"per token, windows of {self.window}"),
            Score("bits per byte", loss / math.log(2) * tokens_per_byte, f"windows of {self.window}"),
        ]
        return scores, self._samples()

    def _num_bytes(self, ids: Ids) -> int:
        """Return the number of UTF-8 bytes that ids decode to; they are decoded in chunks to save memory."""
        parts = (ids[start : start + COUNTED_TOKENS].tolist() for start in range(0, len(ids), COUNTED_TOKENS))
        return sum(len(self.tokenizer.decode(part).encode("utf-8")) for part in parts)

    def _samples(self) -> list[Sample]:
        """Return continuations of prompts from the validation text."""
        half = self.window // 2
        places = [round(i * (len(self.validation) - self.window) / NUM_SAMPLES) for i in range(NUM_SAMPLES)]
        prompts = [self.tokenizer.decode(self.validation[p : p + half].tolist()) for p in places]
        texts = [self.tokenizer.decode(self.validation[p + half : p + self.window].tolist()) for p in places]
        results = self.predictor()(prompts, max_new_tokens=max(1, half), seed=0)
        return [Sample(p, text, result.text) for p, text, result in zip(prompts, texts, results, strict=True)]

    def traces(self, samples: Sequence[Sample]) -> list[tuple[str, Trace]]:
        """The attention over the end of the first prompt."""
        prompt = samples[0].source[-200:]
        return [(" ".join(prompt.split())[:80], self.predictor().trace(prompt))]

    def describe(self) -> str:
        model = describe_model(self.model, self.tokenizer.vocab_size)
        return f"model: {model}; data: {len(self.train):,} training and {len(self.validation):,} validation tokens"


def _train_tokenizer(splits: CorpusSplits, config: GenerateTraining) -> Tokenizer:
    """Train the tokenizer of a new model. For a large corpus, it is cached."""
    size = MAX_CHARACTERS if config.tokenizer == "char" else config.vocab_size
    key = {"tokenizer": config.tokenizer, "vocab_size": config.vocab_size}
    return splits.train_tokenizer(["\n\n".join(splits.train)], key, kind=TOKENIZERS[config.tokenizer], vocab_size=size)


def _ids(splits: CorpusSplits, tokenizer: Tokenizer, val_fraction: float) -> tuple[Ids, Ids]:
    """Return the training ids and the validation ids, each as one array."""
    if splits.corpus is None:
        found = tokenizer.encode_array("\n\n".join(splits.train))
    else:
        found = corpus_ids(splits.corpus, tokenizer)
    if splits.validation_corpus is not None:
        return found, corpus_ids(splits.validation_corpus, tokenizer)
    return split_ids(found, fraction=val_fraction, max_tokens=MAX_VALIDATION_TOKENS)


def _adjusted(model: Any, request: TrainRequest) -> Any:
    """Return the pretrained model with changed dropout; raise if other model settings differ."""
    given, shape = request.given_model, model.config
    length = given.get("context_length", shape.context_length)
    advice = f"To train on shorter sequences, use --window {length}." if length < shape.context_length else ""
    refuse_contradictions(given, shape, name=str(request.pretrained), free=FREE, advice=advice)
    changes = {name: value for name, value in given.items() if name in FREE}
    if all(getattr(shape, name) == value for name, value in changes.items()):
        return model
    adjusted = request.architecture.build(shape.replace(**changes))
    load_into(adjusted, unique_tensors(model))
    return adjusted
