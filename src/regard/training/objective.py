"""What the trainer needs from a task: batches, a loss, and a predictor at the end.

An objective knows tensors; it does not know files, flags or reports. `prepare` makes one from the data that a reader
read and from the settings of the request.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from torch import Tensor, nn

from regard.checkpoint.card import CardData
from regard.data.batches import BatchPlan
from regard.metrics.score import Score
from regard.nn.hooks import Trace

if TYPE_CHECKING:
    from regard.training.callbacks import Callback
    from regard.training.pretrained_init import PretrainedInit
    from regard.training.request import TrainRequest


class Loss(NamedTuple):
    """The loss of one batch."""

    train: Tensor  # what is minimized, with label smoothing and the like
    plain: Tensor  # the cross-entropy itself, which curves show; class weights included
    num_targets: int  # how many predictions it averages over, in the objective's `loss_unit`


@dataclass(frozen=True)
class Sample:
    """One validation example with the model's output, for the report."""

    source: str
    reference: str
    output: str


class SampleNames(NamedTuple):
    """Column titles of samples, and whether an output can equal its reference word for word."""

    source: str = "Source"
    reference: str = "Reference"
    output: str = "Output"
    comparable: bool = True


class Objective(ABC):
    """Training and validation examples with the model that learns them."""

    loss_unit: ClassVar[str] = "tokens"  # what the loss is a mean over, and what speed is counted in
    reports_perplexity: ClassVar[bool] = False  # whether exp(loss) is a perplexity per token
    sample_names: SampleNames = SampleNames()

    model: nn.Module
    init: PretrainedInit | None = None  # the pretrained weights that the model started from
    sources: Sequence[CardData] = ()  # of the model card, where the reader could not count its rows
    notes: Sequence[str] = ()  # what the user should know about the data and the choices made
    lr_multipliers: Mapping[Tensor, float] = {}  # parameters with another learning rate: a factor for each
    sparse_embeddings: Sequence[Any] = ()  # modules with a flag `sparse`, of whose rows a batch uses few

    @classmethod
    @abstractmethod
    def prepare(cls, splits: Any, request: TrainRequest) -> Self:
        """Tokenize the examples of a reader's `splits` and build the model, new or from pretrained weights."""

    def training_settings(self) -> Mapping[str, Any]:
        """Defaults of the loop that depend on the data, such as the number of steps of an epoch."""
        return {}

    def callbacks(self) -> Sequence[Callback]:
        """Callbacks of this task, besides those of every run."""
        return ()

    @abstractmethod
    def batches(self, plan: BatchPlan, epoch: int) -> Sequence[Sequence[int]]:
        """The training examples of one epoch in batches: the indices that `loss` takes."""

    @abstractmethod
    def size(self, index: int) -> tuple[int, int]:
        """The length of an example, so that threads that share a batch get equal shares."""

    @abstractmethod
    def loss(self, indices: Sequence[int]) -> Loss:
        """The loss of the training examples at `indices`, with gradients."""

    @abstractmethod
    def validation_loss(self) -> float:
        """Mean loss on the validation examples, without label smoothing."""

    @property
    @abstractmethod
    def scored_on(self) -> str:
        """What `evaluate` measures on, in words."""

    @abstractmethod
    def evaluate(self) -> tuple[list[Score], list[Sample]]:
        """The scores of the task on the validation examples, and some samples."""

    def traces(self, samples: Sequence[Sample]) -> Sequence[tuple[str, Trace]]:
        """Texts with their attention, for the report."""
        return ()

    @abstractmethod
    def predictor(self) -> Any:
        """The object that a user holds afterwards: a `Predictor` around the model."""

    @abstractmethod
    def describe(self) -> str:
        """Model and data in one line."""

    @abstractmethod
    def fingerprint(self) -> str:
        """How many examples there are and a checksum of their tokens: a resumed run must have the same."""

    def settings(self) -> dict[str, Any]:
        """Settings of model and data: a resumed run must have the same."""
        config: Any = self.model.config
        return dict(config.to_dict())
