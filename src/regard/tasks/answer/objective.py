"""Questions about passages → loss: the cross-entropy of the first and the last token of the answer.

A window of a passage that does not hold the whole answer points to [CLS].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.squad import Question
from regard.metrics.score import Score
from regard.metrics.spans import exact_match
from regard.models.heads import HeadConfig
from regard.nn.hooks import Trace
from regard.tasks.answer.predictor import (
    Answer,
    QuestionAnswerer,
    answer_scores,
    apply_threshold,
    baselines,
    best_threshold,
    inputs_of,
)
from regard.tasks.answer.spans import target
from regard.tasks.answer.spec import AnswerConfig
from regard.tasks.base import Splits
from regard.tasks.encoder.batching import EncodedExample
from regard.tasks.encoder.objective import EncoderInit, EncoderObjective, init_encoder, mistakes_first, windows_note
from regard.training.objective import Loss, Sample, SampleNames
from regard.training.request import TrainRequest
from regard.utils.errors import number_of

HEAD = HeadConfig(kind="question_answering")
NO_ANSWER = "(no answer)"
MAX_SHOWN = 300  # characters of a passage in a report


class _Windows(NamedTuple):
    examples: list[EncodedExample]
    targets: Tensor  # (windows, 2): first and last token of the answer
    num_unreachable: int  # questions whose answer no window holds as a whole


class AnswerObjective(EncoderObjective):
    """Learn where answers start and end. A long passage is several windows, each an example."""

    loss_unit = "windows"
    sample_names = SampleNames("Question and passage", "Answer", "Prediction")
    head = HEAD

    @classmethod
    def prepare(cls, splits: Splits[Question], request: TrainRequest) -> Self:
        texts = dict.fromkeys(text for example in splits.train for text in (example.passage, example.question))
        return cls(init_encoder(request, HEAD, list(texts)), request, splits)

    def __init__(self, init: EncoderInit, request: TrainRequest, splits: Splits[Question]) -> None:
        self.splits = splits
        config = request.predict_config()
        assert isinstance(config, AnswerConfig), "the options of this task"
        has_impossible = any(example.impossible for side in (splits.train, splits.validation) for example in side)
        self._tunes_threshold = has_impossible and config.no_answer_threshold is None
        if self._tunes_threshold:
            config = config.replace(no_answer_threshold=0.0)  # until `evaluate` finds the best one
        self._predictor = QuestionAnswerer(
            init.model, init.tokenizer, head=HEAD, config=config, max_seq_len=init.max_seq_len
        )
        train, validation = (self._windows(side) for side in (splits.train, splits.validation))
        self._targets = train.targets, validation.targets
        self.num_unreachable = train.num_unreachable
        extra = len(train.examples) - len(splits.train)
        notes = [*splits.notes, *windows_note(extra, "passages", init.max_seq_len)]
        if lost := self.num_unreachable:
            notes.append(f"length: no window holds the whole answer of {number_of(lost, 'question')}: raise --stride")
        super().__init__(init, request, train=train.examples, validation=validation.examples, notes=notes)

    def _windows(self, questions: Sequence[Question]) -> _Windows:
        asked = [(question.question, question.passage) for question in questions]
        encoded = self._predictor.encode(asked, stride=self._predictor.config.stride)
        examples, targets, num_unreachable = [], [], 0
        for question, (passage, windows) in zip(questions, encoded, strict=True):
            answer = passage.tokens_of(*question.answers[0]) if question.answers else None
            places = [target(window, answer) for window in windows]
            examples += [window.example for window in windows]
            targets += places
            num_unreachable += bool(question.answers) and not any(start for start, _ in places)
        return _Windows(examples, torch.tensor(targets), num_unreachable)

    def compute_loss(self, logits: Tensor, indices: Sequence[int], *, validation: bool) -> Loss:
        examples = self.validation if validation else self.train
        lengths = torch.tensor([len(examples[index].ids) for index in indices], device=logits.device)
        is_padding = torch.arange(logits.shape[1], device=logits.device) >= lengths[:, None]
        masked = logits.masked_fill(is_padding[..., None], float("-inf")).transpose(1, 2)  # (B, 2, T)
        targets = self._targets[validation][list(indices)].to(logits.device)
        loss = F.cross_entropy(masked.flatten(0, 1), targets.flatten())
        return Loss(loss, loss.detach(), len(indices))

    def target_bytes(self, *, validation: bool) -> bytes:
        return self._targets[validation].numpy().tobytes()

    def predictor(self) -> QuestionAnswerer:
        self.model.eval()
        return self._predictor

    @property
    def scored_on(self) -> str:
        return f"validation, {number_of(len(self.splits.validation), 'question')}"

    def evaluate(self) -> tuple[list[Score], list[Sample]]:
        """Scores and samples; finds the best no-answer threshold where the data has unanswerable questions."""
        examples, predictor = self.splits.validation, self.predictor()
        answers = predictor.predict(inputs_of(examples))
        if self._tunes_threshold and any(example.impossible for example in examples):
            threshold = best_threshold(examples, answers)
            predictor.config = predictor.config.replace(no_answer_threshold=threshold)
            answers = [apply_threshold(answer, threshold) for answer in answers]
        scores = answer_scores(examples, answers, predictor.config.no_answer_threshold) + baselines(examples)
        is_right = [
            bool(exact_match(answer.text, [text for _, text in example.answers]))
            for example, answer in zip(examples, answers, strict=True)
        ]
        samples = [_sample(examples[n], answers[n], is_right=is_right[n]) for n in mistakes_first(is_right)]
        return scores, samples

    def traces(self, samples: Sequence[Sample]) -> list[tuple[str, Trace]]:
        example = self.splits.validation[0]
        return [(example.question[:80], self.predictor().trace(example.question, example.passage))]


def _sample(example: Question, answer: Answer, *, is_right: bool) -> Sample:
    gold = next((text for _, text in example.answers), NO_ANSWER)
    given = answer.text or NO_ANSWER
    passage = example.passage if len(example.passage) <= MAX_SHOWN else example.passage[:MAX_SHOWN] + " …"
    return Sample(f"{example.question} – {passage}", given if is_right else gold, given)
