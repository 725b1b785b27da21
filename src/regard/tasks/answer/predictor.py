"""A trained question-answering model, its results and its scores."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from regard.data.squad import Question
from regard.metrics.score import Score, Scores
from regard.metrics.spans import best_thresholds, first_sentence, score_answers
from regard.nn.hooks import Trace
from regard.spec import TaskSpec
from regard.tasks.answer.spans import (
    EncodedQuestion,
    Floats,
    Passage,
    best_spans,
    log_sum_exp,
    null_score,
    passage_windows,
    span_scores,
)
from regard.tasks.answer.spec import SPEC, AnswerConfig
from regard.tasks.base import Notify, Result
from regard.tasks.encoder.inference import predict_logits
from regard.tasks.encoder.predictor import HeadPredictor
from regard.utils.errors import UsageError


@dataclass(frozen=True)
class Span(Result):
    """A span of a passage as an answer."""

    text: str
    start: int  # its first character in the passage
    end: int  # the character after its last one
    score: float  # its probability among all spans, and "no answer" if that is allowed
    logit: float = field(repr=False)  # the sum of its start and end logits

    recorded = ("text", "start", "end", "score")
    digits = 6


@dataclass(frozen=True)
class Answer(Result):
    """The answer to a question; its text is empty if the model gives none."""

    question: str
    passage: str = field(repr=False)
    text: str
    start: int
    end: int
    score: float  # the probability of the answer
    null_score_diff: float = field(repr=False)  # score of "no answer" minus score of the best answer
    best: tuple[Span, ...] = field(repr=False)  # the best answers, whether or not one is given
    id: str = field(default="", repr=False)  # of the question, if its file has one

    recorded = ("question", "text", "start", "end", "score", "null_score_diff", "best")
    digits = 6

    def record(self) -> dict[str, Any]:
        return {**({"id": self.id} if self.id else {}), **super().record()}

    def __str__(self) -> str:
        return " ".join(self.text.split())  # an answer may span lines


class QuestionAnswerer(HeadPredictor[Answer]):
    """Questions and passages → answers: `answerer("Who sleeps?", "The cat sleeps.").text`."""

    spec: ClassVar[TaskSpec] = SPEC
    config: AnswerConfig

    def _predict(self, inputs: list[Any], config: AnswerConfig, notify: Notify) -> list[Answer]:
        """The answer to each (question, passage); a third value is the id of the question."""
        asked = [_question_and_passage(value) for value in inputs]
        encoded = self.encode(asked, stride=config.stride)
        ids = [str(value[2]) if len(value) > 2 else "" for value in inputs]
        return [
            dataclasses.replace(self._answer(question, windows, logits, config), id=id_)
            for (question, _), windows, logits, id_ in zip(asked, encoded, self.logits(encoded), ids, strict=True)
        ]

    def encode(self, asked: Sequence[tuple[str, str]], *, stride: int) -> list[EncodedQuestion]:
        """Questions with the windows of their passages. A passage that occurs several times is tokenized once."""
        self.require_pairs()
        for number, pair in enumerate(asked, start=1):
            for name, text in zip(("question", "passage"), pair, strict=True):
                if not text.strip():
                    raise UsageError(f"the {name} of input {number} is empty.", argument=name, value=text)
        questions, texts = (list(dict.fromkeys(pair[side] for pair in asked)) for side in (0, 1))
        ids = dict(zip(questions, self.tokenizer.encode_batch(questions), strict=True))
        passages = {}
        for text, (token_ids, spans) in zip(texts, self.tokenizer.encode_with_spans(texts), strict=True):
            starts, ends = np.array(spans, dtype=np.int64).reshape(-1, 2).T
            passages[text] = Passage(text, token_ids, starts, ends)
            if not passages[text].is_visible.any():
                raise UsageError(f"a passage has no words: {text[:40]!r}.", argument="passage", value=text[:40])
        return [
            EncodedQuestion(
                passages[text],
                passage_windows(
                    ids[question],
                    passages[text].ids,
                    start_id=self.tokenizer.start_id,
                    end_id=self.tokenizer.end_id,
                    max_seq_len=self.max_seq_len,
                    stride=stride,
                ),
            )
            for question, text in asked
        ]

    def logits(self, questions: Sequence[EncodedQuestion]) -> list[list[Floats]]:
        """The start and end logits (T, 2) of the windows of each question."""
        examples = [window.example for encoded in questions for window in encoded.windows]
        found = iter(predict_logits(self.model, examples, self.tokenizer.pad_id))
        return [[next(found).numpy() for _ in encoded.windows] for encoded in questions]

    def _answer(
        self, question: str, encoded: EncodedQuestion, logits: Sequence[Floats], config: AnswerConfig
    ) -> Answer:
        passage, threshold = encoded.passage, config.no_answer_threshold
        scores = span_scores(encoded, logits, config.max_answer_tokens)
        null = null_score(logits)
        total = log_sum_exp(scores, None if threshold is None else null)
        best = []
        for first, last, logit in best_spans(scores, config.n_best):
            start, end = int(passage.starts[first]), int(passage.ends[last])
            best.append(Span(passage.text[start:end], start, end, math.exp(logit - total), logit))
        diff = null - best[0].logit
        is_null = threshold is not None and diff > threshold
        chosen = Span("", 0, 0, math.exp(null - total), null) if is_null else best[0]
        return Answer(question, passage.text, chosen.text, chosen.start, chosen.end, chosen.score, diff, tuple(best))

    def input_of(self, example: Question) -> tuple[str, str, str]:
        return example.question, example.passage, example.id

    def score(self, examples: Sequence[Question], results: Sequence[Answer], config: Any = None) -> Scores:
        threshold = (config or self.config).no_answer_threshold
        return Scores(answer_scores(examples, results, threshold) + baselines(examples))

    def trace(self, *inputs: Any, grad: bool = False) -> Trace:
        """All attention over a question and its passage; for a long passage, over its first window."""
        (encoded,) = self.encode([_question_and_passage(inputs)], stride=self.config.stride)
        return self.trace_example(encoded.windows[0].example, grad=grad)

    def encode_results(self, results: Sequence[Answer], suffix: str) -> str | bytes:
        if suffix != ".json":
            return super().encode_results(results, suffix)
        texts = {answer.id or str(number): answer.text for number, answer in enumerate(results, start=1)}
        return json.dumps(texts, ensure_ascii=False) + "\n"

    @property
    def summary(self) -> str:
        return "A question and a passage go in, the span of the passage that answers the question comes out."

    def _outputs(self) -> str:
        threshold = self.config.no_answer_threshold
        return "always answers" if threshold is None else f"no-answer threshold {threshold:g}"


def _question_and_passage(value: Any) -> tuple[str, str]:
    texts = value[:2] if isinstance(value, tuple | list) and len(value) in (2, 3) else ()
    if len(texts) != 2 or not all(isinstance(text, str) for text in texts):
        raise UsageError("give two texts, a question and a passage.", argument="inputs")
    return texts[0], texts[1]


def apply_threshold(answer: Answer, threshold: float | None) -> Answer:
    """The answer with another threshold; its probability does not change."""
    if threshold is not None and answer.null_score_diff > threshold:
        return dataclasses.replace(answer, text="", start=0, end=0)
    best = answer.best[0]
    return dataclasses.replace(answer, text=best.text, start=best.start, end=best.end)


# --- Scores ------------------------------------------------------------------------------------------------


def gold_answers(examples: Sequence[Question]) -> dict[str, list[str]]:
    """The gold answers by id; none where a question has no answer."""
    return {example.id: [text for _, text in example.answers] for example in examples}


def answer_scores(examples: Sequence[Question], answers: Sequence[Answer], threshold: float | None) -> list[Score]:
    """Exact match and F1; if some questions have no answer, also for both kinds apart and at the best threshold."""
    gold = gold_answers(examples)
    predicted = {example.id: answer.text for example, answer in zip(examples, answers, strict=True)}
    found = score_answers(predicted, gold)
    at = "" if threshold is None else f"|threshold:{threshold:.4g}"
    scores = [dataclasses.replace(score, signature=score.signature + at) for score in (found.exact, found.f1)]
    for kind, values in (("with an answer", found.with_answer), ("without one", found.without_answer)):
        if values is not None:
            scores += [
                Score(f"{score.name}, questions {kind}", value, score.signature)
                for score, value in zip(scores[:2], values, strict=True)
            ]
    if all(gold.values()):
        return scores
    for score, best in zip(
        (found.exact, found.f1), best_thresholds(*_unthresholded(examples, answers), gold), strict=True
    ):
        scores.append(Score(f"best {score.name}", best.score, f"{score.signature}|threshold:{best.value:.4g}"))
    return scores


def best_threshold(examples: Sequence[Question], answers: Sequence[Answer]) -> float:
    """The threshold with the highest F1, halfway to the next question: sums are rounded differently in other batches.

    If giving no answer is always best, it is below all questions.
    """
    texts, diffs = _unthresholded(examples, answers)
    _, best = best_thresholds(texts, diffs, gold_answers(examples))
    higher = [diff for diff in diffs.values() if diff > best.value]
    return (best.value + min(higher)) / 2 if higher else best.value + 1


def _unthresholded(examples: Sequence[Question], answers: Sequence[Answer]) -> tuple[dict[str, str], dict[str, float]]:
    """By id: the best answer even if none is given, and its null_score_diff."""
    ids = [example.id for example in examples]
    texts = dict(zip(ids, (answer.best[0].text for answer in answers), strict=True))
    return texts, dict(zip(ids, (answer.null_score_diff for answer in answers), strict=True))


def baselines(examples: Sequence[Question]) -> list[Score]:
    """The scores of answers that ignore the question: the first sentence of the passage, or no answer."""
    gold = gold_answers(examples)
    predictions = {"the first sentence": {example.id: first_sentence(example.passage) for example in examples}}
    if not all(gold.values()):
        predictions["never answering"] = dict.fromkeys(gold, "")
    found = {name: score_answers(texts, gold) for name, texts in predictions.items()}
    return [score.as_baseline(name) for name, scores in found.items() for score in (scores.exact, scores.f1)]
