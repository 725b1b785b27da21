"""Sequence classification and regression: one output for each text or pair. The base of `classify` and `pair`.

The loss is the cross-entropy; of several labels that of each by itself; of numbers the squared error. The metrics are
those of GLUE, beside what always predicting the most common label would reach.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.checkpoint.folder import ModelFolder
from regard.metrics.correlation import pearson, spearman
from regard.metrics.labels import accuracy, confusion, f1, majority, matthews
from regard.metrics.overlap import overlap_baseline
from regard.metrics.score import Score, Scores
from regard.models.heads import HeadConfig
from regard.nn.hooks import Trace
from regard.tasks.base import Notify
from regard.tasks.encoder.batching import EncodedExample, input_notes
from regard.tasks.encoder.inference import predict_logits
from regard.tasks.encoder.labels import Gold, LabelledExample, LabelledSplits, Text
from regard.tasks.encoder.objective import EncoderInit, EncoderObjective, init_encoder, mistakes_first
from regard.tasks.encoder.predictor import EncoderPredictor, read_majority_label
from regard.training.objective import Loss, Sample, SampleNames
from regard.training.request import TrainRequest
from regard.utils.config import Config
from regard.utils.errors import UsageError, number_of, shorten_list


@dataclass(frozen=True)
class Classification:
    """The labels of a text or pair with the probability of every label; or the number of a regression."""

    text: Text = field(repr=False)
    labels: tuple[str, ...]
    scores: dict[str, float] = field(default_factory=dict, repr=False)
    number: float | None = None

    @property
    def label(self) -> str:
        """The label; several are joined by commas."""
        return ", ".join(self.labels)

    @property
    def score(self) -> float:
        """The probability of the label, or the number of a regression; of several labels, of the least probable."""
        if self.number is not None:
            return self.number
        return min((self.scores[label] for label in self.labels), default=max(self.scores.values()))

    @property
    def gold(self) -> Gold:
        """The prediction in the form of a gold label."""
        return self.labels if self.number is None else self.number

    def record(self) -> dict[str, Any]:
        names = ("text",) if isinstance(self.text, str) else ("first", "second")
        texts = (self.text,) if isinstance(self.text, str) else self.text
        inputs = dict(zip(names, texts, strict=True))
        if self.number is not None:
            return {**inputs, "number": round(self.number, 6)}
        scores = {label: round(value, 6) for label, value in self.scores.items()}
        return {
            **inputs,
            "label": self.label,
            "labels": list(self.labels),
            "score": round(self.score, 6),
            "scores": scores,
        }

    def __str__(self) -> str:
        return self.label if self.number is None else f"{self.number:.3f}"


class SequencePredictor(EncoderPredictor[Classification]):
    """Texts or pairs → labels or numbers."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        head: HeadConfig,
        config: Config | None = None,
        max_seq_len: int | None = None,
        majority_label: tuple[str, ...] | None = None,
        accepts_pairs: bool = False,
    ) -> None:
        """`majority_label` is the most common label of training; `accepts_pairs`: the folder does not say which."""
        super().__init__(model, tokenizer, head=head, config=config, max_seq_len=max_seq_len)
        self.majority_label, self.accepts_pairs = majority_label, accepts_pairs

    @abstractmethod
    def encode(self, texts: Sequence[Text]) -> list[EncodedExample]:
        """The ids of each text or pair."""

    def predict(
        self, inputs: Sequence[Any], config: Config | None = None, *, notify: Notify | None = None
    ) -> list[Classification]:
        texts = list(inputs)
        examples = self.encode(texts)
        if notify is not None:
            pairs = len(self.spec.inputs) == 2
            for line in input_notes(examples, self.max_seq_len, "pair" if pairs else "text", pairs=pairs):
                notify(line)
        threshold = getattr(config or self.config, "threshold", 0.5)
        logits = predict_logits(self.model, examples, self.tokenizer.pad_id)
        return [self._classification(text, output, threshold) for text, output in zip(texts, logits, strict=True)]

    def _classification(self, text: Text, logits: Tensor, threshold: float) -> Classification:
        kind, labels = self.head.problem_type, self.head.labels
        if kind == "regression":
            return Classification(text, (), number=logits[0].item())
        probabilities = logits.sigmoid() if kind == "multi_label_classification" else logits.softmax(dim=-1)
        scores = dict(zip(labels, probabilities.tolist(), strict=True))
        if kind == "multi_label_classification":
            return Classification(text, tuple(label for label, score in scores.items() if score >= threshold), scores)
        return Classification(text, (labels[int(logits.argmax())],), scores)

    def evaluate(self, examples: Sequence[LabelledExample], config: Config | None = None) -> Scores:
        texts, gold = [example.text for example in examples], [example.gold for example in examples]
        return self.score(texts, gold, self.predict(texts, config))

    def score(self, texts: Sequence[Text], gold: Sequence[Gold], results: Sequence[Classification]) -> Scores:
        """The scores of predictions, beside those of the most common label."""
        predicted = [result.gold for result in results]
        scores = sequence_scores(predicted, gold, self.head) + baseline(self.majority_label, texts, gold, self.head)
        table = None
        if self.head.problem_type == "single_label_classification":
            references = [labels[0] for labels in gold if isinstance(labels, tuple)]
            table = confusion([result.label for result in results], references)
        return Scores(scores, table)

    def trace(self, *inputs: Any, grad: bool = False) -> Trace:
        text = inputs[0] if len(inputs) == 1 else tuple(inputs)
        (example,) = self.encode([text])
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
        known: dict[str, Any] = {} if self.majority_label is None else {"majority_label": list(self.majority_label)}
        return {**super().folder_config(), **known, **({"accepts_pairs": True} if self.accepts_pairs else {})}

    @classmethod
    def load(cls, folder: ModelFolder, model: Any) -> Self:
        return cls(
            model,
            majority_label=read_majority_label(folder, folder.head.labels.__contains__),
            accepts_pairs=bool(folder.config.get("accepts_pairs")),
            **cls.init_arguments(folder),
        )

    def _outputs(self) -> str:
        return "a number" if self.head.problem_type == "regression" else shorten_list(self.head.labels)


