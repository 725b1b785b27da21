"""Predictor for multiple choice, with its results and scores.

Each ending is the second text of a pair, after the context; the model returns one logit per pair.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch

from regard.data.labelled import MultipleChoiceExample
from regard.metrics.labels import accuracy
from regard.metrics.score import Score, Scores
from regard.nn.hooks import Trace
from regard.tasks.base import Notify, Result
from regard.tasks.choose.spec import SPEC
from regard.tasks.encoder.predictor import EncodedExample, HeadPredictor, encode_pairs, input_notes, predict_logits
from regard.utils.errors import UsageError


@dataclass(frozen=True, repr=False)
class Choice(Result):
    """The ending that fits a context best, and the probability of each ending."""

    context: str
    endings: tuple[str, ...]
    choice_index: int  # index of the chosen ending, from 0
    scores: tuple[float, ...]

    recorded = ("context", "endings", "choice_index", "text", "scores")
    shown = ("choice_index", "text", "score")
    digits = 6

    @property
    def text(self) -> str:
        """The chosen ending."""
        return self.endings[self.choice_index]

    @property
    def score(self) -> float:
        """The probability of the chosen ending."""
        return self.scores[self.choice_index]

    def __str__(self) -> str:
        return self.text


class MultipleChoice(HeadPredictor[Choice]):
    """Contexts and endings → the best ending: `model("She opens it.", ["She closes it.", "It rains."]).text`.

    `majority_label` is the most common index of the right ending in training.
    """

    spec = SPEC
    summary = "A text and several endings go in, the ending that fits the text best comes out."

    def _predict(self, inputs: list[Any], config: Any, notify: Notify) -> list[Choice]:
        """The best ending of each (context, endings)."""
        choices = [_choice(value) for value in inputs]
        examples, counts = self.encode(choices), [len(endings) for _, endings in choices]
        for line in input_notes(examples, self.max_seq_len, "choice", pairs=True, counts=counts):
            notify(line)
        logits = iter(float(output) for output in predict_logits(self.model, examples, self.tokenizer.pad_id))
        return [_chosen(context, endings, list(islice(logits, len(endings)))) for context, endings in choices]

    def encode(self, choices: Iterable[tuple[str, Sequence[str]]]) -> list[EncodedExample]:
        """Encode each context with each of its endings, in order."""
        self.require_pairs()
        pairs = [(context, ending) for context, endings in choices for ending in endings]
        return encode_pairs(self.tokenizer, pairs, self.max_seq_len)

    def input_of(self, example: MultipleChoiceExample) -> tuple[str, tuple[str, ...]]:
        return example.context, example.endings

    def score(self, examples: Sequence[MultipleChoiceExample], results: Sequence[Choice], config: Any = None) -> Scores:
        chosen = [result.choice_index for result in results]
        return Scores(choice_scores(chosen, labels_of(examples), self.majority_label))

    def encode_input(self, text: Any) -> EncodedExample:
        """Encode a context with an ending; if several endings are given, with the one that the model chooses."""
        texts = _texts(text)
        ending = texts[1] if len(texts) == 2 else self.predict([texts])[0].text
        return super().encode_input((texts[0], ending))

    def trace(self, *inputs: Any, grad: bool = False) -> Trace:
        """All attention over a context and an ending; if several endings are given, the one that the model chooses."""
        return self.trace_example(self.encode_input(inputs), grad=grad)


def _choice(value: Any) -> tuple[str, tuple[str, ...]]:
    """Return the context and the endings of an input."""
    texts = _texts(value)
    if len(texts) < 3 or not all(isinstance(text, str) for text in texts):
        message = "an input must be (context, [ending, ending …]), with two or more endings."
        raise UsageError(message, argument="endings")
    return texts[0], texts[1:]


def _texts(value: Any) -> tuple[Any, ...]:
    """Return all texts of an input, given as (context, endings) or (context, ending, ending …)."""
    texts: tuple[Any, ...] = tuple(value) if isinstance(value, tuple | list) else ()
    return (texts[0], *texts[1]) if len(texts) == 2 and isinstance(texts[1], tuple | list) else texts


def _chosen(context: str, endings: tuple[str, ...], logits: Sequence[float]) -> Choice:
    scores = torch.tensor(logits, dtype=torch.float64).softmax(dim=0)
    return Choice(context, endings, int(scores.argmax()), tuple(scores.tolist()))


def labels_of(examples: Iterable[MultipleChoiceExample]) -> list[int]:
    """The indices of the right endings."""
    return [example.label for example in examples if example.label is not None]


def choice_scores(chosen: Sequence[int], labels: Sequence[int], majority_label: tuple[str, ...] | None) -> list[Score]:
    """The accuracy, as in SWAG, and that of a baseline: always choosing the most common index of the training data."""
    predicted, references = ([str(index) for index in side] for side in (chosen, labels))
    name = "this file's own majority" if majority_label is None else "the majority"
    (constant,) = majority_label or majority_index(labels)
    return [
        accuracy(predicted, references),
        accuracy([constant] * len(references), references).as_baseline(name, f"always:ending{constant}"),
    ]


def majority_index(labels: Iterable[int]) -> tuple[str]:
    """Return the most common index of the right ending; on a tie, the first in the data."""
    counts = Counter(labels)
    return (str(min(counts, key=lambda index: (-counts[index], index))),)
