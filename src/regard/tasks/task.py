"""What the training loop asks of a task. A task is one file that answers these questions for its kind of data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from torch import Tensor, nn

from regard.checkpoint.card import CardData
from regard.metrics.translation import Score


class Loss(NamedTuple):
    """The loss of one batch."""

    train: Tensor  # what is minimised, with smoothing and the like
    plain: Tensor  # the cross-entropy itself, which curves show
    tokens: int  # how many predictions it averages over


@dataclass(frozen=True)
class Sample:
    """One example with what the model made of it, for reports."""

    source: str
    reference: str
    output: str


@dataclass(frozen=True, kw_only=True)
class FolderContents:
    """What a task puts into a model folder besides the weights."""

    config: Mapping[str, Any]
    texts: Mapping[str, str] = field(default_factory=dict)


class Task(Protocol):
    """Examples, a model for them, and how well it does."""

    name: str
    summary: str  # one sentence for the model card
    data: Sequence[CardData]

    @property
    def model(self) -> nn.Module: ...

    def lengths(self) -> Sequence[tuple[int, int]]:
        """The size of every training example, for batches by tokens."""

    def loss(self, indices: Sequence[int]) -> Loss:
        """The loss of the training examples at `indices`, with gradients."""

    def validation_loss(self) -> float:
        """Mean cross-entropy per token on the validation examples, without smoothing."""

    def evaluate(self) -> tuple[list[Score], list[Sample]]:
        """The task's own scores on the validation examples, and some samples."""

    def contents(self) -> FolderContents:
        """What makes the folder loadable."""