# --- Scores ------------------------------------------------------------------------------------------------


def sequence_scores(predicted: Sequence[Gold], gold: Sequence[Gold], head: HeadConfig) -> list[Score]:
    """The scores of GLUE, among others: of labels accuracy, F1 and Matthews, of numbers both correlations.

    F1 is the mean over labels and, of two labels, also that of the second one ("1" in MRPC and QQP).
    """
    if head.problem_type == "regression":
        numbers, references = ([float(v) for v in side if not isinstance(v, tuple)] for side in (predicted, gold))
        return [pearson(numbers, references), spearman(numbers, references)]
    given = [value for value in predicted if isinstance(value, tuple)]
    wanted = [value for value in gold if isinstance(value, tuple)]
    scores = [accuracy(given, wanted), f1(given, wanted, average="macro")]
    if head.problem_type == "multi_label_classification":
        return [*scores, f1(given, wanted, average="micro")]
    if len(head.labels) == 2:
        scores.append(f1(given, wanted, average="binary", positive=head.labels[1]))
    return [*scores, matthews([labels[0] for labels in given], [labels[0] for labels in wanted])]


def most_common_labels(gold: Sequence[Gold]) -> tuple[str, ...] | None:
    """The most common label, or set of labels; None of numbers."""
    sets = [labels for labels in gold if isinstance(labels, tuple)]
    return tuple(majority(sets)) if sets else None


