"""Sequence classification and regression, with one output per text or pair: the base of `classify` and `pair`.

The loss is cross-entropy for one label, binary cross-entropy for several labels and squared error for regression. The
metrics are those of GLUE. The baseline always predicts the most common label.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.checkpoint.folder import ModelFolder
from regard.metrics.labels import accuracy, confusion, f1, majority, matthews, overlap_baseline, pearson, spearman
from regard.metrics.score import Score, Scores
from regard.models.heads import HeadConfig
from regard.nn.hooks import Trace
from regard.tasks.base import Notify, Result, Splits
from regard.tasks.data import Gold, LabelledExample, Text
from regard.tasks.encoder.batching import EncodedExample, EncoderBatch, input_notes
from regard.tasks.encoder.inference import predict_logits
from regard.tasks.encoder.objective import EncoderInit, EncoderObjective
from regard.tasks.encoder.predictor import HeadPredictor
from regard.training.objective import Sample, SampleNames
from regard.training.run import TrainRequest
from regard.utils.errors import UsageError, shorten_list


@dataclass(frozen=True)
class Classification(Result):
    """The predicted labels of a text or pair with the probabilities of all labels, or the predicted number."""

    text: Text = field(repr=False)
    labels: tuple[str, ...]
    scores: dict[str, float] = field(default_factory=dict, repr=False)
    number: float | None = None

    digits = 6

    @property
    def recorded(self) -> tuple[str, ...]:  # type: ignore[override]
        inputs = ("text",) if isinstance(self.text, str) else ("first", "second")
        return (*inputs, *(("label", "labels", "score", "scores") if self.number is None else ("number",)))

    @property
    def first(self) -> str:
        return self.text[0]

    @property
    def second(self) -> str:
        return self.text[1]

    @property
    def label(self) -> str:
        """The label, or several labels joined by commas."""
        return ", ".join(self.labels)

    @property
    def score(self) -> float:
        """The probability of the label (of the least probable one if there are several), or the predicted number."""
        if self.number is not None:
            return self.number
        return min((self.scores[label] for label in self.labels), default=max(self.scores.values()))

    @property
    def gold(self) -> Gold:
        """The prediction in the form of a gold label."""
        return self.labels if self.number is None else self.number

    def __str__(self) -> str:
        return self.label if self.number is None else f"{self.number:.3f}"


class SequencePredictor(HeadPredictor[Classification]):
    """Predicts labels or numbers for texts or pairs."""

    accepts_pairs = False  # True if the folder does not say whether the head was trained on texts or on pairs

    @abstractmethod
    def encode(self, texts: Sequence[Text]) -> list[EncodedExample]:
        """Encode each text or pair."""

    def input_of(self, example: LabelledExample) -> Text:
        return example.text

    def _predict(self, inputs: list[Text], config: Any, notify: Notify) -> list[Classification]:
        examples, pairs = self.encode(inputs), len(self.spec.inputs) == 2
        for line in input_notes(examples, self.max_seq_len, "pair" if pairs else "text", pairs=pairs):
            notify(line)
        logits = predict_logits(self.model, examples, self.tokenizer.pad_id)
        return [self._classify(text, row, config.threshold) for text, row in zip(inputs, logits, strict=True)]

    def _classify(self, text: Text, logits: Tensor, threshold: float) -> Classification:
        kind, labels = self.head.problem_type, self.head.labels
        if kind == "regression":
            return Classification(text, (), number=logits[0].item())
        several = kind == "multi_label_classification"
        probabilities = logits.sigmoid() if several else logits.softmax(dim=-1)
        scores = dict(zip(labels, probabilities.tolist(), strict=True))
        if several:
            return Classification(text, tuple(label for label, score in scores.items() if score >= threshold), scores)
        return Classification(text, (labels[int(logits.argmax())],), scores)

    def score(
        self, examples: Sequence[LabelledExample], results: Sequence[Classification], config: Any = None
    ) -> Scores:
        texts, gold = [example.text for example in examples], [example.gold for example in examples]
        scores = sequence_scores([result.gold for result in results], gold, self.head)
        table = None
        if self.head.problem_type == "single_label_classification":
            table = confusion([result.label for result in results], [example.labels[0] for example in examples])
        return Scores(scores + baseline(self.majority_label, texts, gold, self.head), table)

    def trace(self, *inputs: Any, grad: bool = False) -> Trace:
        (example,) = self.encode([inputs[0] if len(inputs) == 1 else inputs])
        return self.trace_example(example, grad=grad)

    @property
    def summary(self) -> str:
        goes_in = "Two texts go in" if len(self.spec.inputs) == 2 else "A text goes in"
        if self.head.problem_type == "regression":
            return f"{goes_in}, a number comes out."
        count = "any number" if self.head.problem_type == "multi_label_classification" else "one"
        listed = shorten_list([repr(label) for label in self.head.labels])
        return f"{goes_in}, {count} of these labels comes out: {listed}."

    def folder_config(self) -> Mapping[str, Any]:
        return {**super().folder_config(), **({"accepts_pairs": True} if self.accepts_pairs else {})}

    @classmethod
    def load(cls, folder: ModelFolder, model: Any) -> Self:
        predictor = super().load(folder, model)
        predictor.accepts_pairs = bool(folder.config.get("accepts_pairs"))
        return predictor

    def _outputs(self) -> str:
        return "a number" if self.head.problem_type == "regression" else super()._outputs()


# --- Scores ------------------------------------------------------------------------------------------------


def sequence_scores(predicted: Sequence[Gold], gold: Sequence[Gold], head: HeadConfig) -> list[Score]:
    """Return the GLUE scores: accuracy, F1 and Matthews for labels, Pearson and Spearman for numbers.

    F1 is macro-averaged; multi-label adds micro F1, and two labels add the F1 of the second ("1" in MRPC and QQP).
    """
    if head.problem_type == "regression":
        numbers, references = ([float(v) for v in side if not isinstance(v, tuple)] for side in (predicted, gold))
        return [pearson(numbers, references), spearman(numbers, references)]
    labels, expected = ([value for value in side if isinstance(value, tuple)] for side in (predicted, gold))
    scores = [accuracy(labels, expected), f1(labels, expected, average="macro")]
    if head.problem_type == "multi_label_classification":
        return [*scores, f1(labels, expected, average="micro")]
    if len(head.labels) == 2:
        scores.append(f1(labels, expected, average="binary", positive=head.labels[1]))
    return [*scores, matthews([label for (label,) in labels], [label for (label,) in expected])]


def most_common_labels(gold: Sequence[Gold]) -> tuple[str, ...] | None:
    """Return the most common label or set of labels, or None for numbers."""
    sets = [labels for labels in gold if isinstance(labels, tuple)]
    return tuple(majority(sets)) if sets else None


def baseline(
    majority_label: tuple[str, ...] | None, texts: Sequence[Text], gold: Sequence[Gold], head: HeadConfig
) -> list[Score]:
    """Return the scores of always predicting the most common training label.

    If that label is unknown, the most common one in `gold` is used, and the scores say so. A constant prediction has no
    correlation, so the regression baseline for pairs is the fraction of words that the two texts share.
    """
    if head.problem_type == "regression":
        pairs = [text for text in texts if isinstance(text, tuple)]
        numbers = [float(value) for value in gold if not isinstance(value, tuple)]
        return overlap_baseline(pairs, numbers) if len(pairs) == len(numbers) else []
    constant = most_common_labels(gold) if majority_label is None else majority_label
    if constant is None:
        return []
    name = "this file's own majority" if majority_label is None else "the majority"
    scores = sequence_scores([constant] * len(gold), gold, head)[:2]
    return [score.as_baseline(name, f"always:{'+'.join(constant) or 'none'}") for score in scores]


# --- Training ----------------------------------------------------------------------------------------------


class SequenceObjective(EncoderObjective):
    """Trains a model to predict labels or numbers for texts or pairs."""

    @classmethod
    def prepare(cls, splits: Splits[LabelledExample], request: TrainRequest) -> Self:
        if _is_balanced(request) and splits.head.problem_type != "single_label_classification":
            raise UsageError("--class-weights balanced needs exactly one label per text.", argument="class_weights")
        objective = super().prepare(splits, request)
        if splits.head.problem_type == "regression":  # start at the mean to save training steps
            numbers = [example.gold for example in splits.train if isinstance(example.gold, float)]
            objective.model.head.output.bias.data.fill_(math.fsum(numbers) / len(numbers))
        return objective

    def __init__(self, init: EncoderInit, request: TrainRequest, splits: Splits[LabelledExample]) -> None:
        super().__init__(init, request, splits)
        self.sample_names = SampleNames("Text", "Label", "Prediction", self.head.problem_type != "regression")
        balanced = _is_balanced(request)
        self._class_weights = class_weights(self._targets[0], len(self.head.labels)) if balanced else None

    @staticmethod
    def tokenizer_texts(examples: Sequence[LabelledExample]) -> list[str]:
        return [example.text if isinstance(example.text, str) else " ".join(example.text) for example in examples]

    def majority_label(self, examples: Sequence[LabelledExample]) -> tuple[str, ...] | None:
        return most_common_labels([example.gold for example in examples])

    def encode(self, examples: Sequence[LabelledExample]) -> tuple[list[EncodedExample], list[Any]]:
        """Encode examples; the target is a label index, a 0 or 1 for each label, or the number itself."""
        predictor: Any = self._predictor
        rows, labels = predictor.encode([example.text for example in examples]), self.head.labels
        if self.head.problem_type == "regression":
            return rows, [[example.gold] for example in examples]
        if self.head.problem_type == "multi_label_classification":
            return rows, [[float(label in example.labels) for label in labels] for example in examples]
        index = {label: place for place, label in enumerate(labels)}
        return rows, [index[example.labels[0]] for example in examples]

    def compute_loss(self, logits: Tensor, targets: list[Any], batch: EncoderBatch) -> Tensor:
        wanted = torch.tensor(targets, device=logits.device)
        if self.head.problem_type != "single_label_classification":
            compare = F.mse_loss if self.head.problem_type == "regression" else F.binary_cross_entropy_with_logits
            return compare(logits, wanted, reduction="none").mean(dim=-1).mean()
        losses = F.cross_entropy(logits, wanted, reduction="none")
        # The validation loss is weighted too, so that the best weights are selected by the training loss.
        weights = self._class_weights
        return losses.mean() if weights is None else (losses * weights.to(logits.device)[wanted]).mean()

    def sample(self, example: LabelledExample, result: Classification) -> Sample:
        reference = f"{example.gold:g}" if isinstance(example.gold, float) else ", ".join(example.gold)
        return Sample(" / ".join(self.trace_inputs(example)), reference, str(result))


def _is_balanced(request: TrainRequest) -> bool:
    return getattr(request.config, "class_weights", "none") == "balanced"


def class_weights(targets: Sequence[int], num_labels: int) -> Tensor:
    """Return a weight per label such that all labels count the same; the mean weight over examples is 1."""
    counts = torch.bincount(torch.tensor(targets), minlength=num_labels).clamp(min=1)
    return len(targets) / (num_labels * counts.float())
