"""Train a model to choose the right ending of a text."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.labelled import MultipleChoiceExample
from regard.tasks.choose.predictor import Choice, labels_of, majority_index
from regard.tasks.encoder.objective import EncoderObjective
from regard.tasks.encoder.predictor import EncodedExample, EncoderBatch
from regard.training.objective import Sample, SampleNames


class ChooseObjective(EncoderObjective):
    """Learn which ending is right: one input per ending, with cross-entropy over the endings of a context."""

    sample_names = SampleNames("Context", "Right ending", "Prediction", mistakes_first=True)

    @staticmethod
    def tokenizer_texts(examples: Sequence[MultipleChoiceExample]) -> list[str]:
        return [" ".join((example.context, *example.endings)) for example in examples]

    def majority_label(self, examples: Sequence[MultipleChoiceExample]) -> tuple[str]:
        return majority_index(labels_of(examples))

    def encode(self, examples: Sequence[MultipleChoiceExample]) -> tuple[list[EncodedExample], list[int]]:
        self.rows_per_example = len(examples[0].endings)
        choices = [(example.context, example.endings) for example in examples]
        return self._predictor.encode(choices), labels_of(examples)

    def compute_loss(self, logits: Tensor, targets: list[int], batch: EncoderBatch) -> Tensor:
        labels = torch.tensor(targets, device=logits.device)
        return F.cross_entropy(logits.view(len(targets), self.rows_per_example), labels)  # (B, endings)

    def sample(self, example: MultipleChoiceExample, result: Choice) -> Sample:
        return Sample(example.context, right_ending(example), result.text)

    def trace_inputs(self, example: MultipleChoiceExample) -> tuple[str, str]:
        return example.context, right_ending(example)


def right_ending(example: MultipleChoiceExample) -> str:
    assert example.label is not None, "examples of training and validation have labels"
    return example.endings[example.label]
