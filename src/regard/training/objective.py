"""The interface between the trainer and a task: batches, a loss, and a predictor for the trained model.

An objective handles tensors, but no files, flags or reports. `prepare` builds an objective from the examples that a
reader has read and from the settings of the request.
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
    from regard.training.run import TrainRequest


class Loss(NamedTuple):
    """The loss of one batch."""

    train: Tensor  # the loss to minimize, including label smoothing
    plain: Tensor  # cross-entropy with class weights, for the loss curves
    num_targets: int  # number of predictions that the loss averages over


@dataclass(frozen=True)
class Sample:
    """One validation example with the model's output, for the report."""

    source: str
    reference: str
    output: str


class SampleNames(NamedTuple):
    """Column titles for samples, whether outputs and references can be compared word by word, and their order."""

    source: str = "Source"
    reference: str = "Reference"
    output: str = "Output"
    comparable: bool = True
    mistakes_first: bool = False


class Objective(ABC):
    """A model together with the examples that it is trained and validated on."""

    loss_unit: ClassVar[str] = "tokens"  # unit that the loss is averaged over and throughput is measured in
    reports_perplexity: ClassVar[bool] = False  # whether exp(loss) is a perplexity per token
    sample_names: SampleNames = SampleNames()

    model: nn.Module
    init: PretrainedInit | None = None  # the pretrained weights that the model started from
    sources: Sequence[CardData] = ()  # for the model card; if given, they replace the sources of the reader
    notes: Sequence[str] = ()  # messages to the user about the data and automatic settings
    lr_multipliers: Mapping[Tensor, float] = {}  # learning-rate factors of parameters, if not 1
    num_validation_targets: int = 0  # predictions that `validation_loss` averages over, if known, in `loss_unit`
    sparse_embeddings: Sequence[Any] = ()  # large embeddings with a `sparse` attribute; a batch uses few rows

    @classmethod
    @abstractmethod
    def prepare(cls, splits: Any, request: TrainRequest) -> Self:
        """Tokenize the examples in a reader's `splits` and build a new model or load a pretrained one."""

    def training_settings(self) -> Mapping[str, Any]:
        """Return the training settings that depend on the data, such as the number of steps."""
        return {}

    def callbacks(self) -> Sequence[Callback]:
        """Return callbacks that this task adds to the default ones."""
        return ()

    @abstractmethod
    def batches(self, plan: BatchPlan, epoch: int) -> Sequence[Sequence[int]]:
        """Return the batches of one epoch as lists of example indices for `loss`."""

    @abstractmethod
    def size(self, index: int) -> tuple[int, int]:
        """Return the size of an example, which is used to split a batch evenly among threads."""

    @abstractmethod
    def loss(self, indices: Sequence[int]) -> Loss:
        """Compute the loss of the training examples at `indices`; it can be differentiated."""

    @abstractmethod
    def validation_loss(self) -> float:
        """Compute the mean loss on the validation examples, without label smoothing."""

    @property
    @abstractmethod
    def scored_on(self) -> str:
        """Describe the data that `evaluate` uses."""

    @abstractmethod
    def evaluate(self) -> tuple[list[Score], list[Sample]]:
        """Return the scores of the task on the validation examples, and some samples."""

    def traces(self, samples: Sequence[Sample]) -> Sequence[tuple[str, Trace]]:
        """Return texts with their attention, for the report."""
        return ()

    @abstractmethod
    def predictor(self) -> Any:
        """Return a `Predictor` that uses the trained model."""

    @abstractmethod
    def describe(self) -> str:
        """Describe the model and the data in one line."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Return the number of examples and a checksum of their tokens, which must be the same when resuming."""

    def settings(self) -> dict[str, Any]:
        """Return the settings of the model and the data, which must be the same when resuming."""
        config: Any = self.model.config
        return dict(config.to_dict())
