"""Texts, or pairs of texts, → labels, or a number: classification and regression with BERT.

An example is a text with one label or any number of them, or a pair with a label or a number. The loss is the
cross-entropy, of several labels that of each by itself, of numbers the squared error. The metrics are those of GLUE,
beside what always saying the same would reach. What a user holds afterwards is a `Classifier`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, overload

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.checkpoint.card import CardData
from regard.errors import UsageError, number_of, some
from regard.metrics.labels import accuracy, f1, majority, matthews
from regard.metrics.numbers import pearson, spearman
from regard.metrics.overlap import overlap_baseline
from regard.metrics.score import Score
from regard.models.bert import BertForSequence
from regard.models.bert_settings import BertConfig, HeadConfig
from regard.nn.packed import count_weights
from regard.nn.taps import Trace
from regard.tasks.embed import Say, WithEncoder
from regard.tasks.labelling import (
    Row,
    RowTask,
    frame_pairs,
    frame_texts,
    fresh,
    read_rows,
    require_two_segments,
    row_remarks,
)
from regard.tasks.settings import CLASSIFY, PAIR, LabelConfig
from regard.tasks.task import FolderContents, Loss, Sample, SampleNames, Usage
from regard.text.tokenizer import Tokenizer

SAMPLES = 8
Gold = tuple[str, ...] | float
Text = str | tuple[str, str]  # what is judged: a text, or two


@dataclass(frozen=True)
class Classified:
    """A text, or two, with the labels given and how likely each possible one is; or with a number."""

    text: Text
    labels: tuple[str, ...]
    probabilities: dict[str, float] = field(default_factory=dict)
    number: float | None = None

    @property
    def label(self) -> str:
        """The label where there is one; several are joined by commas."""
        return ", ".join(self.labels)

    def __str__(self) -> str:
        return self.label if self.number is None else f"{self.number:.3f}"


class Classifier(WithEncoder):
    """Takes texts, or pairs of them, and says what they are. Does not train."""

    model: BertForSequence

    def __init__(
        self,
        model: BertForSequence,
        tokenizer: Tokenizer,
        *,
        head: HeadConfig,
        task: str = CLASSIFY,
        max_tokens: int | None = None,
        commonest: tuple[str, ...] | None = None,
        either: bool = False,
    ) -> None:
        """`commonest` are the commonest labels of training; with `either` nobody knows if it is for texts or pairs."""
        self.model, self.tokenizer, self.head, self.task = model.eval(), tokenizer, head, task
        self.commonest, self.either = commonest, either
        self.max_tokens = min(max_tokens or model.config.context, model.config.context)
        self.summary = summary_of(task, head)

    @overload
    def __call__(self, texts: Text, second: str | None = ..., *, say: Say | None = ...) -> Classified: ...

    @overload
    def __call__(self, texts: list[Any], *, say: Say | None = ...) -> list[Classified]: ...

    def __call__(
        self, texts: Text | list[Any], second: str | None = None, *, say: Say | None = None
    ) -> Classified | list[Classified]:
        """The labels of one text or of many; of a pair two texts are given, of many pairs a list of tuples.

        `say` is told what was cut off, and where there was nothing to read.
        """
        if second is not None:
            if not isinstance(texts, str):
                raise UsageError("a second text goes with one first text; give many pairs as a list of tuples.")
            texts = (texts, second)
        if isinstance(texts, (str, tuple)):
            return self([texts], say=say)[0]
        rows = self.rows(texts)
        if say is not None:
            what = "pair" if self.task == PAIR else "text"
            for line in row_remarks(rows, self.max_tokens, what, pairs=self.task == PAIR):
                say(line)
        outputs = read_rows(self.model, rows, self.tokenizer.pad_id)
        return [self._answer(text, output) for text, output in zip(texts, outputs, strict=True)]

    def rows(self, texts: Sequence[Text]) -> list[Row]:
        """The ids of each text or pair."""
        pairs = [text for text in texts if isinstance(text, tuple)]
        if self.task == PAIR or (self.either and pairs):
            require_two_segments(self.model.config)
            if len(pairs) < len(texts):
                raise UsageError("this model judges pairs: give two texts at a time, as a tuple.")
            return frame_pairs(self.tokenizer, pairs, self.max_tokens)
        if pairs:
            raise UsageError("this model judges single texts: give each as a str.")
        return frame_texts(self.tokenizer, [text for text in texts if isinstance(text, str)], self.max_tokens)

    def _answer(self, text: Text, output: Tensor) -> Classified:
        if self.head.answers == "number":
            return Classified(text, (), number=output[0].item())
        shares = output.sigmoid() if self.head.answers == "several" else output.softmax(dim=-1)
        chances = dict(zip(self.head.labels, shares.tolist(), strict=True))
        if self.head.answers == "several":
            return Classified(text, tuple(label for label, chance in chances.items() if chance >= 0.5), chances)
        return Classified(text, (self.head.labels[int(output.argmax())],), chances)

    def trace(self, text: Text, *, grad: bool = False) -> Trace:
        """All attention over a text or a pair."""
        (row,) = self.rows([text])
        return self.trace_row(row, grad=grad)

    def contents(self) -> FolderContents:
        contents = super().contents()
        return replace(contents, config={**contents.config, "either": True}) if self.either else contents

    def usage(self, folder: Path) -> Usage:
        given = ('"…" "…"', '("…", "…")') if self.task == PAIR else ('"…"', '"…"')
        return Usage(
            command=f"regard {self.task} {folder} {given[0]}\nregard evaluate {folder} test.tsv",
            python=f'import regard\n\nmodel = regard.load("{folder.as_posix()}")\nprint(model({given[1]}))',
            pipeline="text-classification",
        )

    def __repr__(self) -> str:
        what = "a number" if self.head.answers == "number" else some(self.head.labels)
        return f"Classifier({count_weights(self.model) / 1e6:.1f} M parameters, {self.task}: {what})"


def summary_of(task: str, head: HeadConfig) -> str:
    """What such a model is for, in a sentence."""
    goes_in = "Two texts go in" if task == PAIR else "A text goes in"
    if head.answers == "number":
        return f"{goes_in}, a number comes out."
    listed = some([repr(label) for label in head.labels])
    return f"{goes_in}, {'any number' if head.answers == 'several' else 'one'} of these labels comes out: {listed}."


# --- Scores ------------------------------------------------------------------------------------------------


def score_answers(answers: Sequence[Gold], gold: Sequence[Gold], head: HeadConfig) -> list[Score]:
    """The scores that GLUE names, among others: of labels accuracy, F1 and Matthews', of numbers both correlations.

    Of F1 there is the mean over labels and, of one label out of two, also that of the second (in MRPC and QQP "1").
    """
    if head.answers == "number":
        said, due = ([float(value) for value in side if not isinstance(value, tuple)] for side in (answers, gold))
        return [pearson(said, due), spearman(said, due)]
    given = [value for value in answers if isinstance(value, tuple)]
    wanted = [value for value in gold if isinstance(value, tuple)]
    found = [accuracy(given, wanted), f1(given, wanted, average="macro")]
    if head.answers == "several":
        return [*found, f1(given, wanted, average="micro")]
    if len(head.labels) == 2:
        found.append(f1(given, wanted, average="binary", positive=head.labels[1]))
    return [*found, matthews([labels[0] for labels in given], [labels[0] for labels in wanted])]


def commonest_labels(gold: Sequence[Gold]) -> tuple[str, ...] | None:
    """The commonest label, or set of labels; None of numbers, among which no constant correlates with anything."""
    sets = [labels for labels in gold if isinstance(labels, tuple)]
    return tuple(majority(sets)) if sets else None


def baseline(
    commonest: tuple[str, ...] | None, texts: Sequence[Text], gold: Sequence[Gold], head: HeadConfig
) -> list[Score]:
    """What always saying the same would reach: the commonest labels of training.

    Where nobody knows these, they are those of `gold` itself, and the scores are called so. A constant correlates with
    nothing: beside numbers of pairs stands how many words the two texts share.
    """
    if head.answers == "number":
        pairs = [text for text in texts if isinstance(text, tuple)]
        numbers = [float(value) for value in gold if not isinstance(value, tuple)]
        return overlap_baseline(pairs, numbers) if len(pairs) == len(numbers) else []
    said = commonest_labels(gold) if commonest is None else commonest
    if said is None:
        return []
    whose = "this file's own majority" if commonest is None else "the majority"
    scores = score_answers([said] * len(gold), gold, head)[:2]
    return [score.as_baseline(whose, f"always:{'+'.join(said) or 'none'}") for score in scores]


# --- Training ----------------------------------------------------------------------------------------------


class ClassifyTask(RowTask[Classifier]):
    """Labelled texts or pairs with a model that learns them."""

    model: BertForSequence

    def __init__(
        self,
        *,
        task: str,
        model: BertForSequence,
        tokenizer: Tokenizer,
        head: HeadConfig,
        texts: tuple[Sequence[Text], Sequence[Text]],
        gold: tuple[Sequence[Gold], Sequence[Gold]],
        config: LabelConfig,
        data: Sequence[CardData] = (),
    ) -> None:
        """`texts` and `gold` are those of training and those of validation."""
        self.name, self.head, self.texts, self.gold = task, head, texts, gold
        self.product = Classifier(
            model,
            tokenizer,
            head=head,
            task=task,
            max_tokens=config.max_tokens,
            commonest=commonest_labels(gold[0]),
        )
        self.summary = self.product.summary
        super().__init__(
            model=model,
            tokenizer=tokenizer,
            train=self.product.rows(texts[0]),
            validation=self.product.rows(texts[1]),
            config=config,
            data=data,
            scored_on=f"validation, {number_of(len(texts[1]), 'example')}",
        )
        self.sample_names = SampleNames("Text", "Label", "The model's", compared=head.answers != "number")
        self._targets = tuple(_targets(side, head) for side in gold)
        self._weights = class_weights(gold[0], head) if config.class_weights == "balanced" else None

    def outcome(self, outputs: Tensor, indices: Sequence[int], *, held: bool) -> Loss:
        targets = self._targets[held][list(indices)].to(outputs.device)
        if self.head.answers == "one":
            each = F.cross_entropy(outputs, targets, reduction="none")
            weights = self._weights.to(outputs.device)[targets] if self._weights is not None else None
        else:
            weights = None
            compare = F.mse_loss if self.head.answers == "number" else F.binary_cross_entropy_with_logits
            each = compare(outputs, targets, reduction="none").mean(dim=-1)
        # Weighted labels are weighted in validation, too: the weights that are kept are the best at what was asked for.
        loss = each.mean() if weights is None else (each * weights).mean()
        return Loss(loss, loss.detach(), len(indices))

    def due(self, *, held: bool) -> bytes:
        return self._targets[held].numpy().tobytes()

    def evaluate(self) -> tuple[list[Score], list[Sample]]:
        classifier = self.result()
        found = classifier(list(self.texts[1]))
        answers = [gold_of(one) for one in found]
        scores = score_answers(answers, self.gold[1], self.head)
        scores += baseline(classifier.commonest, self.texts[1], self.gold[1], self.head)
        # Mistakes teach more than successes: they come first.
        order = sorted(range(len(found)), key=lambda n: (answers[n] == self.gold[1][n], n))[:SAMPLES]
        return scores, [Sample(_shown(self.texts[1][n]), _written(self.gold[1][n]), str(found[n])) for n in order]

    def traces(self, samples: Sequence[Sample]) -> list[tuple[str, Trace]]:
        text = self.texts[1][0]
        return [(_shown(text)[:80], self.result().trace(text))]


def class_weights(gold: Sequence[Gold], head: HeadConfig) -> Tensor:
    """A weight for each label, so that all labels count the same over all examples, whose mean weight is 1."""
    if head.answers != "one":
        raise UsageError("--class-weights balanced is for texts with one label each.")
    counts = torch.bincount(_targets(gold, head), minlength=len(head.labels)).clamp(min=1)
    return len(gold) / (len(head.labels) * counts.float())


def _targets(gold: Sequence[Gold], head: HeadConfig) -> Tensor:
    """Answers as the loss wants them: the number of a label, a 0 or 1 for each, or the number itself."""
    if head.answers == "number":
        return torch.tensor([[value] for value in gold if not isinstance(value, tuple)], dtype=torch.float32)
    sets = [value for value in gold if isinstance(value, tuple)]
    if head.answers == "several":
        return torch.tensor([[float(label in labels) for label in head.labels] for labels in sets])
    places = {label: place for place, label in enumerate(head.labels)}
    return torch.tensor([places[labels[0]] for labels in sets])


def gold_of(found: Classified) -> Gold:
    """What was answered, in the form of gold answers."""
    return found.labels if found.number is None else found.number


def _shown(text: Text) -> str:
    return text if isinstance(text, str) else " / ".join(text)


def _written(gold: Gold) -> str:
    return ", ".join(gold) if isinstance(gold, tuple) else f"{gold:g}"


def make_classifier_model(settings: BertConfig, head: HeadConfig, *, seed: int) -> BertForSequence:
    """A fresh model with a fresh head."""
    return fresh(lambda: BertForSequence(settings, len(head.labels)), seed=seed)
