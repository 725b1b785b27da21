"""Train a model to find the span of a passage that answers a question."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.squad import Question
from regard.metrics.score import Score
from regard.metrics.spans import exact_match
from regard.tasks.answer.predictor import Answer, apply_threshold, best_threshold, target
from regard.tasks.base import Splits
from regard.tasks.encoder.objective import EncoderInit, EncoderObjective
from regard.tasks.encoder.predictor import EncodedExample, EncoderBatch
from regard.training.objective import Sample, SampleNames
from regard.training.run import TrainRequest
from regard.utils.errors import number_of

NO_ANSWER = "(no answer)"
MAX_SHOWN = 300  # characters of a passage in a report


class AnswerObjective(EncoderObjective):
    """Learn the first and the last token of answers.

    A long passage is split into windows, and each window is a training example. If a window does not contain the
    complete answer, its targets are [CLS].
    """

    loss_unit = "windows"
    noun = "question"
    windowed = "passages"
    sample_names = SampleNames("Question and passage", "Answer", "Prediction", mistakes_first=True)
    num_unreachable = 0  # training questions whose answer is not complete in any window

    def __init__(self, init: EncoderInit, request: TrainRequest, splits: Splits[Question]) -> None:
        super().__init__(init, request, splits)
        predictor = self._predictor
        has_impossible = any(example.impossible for side in (splits.train, splits.validation) for example in side)
        self._tunes_threshold = has_impossible and predictor.config.no_answer_threshold is None
        if self._tunes_threshold:  # `evaluate` finds the best threshold
            predictor.config = predictor.config.replace(no_answer_threshold=0.0)

    @staticmethod
    def tokenizer_texts(examples: Sequence[Question]) -> list[str]:
        return list(dict.fromkeys(text for example in examples for text in (example.passage, example.question)))

    def encode(self, examples: Sequence[Question]) -> tuple[list[EncodedExample], list[tuple[int, int]]]:
        """Encode examples as windows. The targets of a window are the first and the last token of the answer."""
        asked = [(question.question, question.passage) for question in examples]
        rows, targets = [], []
        encoded = self._predictor.encode(asked, stride=self._predictor.config.stride)
        for question, (passage, windows) in zip(examples, encoded, strict=True):
            answer = passage.tokens_of(*question.answers[0]) if question.answers else None
            places = [target(window, answer) for window in windows]
            rows += [window.example for window in windows]
            targets += places
            if examples is self.splits.train and question.answers and not any(start for start, _ in places):
                self.num_unreachable += 1
        return rows, targets

    def length_notes(self, max_seq_len: int) -> list[str]:
        notes = super().length_notes(max_seq_len)
        if lost := self.num_unreachable:
            notes.append(
                f"length: no window contains the complete answer of {number_of(lost, 'question')}: raise --stride"
            )
        return notes

    def compute_loss(self, logits: Tensor, targets: list[tuple[int, int]], batch: EncoderBatch) -> Tensor:
        if batch.lengths is not None:
            is_padding = torch.arange(logits.shape[1], device=logits.device) >= batch.lengths[:, None]
            logits = logits.masked_fill(is_padding[..., None], float("-inf"))
        both = logits.transpose(1, 2).flatten(0, 1)  # (2 B, T)
        return F.cross_entropy(both, torch.tensor(targets, device=logits.device).flatten())

    def score(self, results: list[Answer]) -> tuple[list[Score], list[Answer]]:
        """Score the validation results; find the best no-answer threshold if there are unanswerable questions."""
        examples, predictor = self.splits.validation, self._predictor
        if self._tunes_threshold and any(example.impossible for example in examples):
            threshold = best_threshold(examples, results)
            predictor.config = predictor.config.replace(no_answer_threshold=threshold)
            results = [apply_threshold(answer, threshold) for answer in results]
        return super().score(results)

    def sample(self, example: Question, result: Answer) -> Sample:
        texts = [text for _, text in example.answers]
        given = result.text or NO_ANSWER
        reference = given if exact_match(result.text, texts) else next(iter(texts), NO_ANSWER)
        passage = example.passage if len(example.passage) <= MAX_SHOWN else example.passage[:MAX_SHOWN] + " …"
        return Sample(f"{example.question} – {passage}", reference, given)

    def trace_inputs(self, example: Question) -> tuple[str, str]:
        return example.question, example.passage
