"""Contexts with endings → loss: the cross-entropy of the right ending among all endings of a context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.multiple_choice import MultipleChoiceExample
from regard.metrics.score import Score
from regard.models.heads import HeadConfig
from regard.nn.hooks import Trace
from regard.tasks.base import Splits
from regard.tasks.choose.predictor import MultipleChoice, choice_scores, labels_of, majority_index
from regard.tasks.encoder.objective import EncoderInit, EncoderObjective, init_encoder, mistakes_first
from regard.training.objective import Loss, Sample, SampleNames
from regard.training.request import TrainRequest
from regard.utils.errors import number_of

HEAD = HeadConfig(kind="multiple_choice")


class ChooseObjective(EncoderObjective):
    """Learn which ending is right. An example is one input for each ending."""

    sample_names = SampleNames("Context", "Right ending", "Prediction")
    head = HEAD

    @classmethod
    def prepare(cls, splits: Splits[MultipleChoiceExample], request: TrainRequest) -> Self:
        texts = [" ".join((example.context, *example.endings)) for example in splits.train]
        return cls(init_encoder(request, HEAD, texts), request, splits)

    def __init__(self, init: EncoderInit, request: TrainRequest, splits: Splits[MultipleChoiceExample]) -> None:
        self.splits = splits
        self.rows_per_example = len(splits.train[0].endings)
        self._labels = labels_of(splits.train), labels_of(splits.validation)
        self._predictor = MultipleChoice(
            init.model,
            init.tokenizer,
            head=HEAD,
            config=request.predict_config(),
            max_seq_len=init.max_seq_len,
            majority_label=majority_index(self._labels[0]),
        )
        train, validation = (
            self._predictor.encode((example.context, example.endings) for example in examples)
            for examples in (splits.train, splits.validation)
        )
        super().__init__(init, request, train=train, validation=validation, notes=splits.notes)

    def compute_loss(self, logits: Tensor, indices: Sequence[int], *, validation: bool) -> Loss:
        labels = torch.tensor([self._labels[validation][index] for index in indices], device=logits.device)
        loss = F.cross_entropy(logits.view(len(indices), self.rows_per_example), labels)  # (B, endings)
        return Loss(loss, loss.detach(), len(indices))

    def target_bytes(self, *, validation: bool) -> bytes:
        return repr(self._labels[validation]).encode()

    def predictor(self) -> MultipleChoice:
        self.model.eval()
        return self._predictor

    @property
    def scored_on(self) -> str:
        return f"validation, {number_of(len(self.splits.validation), 'example')}"

    def evaluate(self) -> tuple[list[Score], list[Sample]]:
        predictor, examples, labels = self.predictor(), self.splits.validation, self._labels[1]
        results = predictor.predict([(example.context, example.endings) for example in examples])
        chosen = [result.choice_index for result in results]
        order = mistakes_first([index == label for index, label in zip(chosen, labels, strict=True)])
        samples = [Sample(examples[n].context, examples[n].endings[labels[n]], results[n].text) for n in order]
        return choice_scores(chosen, labels, predictor.majority_label), samples

    def traces(self, samples: Sequence[Sample]) -> list[tuple[str, Trace]]:
        example = self.splits.validation[0]
        ending = example.endings[self._labels[1][0]]
        return [(f"{example.context} / {ending}"[:80], self.predictor().trace(example.context, ending))]
