"""What every task provides besides its spec and its objective: a reader of files and a predictor.

A reader turns files, or the built-in dataset, into examples; it knows no torch. A predictor is what a user holds: it
knows text and a model, and does not train.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, overload

from regard.checkpoint.card import CardData
from regard.data.files import ReadResult
from regard.spec import TaskSpec
from regard.utils.config import Config
from regard.utils.errors import UsageError

if TYPE_CHECKING:
    from torch import nn

    from regard.checkpoint.folder import ModelFolder
    from regard.metrics.score import Scores
    from regard.nn.hooks import Trace

E = TypeVar("E")
R = TypeVar("R")
Notify = Callable[[str], None]  # takes remarks on the input, such as how many texts were truncated


@dataclass(frozen=True)
class Splits(Generic[E]):
    """What a reader read for a training."""

    train: Sequence[E]
    validation: Sequence[E]
    sources: tuple[CardData, ...] = ()  # for the model card
    notes: tuple[str, ...] = ()  # what the user should know about the files


class Reader(ABC, Generic[E]):
    """Files → examples. `config` is the task's read_config, or its train_config, which extends it."""

    def __init__(self, config: Any) -> None:
        self.config = config
        self.notes: list[str] = []  # what the user should know about the inputs that were read

    @abstractmethod
    def read(self, data: Sequence[Path], validation: Sequence[Path] | None) -> Splits[E]:
        """Training and validation examples of files; without validation files a part of `data` is held out."""

    @abstractmethod
    def builtin(self) -> Splits[E]:
        """Training and validation examples of the built-in dataset."""

    @abstractmethod
    def read_test(self, data: Sequence[Path], predictor: Any) -> ReadResult[E]:
        """Examples to evaluate `predictor` on."""

    def read_inputs(self, path: Path, data: bytes | None = None) -> Sequence[Any]:
        """Inputs to predict, from a file or from `data` that came from stdin: one per line, or a table's column."""
        from regard.data.files import read_bytes
        from regard.data.inputs import text_lines
        from regard.data.rows import table_suffix
        from regard.data.texts import read_text_column

        column = getattr(self.config, "text_column", None)
        if data is None and table_suffix(path):
            return read_text_column(path, column)
        if column is not None:
            raise UsageError(f"--text-column needs a table; {path} has plain lines.", argument="text_column", path=path)
        return text_lines(read_bytes(path) if data is None else data, path)

    def refuse_without_files(self, names: Sequence[str]) -> None:
        """Refuse reading options where no file was given."""
        for name in names:
            if getattr(self.config, name, None):
                raise UsageError(
                    f"--{name.replace('_', '-')} needs a data file; without one the built-in dataset is used.",
                    argument=name,
                )


class Predictor(ABC, Generic[R]):
    """Inputs → results, with a trained model."""

    spec: ClassVar[TaskSpec]
    model: nn.Module
    config: Config  # default options of prediction; the model folder keeps them
    progress: Callable[[float], None] | None = None  # takes the fraction that is done of a long prediction

    @abstractmethod
    def predict(self, inputs: Sequence[Any], config: Config | None = None, *, notify: Notify | None = None) -> list[R]:
        """One result for each input. An input is a str, or a tuple where the task has several input fields."""

    @overload
    def __call__(self, *inputs: list[Any], notify: Notify | None = ..., **options: Any) -> list[R]: ...

    @overload
    def __call__(self, *inputs: Any, notify: Notify | None = ..., **options: Any) -> R: ...

    def __call__(self, *inputs: Any, notify: Notify | None = None, **options: Any) -> Any:
        """The result of one input, or of a list of inputs a list of results; `options` as in the task's config."""
        config = self.config.replace(**options) if options else self.config
        if len(inputs) == 1 and isinstance(inputs[0], list):
            return self.predict(inputs[0], config, notify=notify)
        return self.predict([inputs[0] if len(inputs) == 1 else inputs], config, notify=notify)[0]

    def needs_all_inputs(self, config: Config) -> bool:
        """Whether a result depends on the other inputs, so that lines of stdin cannot be predicted as they arrive."""
        return False

    def can_stream(self, config: Config) -> bool:
        """Whether `stream` gives the same text as `predict` with this config."""
        return False

    def stream(
        self, text: str, config: Config | None = None, *, notify: Notify | None = None, **options: Any
    ) -> Iterator[str]:
        """The output of one input as it is generated; `options` replace values of `config`."""
        raise UsageError(f"--stream is not available for {self.spec.name}.", argument="stream")

    def encode_results(self, results: Sequence[R], suffix: str) -> str | bytes:
        """The content of a file of results in one of the task's own formats."""
        raise UsageError(f"{self.spec.name} cannot write {suffix}.", argument="out", allowed=self.spec.formats)

    @abstractmethod
    def evaluate(self, examples: Sequence[Any], config: Config | None = None) -> Scores:
        """The official scores of the task on examples of its reader."""

    @abstractmethod
    def trace(self, *inputs: Any) -> Trace:
        """All attention of the model over one input."""

    def traced(self, inputs: Sequence[Any], target: str | None = None) -> tuple[Trace, str]:
        """The attention over one input and a note on the output; `target` replaces a generated output."""
        if target is not None:
            raise UsageError(f"--target is not available for {self.spec.name}.", argument="target", value=target)
        return self.trace(*inputs), ""

    @property
    def max_inputs(self) -> int | None:
        """How many texts can be looked at together; None: any number."""
        return None if self.spec.inputs[-1].type == "texts" else len(self.spec.inputs)

    @property
    def trace_root(self) -> nn.Module:
        """The module whose addresses a trace has."""
        return self.model

    @property
    def capabilities(self) -> frozenset[str]:
        """What views and other tasks may ask of this model."""
        from regard.registry import architecture_of

        return architecture_of(self.model).capabilities

    # --- model folders --------------------------------------------------------------------------------------

    @property
    def summary(self) -> str:
        """What goes in and what comes out, for the model card."""
        return self.spec.summary

    def folder_config(self) -> Mapping[str, Any]:
        """What this task adds to config.json, besides the model's and the prediction's config."""
        return {}

    @abstractmethod
    def tokenizer_files(self) -> Mapping[str, str]:
        """The tokenizer's files by name."""

    def save(self, folder: Path | str, *, force: bool = False) -> None:
        """Write the model folder."""
        from regard.checkpoint.predictors import save_predictor

        save_predictor(self, Path(folder), force=force)

    @classmethod
    @abstractmethod
    def load(cls, folder: ModelFolder, model: Any) -> Self:
        """The predictor around a model that was read from a folder."""

    @classmethod
    def adapt(cls, other: Predictor[Any]) -> Self | None:
        """A predictor of this task around the model of another one; None if that model cannot do the task."""
        return None