def baseline(
    majority_label: tuple[str, ...] | None, texts: Sequence[Text], gold: Sequence[Gold], head: HeadConfig
) -> list[Score]:
    """The scores of always predicting the most common label of training.

    Where that is unknown it is the most common one of `gold`, and the scores say so. A constant correlates with
    nothing: the baseline of a regression on pairs is the share of words that both texts have.
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
    """Labelled texts or pairs with a model that learns them."""

    predictor_class: ClassVar[type[SequencePredictor]]

    @classmethod
    def prepare(cls, splits: LabelledSplits, request: TrainRequest) -> Self:
        head = splits.head
        balanced = getattr(request.config, "class_weights", "none") == "balanced"
        if balanced and head.problem_type != "single_label_classification":
            raise UsageError("--class-weights balanced needs one label for each text.", argument="class_weights")
        words = [text if isinstance(text, str) else " ".join(text) for text in _texts(splits.train)]
        init = init_encoder(request, head, words)
        if head.problem_type == "regression":  # starting at the mean saves the steps that find it
            numbers = [example.gold for example in splits.train if isinstance(example.gold, float)]
            init.model.head.output.bias.data.fill_(math.fsum(numbers) / len(numbers))
        return cls(init, request, splits)

    def __init__(self, init: EncoderInit, request: TrainRequest, splits: LabelledSplits) -> None:
        self.head, self.splits = splits.head, splits
        self._predictor = self.predictor_class(
            init.model,
            init.tokenizer,
            head=splits.head,
            config=request.predict_config(),
            max_seq_len=init.max_seq_len,
            majority_label=most_common_labels([example.gold for example in splits.train]),
        )
        super().__init__(
            init,
            request,
            train=self._predictor.encode(_texts(splits.train)),
            validation=self._predictor.encode(_texts(splits.validation)),
            notes=splits.notes,
        )
        self.sample_names = SampleNames("Text", "Label", "Prediction", self.head.problem_type != "regression")
        golds = [[example.gold for example in side] for side in (splits.train, splits.validation)]
        self._targets = tuple(_targets(gold, self.head) for gold in golds)
        balanced = getattr(request.config, "class_weights", "none") == "balanced"
        self._class_weights = class_weights(golds[0], self.head) if balanced else None

    def compute_loss(self, logits: Tensor, indices: Sequence[int], *, validation: bool) -> Loss:
        targets = self._targets[validation][list(indices)].to(logits.device)
        weights = None
        if self.head.problem_type == "single_label_classification":
            losses = F.cross_entropy(logits, targets, reduction="none")
            weights = self._class_weights.to(logits.device)[targets] if self._class_weights is not None else None
        else:
            compare = F.mse_loss if self.head.problem_type == "regression" else F.binary_cross_entropy_with_logits
            losses = compare(logits, targets, reduction="none").mean(dim=-1)
        # The validation loss is weighted, too: the best weights are the best at what was asked for.
        loss = losses.mean() if weights is None else (losses * weights).mean()
        return Loss(loss, loss.detach(), len(indices))

    def target_bytes(self, *, validation: bool) -> bytes:
        return self._targets[validation].numpy().tobytes()

    def predictor(self) -> SequencePredictor:
        self.model.eval()
        return self._predictor

    @property
    def scored_on(self) -> str:
        return f"validation, {number_of(len(self.splits.validation), 'example')}"

    def evaluate(self) -> tuple[list[Score], list[Sample]]:
        examples, predictor = self.splits.validation, self.predictor()
        texts, gold = _texts(examples), [example.gold for example in examples]
        results = predictor.predict(texts)
        scores = predictor.score(texts, gold, results)
        order = mistakes_first([result.gold == wanted for result, wanted in zip(results, gold, strict=True)])
        return scores, [Sample(_shown(texts[n]), _written(gold[n]), str(results[n])) for n in order]

    def traces(self, samples: Sequence[Sample]) -> list[tuple[str, Trace]]:
        if "attention" not in self.predictor().capabilities:
            return []
        text = self.splits.validation[0].text
        inputs = (text,) if isinstance(text, str) else text
        return [(_shown(text)[:80], self.predictor().trace(*inputs))]


def class_weights(gold: Sequence[Gold], head: HeadConfig) -> Tensor:
    """A weight for each label, so that all labels count the same over all examples; the mean weight is 1."""
    counts = torch.bincount(_targets(gold, head), minlength=len(head.labels)).clamp(min=1)
    return len(gold) / (len(head.labels) * counts.float())


def _targets(gold: Sequence[Gold], head: HeadConfig) -> Tensor:
    """The targets of the loss: the index of a label, a 0 or 1 for each label, or the number itself."""
    if head.problem_type == "regression":
        return torch.tensor([[value] for value in gold if not isinstance(value, tuple)], dtype=torch.float32)
    sets = [value for value in gold if isinstance(value, tuple)]
    if head.problem_type == "multi_label_classification":
        return torch.tensor([[float(label in labels) for label in head.labels] for labels in sets])
    index = {label: place for place, label in enumerate(head.labels)}
    return torch.tensor([index[labels[0]] for labels in sets])


def _texts(examples: Sequence[LabelledExample]) -> list[Text]:
    return [example.text for example in examples]


def _shown(text: Text) -> str:
    return text if isinstance(text, str) else " / ".join(text)


def _written(gold: Gold) -> str:
    return ", ".join(gold) if isinstance(gold, tuple) else f"{gold:g}"
