"""Answering: a question and a passage → the stretch of the passage that answers it, or the word that there is none.

An example is a question with its passage and its answers, each with the character that it begins at. What is read is
`[CLS] question [SEP] passage [SEP]`; a long passage is read in windows that overlap. For every token there are two
numbers: how likely the answer begins, and ends, there. The loss is the cross-entropy of both; a window that does not
hold the answer points to [CLS]. The metrics are exact match and F1 of SQuAD. What a user holds is an `Answerer`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.checkpoint.card import CardData
from regard.config import from_dict, to_dict
from regard.data.squad import Question
from regard.errors import UsageError, number_of
from regard.metrics.score import Score
from regard.metrics.spans import best_thresholds, exact_match, first_sentence, score_answers
from regard.models.bert import BertForSpans
from regard.models.bert_settings import BertConfig, HeadConfig
from regard.nn.packed import count_weights
from regard.nn.taps import Trace
from regard.tasks.embed import WithEncoder
from regard.tasks.labelling import Row, RowTask, fresh, read_rows, require_two_segments
from regard.tasks.settings import LabelConfig, SpanConfig
from regard.tasks.task import FolderContents, Loss, Sample, SampleNames, Usage
from regard.text.tokenizer import Tokenizer

NAME = "answer"
NO_ANSWER = "(no answer)"  # how silence is written where people read it
SAMPLES = 8
SHOWN = 300  # characters of a passage in a report
HEAD = HeadConfig(kind="spans")
Floats = npt.NDArray[np.float32]
Asked = tuple[str, str]  # a question and the passage that it is about


# --- What is answered --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Span:
    """A stretch of a passage as an answer."""

    text: str
    start: int  # its first character in the passage
    end: int  # and the one behind its last
    score: float  # what the model gives to its beginning and to its end, added
    probability: float  # among all stretches that may be answers, and silence where that is allowed


@dataclass(frozen=True)
class Answer:
    """What a model answers, cut out of the passage; empty where it says that there is no answer."""

    question: str
    passage: str
    text: str
    start: int
    end: int
    probability: float
    no_answer: float  # by how much "no answer" scores above the best one
    best: tuple[Span, ...]  # the best answers there are, silent or not

    def __str__(self) -> str:
        return self.text


# --- Windows -----------------------------------------------------------------------------------------------


class Window(NamedTuple):
    """A question with some tokens of its passage. In `row` the passage is the second text."""

    row: Row
    first: int  # the number of its first token among those of the passage

    @property
    def tokens(self) -> int:
        """How many tokens of the passage it holds."""
        return len(self.row.ids) - self.row.first - 1


def windows(
    question: Sequence[int], passage: Sequence[int], *, start_id: int, end_id: int, longest: int, stride: int
) -> list[Window]:
    """A passage in windows of at most `longest` ids, the question before each; neighbours share `stride` tokens.

    A question takes half of a window at most, and what is shared is at most half of what is left for the passage.
    """
    opening = [start_id, *question[: (longest - 3) // 2], end_id]
    room = longest - len(opening) - 1
    shared = min(stride, room // 2)
    found = []
    for first in range(0, max(1, len(passage) - shared), room - shared):
        ids = [*opening, *passage[first : first + room], end_id]
        found.append(Window(Row(ids, len(opening)), first))
    return found


@dataclass(frozen=True)
class Passage:
    """A passage in tokens, and the characters that each stands for."""

    text: str
    ids: list[int]
    begins: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]

    @property
    def shown(self) -> npt.NDArray[np.bool_]:
        """Which tokens stand for something that can be seen."""
        return self.ends > self.begins

    def tokens_of(self, start: int, text: str) -> tuple[int, int] | None:
        """The first and the last token of the stretch `text` at character `start`; None if no token shows it."""
        begin = start + len(text) - len(text.lstrip())
        end = start + len(text.rstrip())
        first = int(np.searchsorted(self.ends, begin, side="right"))
        last = int(np.searchsorted(self.begins, end, side="left")) - 1
        return (first, last) if first <= last else None


class Reading(NamedTuple):
    """A question about a passage, ready to be read."""

    passage: Passage
    windows: list[Window]


# --- The best stretch --------------------------------------------------------------------------------------


def span_scores(reading: Reading, outputs: Sequence[Floats], longest: int) -> Floats:
    """The score of every stretch of a passage of at most `longest` tokens: (first token, further tokens).

    `outputs` (T, 2) are those of the windows. A stretch that stands in several windows has its highest score, one
    that stands in none -∞, and so does one that begins or ends with nothing to see.
    """
    tokens = len(reading.passage.ids)
    longest = min(longest, tokens)
    scores = np.full((tokens, longest), -np.inf, dtype=np.float32)
    unseen = np.where(reading.passage.shown, 0, -np.inf).astype(np.float32)
    for window, output in zip(reading.windows, outputs, strict=True):
        place, first, beyond = window.row.first, window.first, window.first + window.tokens
        begins, ends = (output[place : place + window.tokens] + unseen[first:beyond, None]).T
        ends = np.concatenate([ends, np.full(longest - 1, -np.inf, dtype=np.float32)])
        # Row i holds the scores of ending at token i, i + 1, …: one view of `ends`, moved on by one from row to row.
        spans = begins[:, None] + np.lib.stride_tricks.sliding_window_view(ends, longest)
        np.maximum(scores[first:beyond], spans, out=scores[first:beyond])
    return scores


def silence_score(outputs: Sequence[Floats]) -> float:
    """The score of "no answer": what the windows give to [CLS], and the one that believes in it least decides."""
    return min(float(output[0].sum()) for output in outputs)


def best_spans(scores: Floats, count: int) -> Iterator[tuple[int, int, float]]:
    """The `count` stretches of the highest scores as (first token, last token, score), the best first."""
    flat = scores.ravel()
    count = min(count, flat.size)
    chosen = np.argpartition(-flat, count - 1)[:count] if count > 1 else np.array([flat.argmax()])
    for place in sorted(chosen.tolist(), key=lambda place: (-flat[place], place)):
        first, more = divmod(place, scores.shape[1])
        if flat[place] > -np.inf:
            yield first, first + more, float(flat[place])


def _log_sum(scores: Floats, silence: float | None) -> float:
    """The logarithm of what all stretches, and silence where it is allowed, weigh together."""
    highest = float(scores.max()) if silence is None else max(float(scores.max()), silence)
    weight = float(np.exp(scores.astype(np.float64) - highest).sum())
    if silence is not None:
        weight += math.exp(silence - highest)
    return highest + math.log(weight)


# --- What a user holds -------------------------------------------------------------------------------------


class Answerer(WithEncoder):
    """Takes questions with passages, and finds the answers in them. Does not train."""

    task = NAME
    model: BertForSpans
    summary = "A question and a passage go in, the stretch of the passage that answers the question comes out."

    def __init__(
        self,
        model: BertForSpans,
        tokenizer: Tokenizer,
        *,
        config: SpanConfig | None = None,
        max_tokens: int | None = None,
    ) -> None:
        self.model, self.tokenizer, self.head = model.eval(), tokenizer, HEAD
        self.config = config or SpanConfig()
        self.max_tokens = min(max_tokens or model.config.context, model.config.context)

    @overload
    def __call__(self, question: str, passage: str, **settings: Any) -> Answer: ...

    @overload
    def __call__(
        self, question: Sequence[str] | Sequence[Asked], passage: str | Sequence[str] | None = ..., **settings: Any
    ) -> list[Answer]: ...

    def __call__(
        self,
        question: str | Sequence[str] | Sequence[Asked],
        passage: str | Sequence[str] | None = None,
        **settings: Any,
    ) -> Answer | list[Answer]:
        """The answer to a question about a passage.

        Of lists, the answers to many: questions and as many passages, questions about one passage, or a list of
        (question, passage). `settings` are those of SpanConfig: n_best, threshold, stride, max_answer_tokens.
        """
        config = from_dict(SpanConfig, {**to_dict(self.config), **settings})
        if isinstance(question, str):
            if not isinstance(passage, str):
                raise UsageError("a question needs a passage: give both, each as a str.")
            return self._answers([(question, passage)], config)[0]
        return self._answers(_paired(question, passage), config)

    def _answers(self, asked: Sequence[Asked], config: SpanConfig) -> list[Answer]:
        readings = self.readings(asked, stride=config.stride)
        return [
            self._answer(question, reading, outputs, config)
            for (question, _), reading, outputs in zip(asked, readings, self.outputs(readings), strict=True)
        ]

    def outputs(self, readings: Sequence[Reading]) -> list[list[Floats]]:
        """What the model says to the windows of each reading: (T, 2), beginnings and ends."""
        rows = [window.row for reading in readings for window in reading.windows]
        found = iter(read_rows(self.model, rows, self.tokenizer.pad_id))
        return [[next(found).numpy() for _ in reading.windows] for reading in readings]

    def readings(self, asked: Sequence[Asked], *, stride: int) -> list[Reading]:
        """Questions with the windows in which their passages are read. A passage that comes again is cut once."""
        require_two_segments(self.model.config)
        _refuse_emptiness(asked)
        start_id, end_id = self.tokenizer.start_id, self.tokenizer.end_id
        questions, texts = (list(dict.fromkeys(side)) for side in zip(*asked, strict=True)) if asked else ([], [])
        ids = dict(zip(questions, self.tokenizer.encode_batch(questions), strict=True))
        passages = {}
        for text, (pieces, spans) in zip(texts, self.tokenizer.encode_with_spans(texts), strict=True):
            begins, ends = np.array(spans, dtype=np.int64).reshape(-1, 2).T
            passages[text] = Passage(text, pieces, begins, ends)
            if not passages[text].shown.any():
                raise UsageError(f"a passage has no words: {text[:40]!r}.")
        return [
            Reading(
                passages[text],
                windows(
                    ids[question],
                    passages[text].ids,
                    start_id=start_id,
                    end_id=end_id,
                    longest=self.max_tokens,
                    stride=stride,
                ),
            )
            for question, text in asked
        ]

    def _answer(self, question: str, reading: Reading, outputs: Sequence[Floats], config: SpanConfig) -> Answer:
        passage = reading.passage
        scores = span_scores(reading, outputs, config.max_answer_tokens)
        silence = silence_score(outputs)
        whole = _log_sum(scores, None if config.threshold is None else silence)
        best = []
        for first, last, score in best_spans(scores, config.n_best):
            start, end = int(passage.begins[first]), int(passage.ends[last])
            best.append(Span(passage.text[start:end], start, end, score, math.exp(score - whole)))
        no_answer = silence - best[0].score
        silent = config.threshold is not None and no_answer > config.threshold
        chosen = Span("", 0, 0, silence, math.exp(silence - whole)) if silent else best[0]
        return Answer(
            question=question,
            passage=passage.text,
            text=chosen.text,
            start=chosen.start,
            end=chosen.end,
            probability=chosen.probability,
            no_answer=no_answer,
            best=tuple(best),
        )

    def trace(self, text: str | Asked, *, grad: bool = False) -> Trace:
        """All attention over a question and its passage; of a long passage, over its beginning."""
        if isinstance(text, str):
            raise UsageError("this model answers questions about passages: give two texts, a question and a passage.")
        (reading,) = self.readings([text], stride=self.config.stride)
        row = reading.windows[0].row
        return self.trace_row(row, grad=grad)

    def contents(self) -> FolderContents:
        contents = super().contents()
        return dataclasses.replace(contents, config={**contents.config, "answering": to_dict(self.config)})

    def usage(self, folder: Path) -> Usage:
        return Usage(
            command=f'regard answer {folder} "Who …?" "…"\nregard evaluate {folder} test.json',
            python=f'import regard\n\nanswerer = regard.load("{folder.as_posix()}")\nprint(answerer("Who …?", "…"))',
            pipeline="question-answering",
        )

    def __repr__(self) -> str:
        silent = "always answers" if self.config.threshold is None else f"threshold {self.config.threshold:g}"
        return f"Answerer({count_weights(self.model) / 1e6:.1f} M parameters, {self.max_tokens} tokens, {silent})"


def _paired(question: Sequence[str] | Sequence[Asked], passage: str | Sequence[str] | None) -> list[Asked]:
    """Lists of questions and passages as a list of both."""
    if passage is None:
        pairs = [one for one in question if isinstance(one, tuple) and len(one) == 2]
        if len(pairs) < len(question):
            raise UsageError("questions need passages: give a list of (question, passage), or two lists.")
        return pairs
    passages = [passage] * len(question) if isinstance(passage, str) else list(passage)
    if len(passages) != len(question):
        raise UsageError(
            f"{number_of(len(question), 'question')} and {number_of(len(passages), 'passage')} do not go together."
        )
    return [(str(one), text) for one, text in zip(question, passages, strict=True)]


def _refuse_emptiness(asked: Sequence[Asked]) -> None:
    for number, texts in enumerate(asked, start=1):
        for what, text in zip(("question", "passage"), texts, strict=True):
            if not text.strip():
                raise UsageError(f"the {what} of example {number} is empty; each needs a question and a passage.")


# --- Scores ------------------------------------------------------------------------------------------------


def golds_of(questions: Sequence[Question]) -> dict[str, list[str]]:
    return {one.id: [text for _, text in one.answers] for one in questions}


def score(questions: Sequence[Question], answers: Sequence[Answer], threshold: float | None) -> list[Score]:
    """Exact match and F1; where some questions have no answer, also apart for both kinds, and at the best threshold."""
    golds = golds_of(questions)
    found = score_answers({one.id: given.text for one, given in zip(questions, answers, strict=True)}, golds)
    at = "" if threshold is None else f"|threshold:{threshold:.4g}"
    scores = [dataclasses.replace(one, signature=one.signature + at) for one in (found.exact, found.f1)]
    for kind, values in (("with an answer", found.with_answer), ("without one", found.without_answer)):
        if values is not None:
            scores += [
                Score(f"{one.name}, questions {kind}", value, one.signature)
                for one, value in zip(scores[:2], values, strict=True)
            ]
    if all(golds.values()):
        return scores
    always, certainty = _unsilenced(questions, answers)
    for one, best in zip((found.exact, found.f1), best_thresholds(always, certainty, golds), strict=True):
        scores.append(Score(f"best {one.name}", best.score, f"{one.signature}|threshold:{best.value:.4g}"))
    return scores


def best_threshold(questions: Sequence[Question], answers: Sequence[Answer]) -> float:
    """The threshold that gives the highest F1: half-way to the next question, since sums round now so, now so.

    Where nothing is better than silence, it lies below all questions.
    """
    always, certainty = _unsilenced(questions, answers)
    _, best = best_thresholds(always, certainty, golds_of(questions))
    higher = [value for value in certainty.values() if value > best.value]
    return (best.value + min(higher)) / 2 if higher else best.value + 1


def _unsilenced(questions: Sequence[Question], answers: Sequence[Answer]) -> tuple[dict[str, str], dict[str, float]]:
    """By id: the answer that would be given if one had to be, and how much rather none would be given."""
    names = [one.id for one in questions]
    always = dict(zip(names, (given.best[0].text for given in answers), strict=True))
    return always, dict(zip(names, (given.no_answer for given in answers), strict=True))


def baselines(questions: Sequence[Question]) -> list[Score]:
    """What a reader would reach that does not know the question: the first sentence always, or silence."""
    golds = golds_of(questions)
    said = {"the first sentence": {one.id: first_sentence(one.passage) for one in questions}}
    if not all(golds.values()):
        said["silence"] = dict.fromkeys(golds, "")
    found = []
    for name, answers in said.items():
        scores = score_answers(answers, golds)
        found += [one.as_baseline(name) for one in (scores.exact, scores.f1)]
    return found


# --- Training ----------------------------------------------------------------------------------------------


class _Examples(NamedTuple):
    """Windows as a model learns from them."""

    rows: list[Row]
    targets: Tensor  # where the answer begins and ends in each: (rows, 2)
    unreachable: int  # questions whose answer no window holds as a whole


class AnswerTask(RowTask[Answerer]):
    """Questions about passages with a model that learns to answer them."""

    name = NAME
    model: BertForSpans
    counted = "windows"
    summary = Answerer.summary
    sample_names = SampleNames("Question and passage", "Answer", "The model's")

    def __init__(
        self,
        *,
        model: BertForSpans,
        tokenizer: Tokenizer,
        questions: tuple[Sequence[Question], Sequence[Question]],
        config: LabelConfig,
        spans: SpanConfig | None = None,
        data: Sequence[CardData] = (),
    ) -> None:
        """`questions` are those of training and those of validation."""
        spans = spans or SpanConfig()
        self.questions = questions
        silent = any(one.impossible for side in questions for one in side)
        self._chooses = silent and spans.threshold is None
        if self._chooses:
            spans = dataclasses.replace(spans, threshold=0.0)  # until validation says better
        self.product = Answerer(model, tokenizer, config=spans, max_tokens=config.max_tokens)
        train, held = (self._examples(side) for side in questions)
        self._targets = train.targets, held.targets
        self.unreachable = train.unreachable
        super().__init__(
            model=model,
            tokenizer=tokenizer,
            train=train.rows,
            validation=held.rows,
            config=config,
            data=data,
            scored_on=f"validation, {number_of(len(questions[1]), 'question')}",
        )

    def _examples(self, questions: Sequence[Question]) -> _Examples:
        asked = [(one.question, one.passage) for one in questions]
        rows, targets, unreachable = [], [], 0
        for one, reading in zip(
            questions, self.product.readings(asked, stride=self.product.config.stride), strict=True
        ):
            answer = reading.passage.tokens_of(*one.answers[0]) if one.answers else None
            places = [target(window, answer) for window in reading.windows]
            rows += [window.row for window in reading.windows]
            targets += places
            unreachable += bool(one.answers) and not any(begin for begin, _ in places)
        return _Examples(rows, torch.tensor(targets), unreachable)

    def outcome(self, outputs: Tensor, indices: Sequence[int], *, held: bool) -> Loss:
        rows = self.validation if held else self.train
        lengths = torch.tensor([len(rows[index].ids) for index in indices], device=outputs.device)
        padding = torch.arange(outputs.shape[1], device=outputs.device) >= lengths[:, None]
        logits = outputs.masked_fill(padding[..., None], float("-inf")).transpose(1, 2)  # (B, 2, T)
        targets = self._targets[held][list(indices)].to(outputs.device)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        return Loss(loss, loss.detach(), len(indices))

    def due(self, *, held: bool) -> bytes:
        return self._targets[held].numpy().tobytes()

    def evaluate(self) -> tuple[list[Score], list[Sample]]:
        held = self.questions[1]
        asked = [(one.question, one.passage) for one in held]
        found = self.result()(asked)
        if self._chooses and any(one.impossible for one in held):
            chosen = dataclasses.replace(self.product.config, threshold=best_threshold(held, found))
            self.product.config = chosen
            found = [silenced(one, chosen.threshold) for one in found]
        scores = score(held, found, self.product.config.threshold) + baselines(held)
        golds = [[text for _, text in one.answers] for one in held]
        right = [exact_match(given.text, gold) for given, gold in zip(found, golds, strict=True)]
        # Mistakes teach more than successes: they come first.
        order = sorted(range(len(held)), key=lambda n: (right[n], n))[:SAMPLES]
        return scores, [_sample(held[n], found[n], is_right=bool(right[n])) for n in order]

    def traces(self, samples: Sequence[Sample]) -> list[tuple[str, Trace]]:
        one = self.questions[1][0]
        return [(one.question[:80], self.result().trace((one.question, one.passage)))]

    def answering(self) -> dict[str, Any]:
        return to_dict(self.product.config)


def target(window: Window, answer: tuple[int, int] | None) -> tuple[int, int]:
    """Where an answer, given as tokens of the passage, begins and ends in a window; [CLS] if it is not all there."""
    if answer is None or answer[0] < window.first or answer[1] >= window.first + window.tokens:
        return 0, 0
    moved = window.row.first - window.first
    return answer[0] + moved, answer[1] + moved


def silenced(answer: Answer, threshold: float | None) -> Answer:
    """The answer as another threshold would have it; how likely it is does not change."""
    if threshold is not None and answer.no_answer > threshold:
        return dataclasses.replace(answer, text="", start=0, end=0)
    best = answer.best[0]
    return dataclasses.replace(answer, text=best.text, start=best.start, end=best.end)


def _sample(question: Question, answer: Answer, *, is_right: bool) -> Sample:
    gold = next((text for _, text in question.answers), NO_ANSWER)
    given = answer.text or NO_ANSWER
    passage = question.passage if len(question.passage) <= SHOWN else question.passage[:SHOWN] + " …"
    return Sample(f"{question.question} – {passage}", given if is_right else gold, given)


def make_answerer_model(settings: BertConfig, head: HeadConfig, *, seed: int) -> BertForSpans:
    """A fresh model with a fresh head."""
    return fresh(lambda: BertForSpans(settings), seed=seed)
