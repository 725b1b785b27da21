"""Tagged sentences → loss: the cross-entropy of each word's tag, at the word's first token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.tagged import Tagged
from regard.metrics.score import Score
from regard.models.heads import HeadConfig
from regard.nn.hooks import Trace
from regard.tasks.base import Splits
from regard.tasks.encoder.batching import EncoderBatch
from regard.tasks.encoder.objective import EncoderInit, EncoderObjective, init_encoder, mistakes_first, windows_note
from regard.tasks.tag.predictor import (
    SentenceWindow,
    Tagger,
    majority_tag,
    sentence_windows,
    tag_scores,
    word_list_baseline,
)
from regard.tasks.tag.reader import tag_labels
from regard.training.objective import Loss, Sample, SampleNames
from regard.training.request import TrainRequest
from regard.utils.errors import number_of


class TagObjective(EncoderObjective):
    """Learn the tags of words. A long sentence is several windows, each an example."""

    loss_unit = "words"
    sample_names = SampleNames("Words", "Tags", "Prediction")

    @classmethod
    def prepare(cls, splits: Splits[Tagged], request: TrainRequest) -> Self:
        head = HeadConfig(kind="token_classification", labels=tag_labels(splits.train))
        init = init_encoder(request, head, [" ".join(sentence.words) for sentence in splits.train])
        return cls(init, request, splits, head)

    def __init__(self, init: EncoderInit, request: TrainRequest, splits: Splits[Tagged], head: HeadConfig) -> None:
        self.head, self.splits = head, splits
        self._predictor = Tagger(
            init.model,
            init.tokenizer,
            head=head,
            config=request.predict_config(),
            max_seq_len=init.max_seq_len,
            majority_label=(majority_tag(splits.train),),
        )
        train, validation = (self._windows(sentences) for sentences in (splits.train, splits.validation))
        self._targets = train, validation
        super().__init__(
            init,
            request,
            train=[window.example for window, _ in train],
            validation=[window.example for window, _ in validation],
            notes=(*splits.notes, *windows_note(len(train) - len(splits.train), "sentences", init.max_seq_len)),
        )

    def _windows(self, sentences: Sequence[Tagged]) -> list[tuple[SentenceWindow, list[int]]]:
        """Every window with the indices of its words' tags."""
        index = {tag: number for number, tag in enumerate(self.head.labels)}
        words = [sentence.words for sentence in sentences]
        windows = sentence_windows(self._predictor.tokenizer, words, self._predictor.max_seq_len)
        return [
            (window, [index[tag] for tag in sentence.tags[window.first : window.first + len(window.places)]])
            for sentence, several in zip(sentences, windows, strict=True)
            for window in several
        ]

    def logits(self, batch: EncoderBatch, indices: Sequence[int], *, validation: bool) -> Tensor:
        """The logits at the first token of each word."""
        width = batch.ids.shape[1]
        windows = [self._targets[validation][index][0] for index in indices]
        places = [row * width + place for row, window in enumerate(windows) for place in window.places]
        logits: Tensor = self.model(*batch, places=torch.tensor(places, device=batch.ids.device))  # (words, labels)
        return logits

    def compute_loss(self, logits: Tensor, indices: Sequence[int], *, validation: bool) -> Loss:
        tags = [tag for index in indices for tag in self._targets[validation][index][1]]
        loss = F.cross_entropy(logits, torch.tensor(tags, device=logits.device))
        return Loss(loss, loss.detach(), len(tags))

    def target_bytes(self, *, validation: bool) -> bytes:
        numbers = [n for window, tags in self._targets[validation] for n in (len(tags), *window.places, *tags)]
        return np.asarray(numbers, dtype="<i4").tobytes()

    def predictor(self) -> Tagger:
        self.model.eval()
        return self._predictor

    @property
    def scored_on(self) -> str:
        return f"validation, {number_of(len(self.splits.validation), 'sentence')}"

    def evaluate(self) -> tuple[list[Score], list[Sample]]:
        examples = self.splits.validation
        results = self.predictor().predict([list(sentence.words) for sentence in examples])
        gold = [sentence.tags for sentence in examples]
        scores = tag_scores([result.tags for result in results], gold)
        order = mistakes_first([result.tags == tags for result, tags in zip(results, gold, strict=True)])
        samples = [Sample(" ".join(examples[n].words), " ".join(gold[n]), " ".join(results[n].tags)) for n in order]
        return scores + word_list_baseline(self.splits.train, examples), samples

    def traces(self, samples: Sequence[Sample]) -> list[tuple[str, Trace]]:
        text = samples[0].source
        return [(text[:80], self.predictor().trace(text))]
