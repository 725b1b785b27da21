"""Predictor for question answering, with its results and scores.

The model reads `[CLS] question [SEP] passage [SEP]`; a long passage is read in overlapping windows. The score of a span
is the sum of the start logit of its first token and the end logit of its last one. The score of "no answer" is the
score of [CLS] in the window where that score is lowest.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.data.squad import Question
from regard.metrics.score import Score, Scores
from regard.metrics.spans import best_thresholds, first_sentence, score_answers
from regard.nn.hooks import Trace
from regard.tasks.answer.spec import SPEC, AnswerConfig
from regard.tasks.base import Notify, Result
from regard.tasks.encoder.predictor import EncodedExample, HeadPredictor, predict_logits
from regard.utils.errors import UsageError

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, repr=False)
class Span(Result):
    """A span of a passage that may answer the question."""

    text: str
    start: int  # index of the first character in the passage
    end: int  # index after the last character
    score: float  # softmax over the logits of all spans, and of "no answer" if a threshold is set
    logit: float  # the sum of its start and end logits

    recorded = shown = ("text", "start", "end", "score")
    digits = 6


@dataclass(frozen=True, repr=False)
class Answer(Result):
    """The answer to a question; `text` is empty if the model returns no answer."""

    question: str
    passage: str
    text: str
    start: int
    end: int
    score: float  # the probability of the answer
    null_score_diff: float  # score of "no answer" minus score of the best answer
    best: tuple[Span, ...]  # the best spans, even if `text` is empty
    id: str = ""  # id of the question, if the file has ids

    recorded = ("question", "text", "start", "end", "score", "null_score_diff", "best")
    shown = ("question", "text", "score")
    digits = 6

    def record(self) -> dict[str, Any]:
        return {**({"id": self.id} if self.id else {}), **super().record()}

    def columns(self) -> dict[str, Any]:
        return {name: value for name, value in self.record().items() if name not in ("id", "best")}

    def __str__(self) -> str:
        return " ".join(self.text.split())  # an answer may span lines


class QuestionAnswerer(HeadPredictor[Answer]):
    """Questions and passages → answers: `answerer("Who sleeps?", "The cat sleeps.").text`."""

    spec = SPEC
    summary = "A question and a passage go in, the span of the passage that answers the question comes out."
    config: AnswerConfig

    def _predict(self, inputs: list[Any], config: AnswerConfig, notify: Notify) -> list[Answer]:
        """Answer each (question, passage) or (question, passage, id)."""
        asked = [_question_and_passage(value) for value in inputs]
        encoded = self.encode(asked, stride=config.stride)
        ids = [str(value[2]) if len(value) > 2 else "" for value in inputs]
        return [
            dataclasses.replace(self._answer(question, windows, logits, config), id=id_)
            for (question, _), windows, logits, id_ in zip(asked, encoded, self.logits(encoded), ids, strict=True)
        ]

    def encode(self, asked: Sequence[tuple[str, str]], *, stride: int) -> list[EncodedQuestion]:
        """Return the questions with the windows of their passages. Repeated passages are tokenized only once."""
        self.require_pairs()
        for number, pair in enumerate(asked, start=1):
            for name, text in zip(("question", "passage"), pair, strict=True):
                if not text.strip():
                    message = f"the {name} of input {number} is empty. Add a text, or remove the input."
                    raise UsageError(message, argument=name, value=text)
        questions, texts = (list(dict.fromkeys(pair[side] for pair in asked)) for side in (0, 1))
        ids = dict(zip(questions, self.tokenizer.encode_batch(questions), strict=True))
        passages = {}
        for text, (token_ids, spans) in zip(texts, self.tokenizer.encode_with_spans(texts), strict=True):
            starts, ends = np.array(spans, dtype=np.int64).reshape(-1, 2).T
            passages[text] = Passage(text, token_ids, starts, ends)
            if not passages[text].is_visible.any():
                message = f"the passage {text[:40]!r} has no words. Give a passage with text."
                raise UsageError(message, argument="passage", value=text[:40])
        special = {"start_id": self.tokenizer.start_id, "end_id": self.tokenizer.end_id}
        sizes = {"max_seq_len": self.max_seq_len, "stride": stride}
        return [
            EncodedQuestion(passages[text], passage_windows(ids[question], passages[text].ids, **special, **sizes))
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

    def _outputs(self) -> str:
        threshold = self.config.no_answer_threshold
        return "always answers" if threshold is None else f"no-answer threshold {threshold:g}"


def _question_and_passage(value: Any) -> tuple[str, str]:
    texts = value[:2] if isinstance(value, tuple | list) and len(value) in (2, 3) else ()
    if len(texts) != 2 or not all(isinstance(text, str) for text in texts):
        raise UsageError("an input must be two texts, a question and a passage.", argument="inputs")
    return texts[0], texts[1]


def apply_threshold(answer: Answer, threshold: float | None) -> Answer:
    """Apply another threshold to an answer; `score` does not change."""
    if threshold is not None and answer.null_score_diff > threshold:
        return dataclasses.replace(answer, text="", start=0, end=0)
    best = answer.best[0]
    return dataclasses.replace(answer, text=best.text, start=best.start, end=best.end)


# --- Windows and spans --------------------------------------------------------------------------------------


class PassageWindow(NamedTuple):
    """A question with a window of its passage: `example` has the question as first text and the window as second."""

    example: EncodedExample
    first: int  # index of the window's first token in the passage

    @property
    def num_tokens(self) -> int:
        """Number of passage tokens in this window."""
        return len(self.example.ids) - self.example.first - 1


def passage_windows(
    question: Sequence[int], passage: Sequence[int], *, start_id: int, end_id: int, max_seq_len: int, stride: int
) -> list[PassageWindow]:
    """Split a passage into windows of at most `max_seq_len` ids, each with the question before it.

    Adjacent windows share `stride` tokens. The question is truncated to half of a window, and at most half of the
    remaining tokens are shared.
    """
    opening = [start_id, *question[: (max_seq_len - 3) // 2], end_id]
    max_len = max_seq_len - len(opening) - 1
    shared = min(stride, max_len // 2)
    windows = []
    for first in range(0, max(1, len(passage) - shared), max_len - shared):
        ids = [*opening, *passage[first : first + max_len], end_id]
        windows.append(PassageWindow(EncodedExample(ids, len(opening)), first))
    return windows


@dataclass(frozen=True)
class Passage:
    """The tokens of a passage; token i covers the characters from `starts[i]` to `ends[i]`."""

    text: str
    ids: list[int]
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]

    @property
    def is_visible(self) -> npt.NDArray[np.bool_]:
        """For each token, whether it covers at least one character."""
        return self.ends > self.starts

    def tokens_of(self, start: int, text: str) -> tuple[int, int] | None:
        """Return the first and the last token of `text`, which starts at character `start`; None if there are none."""
        begin = start + len(text) - len(text.lstrip())
        end = start + len(text.rstrip())
        first = int(np.searchsorted(self.ends, begin, side="right"))
        last = int(np.searchsorted(self.starts, end, side="left")) - 1
        return (first, last) if first <= last else None


class EncodedQuestion(NamedTuple):
    """A passage and its windows, each of which includes the question."""

    passage: Passage
    windows: list[PassageWindow]


def span_scores(encoded: EncodedQuestion, logits: Sequence[Floats], max_tokens: int) -> Floats:
    """Return the scores of all spans of at most `max_tokens` tokens: (first token, number of further tokens).

    `logits` has one array (T, 2) per window. A span in several windows gets its highest score. A span in no window, or
    with an invisible first or last token, gets -∞.
    """
    num_tokens = len(encoded.passage.ids)
    max_tokens = min(max_tokens, num_tokens)
    scores = np.full((num_tokens, max_tokens), -np.inf, dtype=np.float32)
    invisible = np.where(encoded.passage.is_visible, 0, -np.inf).astype(np.float32)
    for window, output in zip(encoded.windows, logits, strict=True):
        place, first, end = window.example.first, window.first, window.first + window.num_tokens
        start_logits, end_logits = (output[place : place + window.num_tokens] + invisible[first:end, None]).T
        end_logits = np.concatenate([end_logits, np.full(max_tokens - 1, -np.inf, dtype=np.float32)])
        # Row i of the view has the end logits of tokens i, i + 1, …
        spans = start_logits[:, None] + np.lib.stride_tricks.sliding_window_view(end_logits, max_tokens)
        np.maximum(scores[first:end], spans, out=scores[first:end])
    return scores


def null_score(logits: Sequence[Floats]) -> float:
    """The score of "no answer": the lowest score of [CLS] in any window."""
    return min(float(output[0].sum()) for output in logits)


def best_spans(scores: Floats, count: int) -> Iterator[tuple[int, int, float]]:
    """The `count` spans with the highest scores as (first token, last token, score), best first."""
    flat = scores.ravel()
    count = min(count, flat.size)
    chosen = np.argpartition(-flat, count - 1)[:count] if count > 1 else np.array([flat.argmax()])
    for place in sorted(chosen.tolist(), key=lambda place: (-flat[place], place)):
        first, more = divmod(place, scores.shape[1])
        if flat[place] > -np.inf:
            yield first, first + more, float(flat[place])


def log_sum_exp(scores: Floats, null: float | None) -> float:
    """log Σ exp(score) over all spans, and over "no answer" if `null` is given."""
    highest = float(scores.max()) if null is None else max(float(scores.max()), null)
    total = float(np.exp(scores.astype(np.float64) - highest).sum())
    if null is not None:
        total += math.exp(null - highest)
    return highest + math.log(total)


def target(window: PassageWindow, answer: tuple[int, int] | None) -> tuple[int, int]:
    """Convert the first and last passage token of an answer to positions in a window; ([CLS], [CLS]) if incomplete."""
    if answer is None or answer[0] < window.first or answer[1] >= window.first + window.num_tokens:
        return 0, 0
    offset = window.example.first - window.first
    return answer[0] + offset, answer[1] + offset


# --- Scores ------------------------------------------------------------------------------------------------


def gold_answers(examples: Sequence[Question]) -> dict[str, list[str]]:
    """Return the gold answers by question id; an unanswerable question has an empty list."""
    return {example.id: [text for _, text in example.answers] for example in examples}


def answer_scores(examples: Sequence[Question], answers: Sequence[Answer], threshold: float | None) -> list[Score]:
    """Exact match and F1. With unanswerable questions, also for each kind of question and at the best threshold."""
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
    best = best_thresholds(*_unthresholded(examples, answers), gold)
    return scores + [
        Score(f"best {score.name}", at_best.score, f"{score.signature}|threshold:{at_best.value:.4g}")
        for score, at_best in zip((found.exact, found.f1), best, strict=True)
    ]


def best_threshold(examples: Sequence[Question], answers: Sequence[Answer]) -> float:
    """Return the no-answer threshold with the highest F1.

    It is halfway between two questions' null_score_diff, because rounding differs between batches. If returning no
    answer is always best, it is below all of them.
    """
    texts, diffs = _unthresholded(examples, answers)
    _, best = best_thresholds(texts, diffs, gold_answers(examples))
    higher = [diff for diff in diffs.values() if diff > best.value]
    return (best.value + min(higher)) / 2 if higher else best.value + 1


def _unthresholded(examples: Sequence[Question], answers: Sequence[Answer]) -> tuple[dict[str, str], dict[str, float]]:
    """Return the text of the best span and its null_score_diff by question id, ignoring the threshold."""
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
