"""What the training loop asks of a task. A task is one file that answers these questions for its kind of data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from torch import Tensor, nn

from regard.checkpoint.card import CardData
from regard.data.batches import BatchPlan
from regard.metrics.score import Score
from regard.nn.taps import Trace

R = TypeVar("R", covariant=True)


class Loss(NamedTuple):
    """The loss of one batch."""

    train: Tensor  # what is minimised, with smoothing and the like
    plain: Tensor  # the cross-entropy itself, which curves show; of weighted labels by their weights
    tokens: int  # how many predictions it averages over: what the task calls `counted`


@dataclass(frozen=True)
class Sample:
    """One example with what the model made of it, for reports."""

    source: str
    reference: str
    output: str


class SampleNames(NamedTuple):
    """What the parts of a sample are called, and whether an output can be right word for word."""

    source: str = "Source"
    reference: str = "Reference"
    output: str = "Output"
    compared: bool = True


@dataclass(frozen=True, kw_only=True)
class FolderContents:
    """What a task puts into a model folder besides the weights."""

    config: Mapping[str, Any]
    texts: Mapping[str, str] = field(default_factory=dict)


class Usage(NamedTuple):
    """How a model of this kind is used, for its card."""

    command: str
    python: str
    pipeline: str  # the Hub's name of the task


class Task(Protocol[R]):
    """Examples, a model for them, and how well it does. `R` is the object that answers text afterwards."""

    name: str
    summary: str  # one sentence for the model card
    data: Sequence[CardData]
    sample_names: SampleNames
    counted: str  # what the loss is a mean of, which is how much of it there is in a second: tokens, words, examples
    perplexes: bool  # whether the loss is that of tokens, whose exponential is the perplexity

    @property
    def model(self) -> nn.Module: ...

    def batches(self, plan: BatchPlan, epoch: int) -> Sequence[Sequence[int]]:
        """The training examples of one epoch, dealt into batches: for each the numbers that `loss` takes."""

    def size(self, index: int) -> tuple[int, int]:
        """How long an example is, so that threads which share a batch get equal shares."""

    def loss(self, indices: Sequence[int]) -> Loss:
        """The loss of the training examples at `indices`, with gradients."""

    def validation_loss(self) -> float:
        """Mean cross-entropy per token on the validation examples, without smoothing."""

    @property
    def scored_on(self) -> str:
        """What `evaluate` measures on."""

    def evaluate(self) -> tuple[list[Score], list[Sample]]:
        """The task's own scores on the validation examples, and some samples."""

    def traces(self, samples: Sequence[Sample]) -> Sequence[tuple[str, Trace]]:
        """Texts with all of their attention, to be drawn in the report."""

    def result(self) -> R:
        """What a user holds afterwards."""

    def contents(self) -> FolderContents:
        """What makes the folder loadable."""

    def describe(self) -> str:
        """Model and data in a line, for whoever watches."""

    def examples(self) -> str:
        """How many training examples there are, and a checksum of what the model reads of them."""

    def settings(self) -> dict[str, Any]:
        """The settings of model and data: a resumed run must have the same."""

    def answering(self) -> dict[str, Any]:
        """The settings of the answers, which training does not need."""

    def usage(self, folder: Path) -> Usage:
        """How to use the model in `folder`."""
