"""Base classes of every task: readers, results and predictors.

A reader turns files or the built-in dataset into examples and does not import torch. A predictor applies a trained
model to inputs and returns results.
"""

from __future__ import annotations

import reprlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, overload

from regard.checkpoint.card import CardData
from regard.data.files import ReadResult
from regard.spec import TaskSpec
from regard.tokenizers.tokenizer import Tokenizer
from regard.tokenizers.training import train_tokenizer
from regard.utils.config import Config
from regard.utils.errors import UsageError, flag

if TYPE_CHECKING:
    from torch import nn

    from regard.checkpoint.folder import ModelFolder
    from regard.metrics.score import Scores
    from regard.nn.hooks import Trace

E = TypeVar("E")
R = TypeVar("R")
Notify = Callable[[str], None]  # called with notes on the input, such as how many texts were truncated
Text = str | tuple[str, str]
Gold = tuple[str, ...] | float  # labels, or a regression target

TOKENIZER = "tokenizer.json"  # file of a model folder


@dataclass(frozen=True)
class Splits(Generic[E]):
    """Examples for training and validation."""

    train: Sequence[E]
    validation: Sequence[E]
    sources: tuple[CardData, ...] = ()  # for the model card
    notes: tuple[str, ...] = ()  # notes for the user about the files
    head: Any = None  # for encoder tasks: HeadConfig of a model trained on these examples


@dataclass(frozen=True, slots=True)
class LabelledExample:
    """A text or a text pair with its labels or its regression target."""

    text: Text
    gold: Gold

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels; empty for regression."""
        return self.gold if isinstance(self.gold, tuple) else ()


class Reader(ABC, Generic[E]):
    """Reads files into examples. `config` is the task's read_config, or its train_config, which extends it."""

    def __init__(self, config: Any) -> None:
        self.config = config
        self.notes: list[str] = []  # notes for the user about the inputs that were read

    @abstractmethod
    def read(self, data: Sequence[Path], validation: Sequence[Path] | None) -> Splits[E]:
        """Return training and validation examples; without validation files, hold out a part of `data`."""

    @abstractmethod
    def builtin(self) -> Splits[E]:
        """Return the training and validation examples of the built-in dataset."""

    @abstractmethod
    def read_test(self, data: Sequence[Path], predictor: Any) -> ReadResult[E]:
        """Return the examples to evaluate `predictor` on."""

    def read_inputs(self, path: Path, data: bytes | None = None) -> Sequence[Any]:
        """Return prediction inputs from a file, or from `data` read from stdin: lines, or a column of a table."""
        from regard.data.inputs import read_texts

        return read_texts(path, data, text_column=getattr(self.config, "text_column", None))

    def refuse_without_files(self, names: Sequence[str]) -> None:
        """Refuse reading options if no data file was given."""
        for name in names:
            if getattr(self.config, name, None):
                message = f"{flag(name)} needs a data file. Add a file, or remove the option."
                raise UsageError(message, argument=name, value=getattr(self.config, name))


class Result:
    """Base class of results. A table has one row per result, unless the class defines a method `rows`."""

    recorded: ClassVar[tuple[str, ...]]  # attributes that `record` contains
    shown: ClassVar[tuple[str, ...]]  # attributes that `repr` contains, except None
    digits: ClassVar[int | None] = None  # decimals of the numbers in `record`; None means no rounding

    def record(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {name: _json_value(getattr(self, name), self.digits) for name in self.recorded}

    def columns(self) -> dict[str, Any]:
        """Return the values that are added to the input's row of a table; inputs among them are left out."""
        return self.record()

    def __repr__(self) -> str:
        values = {name: getattr(self, name) for name in self.shown}
        shown = (f"{name}={_SHORT.repr(value)}" for name, value in values.items() if value is not None)
        return f"{type(self).__name__}({', '.join(shown)})"


class NoResult(Result):
    """Stands for the result of a blank text: all outputs are None."""

    def __init__(self, spec: TaskSpec, text: str) -> None:
        self.spec, self.text = spec, text

    def record(self) -> dict[str, Any]:
        return {**self.row(), **dict.fromkeys(output.name for output in self.spec.outputs)}

    def row(self) -> dict[str, Any]:
        return {self.spec.inputs[0].name: self.text}

    def columns(self) -> dict[str, Any]:
        return {}

    def __str__(self) -> str:
        return ""

    def __repr__(self) -> str:
        return "NoResult()"


class _ShortRepr(reprlib.Repr):
    def repr_float(self, value: float, level: int) -> str:
        return f"{value:.4g}"


_SHORT = _ShortRepr()
_SHORT.maxstring = 60


class GeneratedResult(Result):
    """Base class of generated texts with alternatives. The first recorded attribute is the input."""

    text: str
    score: float | None
    alternatives: tuple[Self, ...]

    def record(self) -> dict[str, Any]:
        others = [other.record() for other in self.alternatives]
        for other in others:
            del other[self.recorded[0]]
        return {**super().record(), **({"alternatives": others} if others else {})}

    def columns(self) -> dict[str, Any]:
        return {"text": self.text, "score": self.score}

    def rows(self) -> list[dict[str, Any]]:
        """Return table rows: one for this text, then one for each alternative."""
        names = (self.recorded[0], "text", "score")
        return [{name: getattr(item, name) for name in names} for item in (self, *self.alternatives)]


def _json_value(value: Any, digits: int | None) -> Any:
    if isinstance(value, Result):
        return value.record()
    if isinstance(value, Mapping):
        return {key: _json_value(item, digits) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_json_value(item, digits) for item in value]
    return round(value, digits) if isinstance(value, float) and digits is not None else value


class Predictor(ABC, Generic[R]):
    """Applies a trained model to inputs. Subclasses implement `_predict`, or override `predict`."""

    spec: ClassVar[TaskSpec]
    model: nn.Module
    tokenizer: Tokenizer
    config: Config  # default prediction options, saved in the model folder
    progress: Callable[[float], None] | None = None  # called during long predictions with the fraction done

    def predict(self, inputs: Sequence[Any], config: Config | None = None, *, notify: Notify | None = None) -> list[R]:
        """Return one result per input. An input is a str, or a tuple if the task has several input fields."""
        return self._predict(list(inputs), config or self.config, notify or (lambda text: None))

    def _predict(self, inputs: list[Any], config: Any, notify: Notify) -> list[R]:
        """Implement `predict`. `config` has the task's own config class, with defaults for omitted options."""
        raise NotImplementedError

    @overload
    def __call__(self, *inputs: list[Any], notify: Notify | None = ..., **options: Any) -> list[R]: ...

    @overload
    def __call__(self, *inputs: Any, notify: Notify | None = ..., **options: Any) -> R: ...

    def __call__(self, *inputs: Any, notify: Notify | None = None, **options: Any) -> Any:
        """Return one result, or a list of results for a list of inputs. `options` override the task's config."""
        config = self.config.replace(**options) if options else self.config
        if len(inputs) == 1 and isinstance(inputs[0], list):
            return self.predict(inputs[0], config, notify=notify)
        return self.predict([inputs[0] if len(inputs) == 1 else inputs], config, notify=notify)[0]

    def needs_all_inputs(self, config: Config) -> bool:
        """Return whether a result depends on the other inputs, which rules out predicting stdin line by line."""
        return False

    def can_stream(self, config: Config) -> bool:
        """Return whether `stream` gives the same text as `predict` with this config."""
        return False

    def stream(
        self, text: str, config: Config | None = None, *, notify: Notify | None = None, **options: Any
    ) -> Iterator[str]:
        """Yield the output for one input while it is generated. `options` override values of `config`."""
        raise UsageError(f"--stream is not available for {self.spec.name}. Remove it.", argument="stream")

    def encode_results(self, results: Sequence[R], suffix: str) -> str | bytes:
        """Return the content of a results file in one of the task's own formats."""
        raise UsageError(f"{self.spec.name} has no output format {suffix}.", argument="out", allowed=self.spec.formats)

    @abstractmethod
    def evaluate(self, examples: Sequence[Any], config: Config | None = None) -> Scores:
        """Return the task's standard scores on examples from its reader."""

    @abstractmethod
    def trace(self, *inputs: Any) -> Trace:
        """Run the model on one input and return a trace with all attention weights."""

    def traced(self, inputs: Sequence[Any], target: str | None = None) -> tuple[Trace, str]:
        """Return the trace of one input and a note on the output. `target` replaces the generated output."""
        if target is not None:
            message = f"--target is not available for {self.spec.name}. Remove it."
            raise UsageError(message, argument="target", value=target)
        return self.trace(*inputs), ""

    @property
    def max_inputs(self) -> int | None:
        """Maximum number of texts in one trace; None means no limit."""
        return None if self.spec.inputs[-1].type == "texts" else len(self.spec.inputs)

    @property
    def trace_root(self) -> nn.Module:
        """The module that module names in a trace are relative to."""
        return self.model

    @property
    def capabilities(self) -> frozenset[str]:
        """Capabilities of the model that views and other tasks can require."""
        from regard.registry import architecture_of

        return architecture_of(self.model).capabilities

    def __repr__(self) -> str:
        return f"{type(self).__name__}({describe_size(self.model)})"

    # --- model folders --------------------------------------------------------------------------------------

    @property
    def summary(self) -> str:
        """A description of input and output for the model card."""
        return self.spec.summary

    def folder_config(self) -> Mapping[str, Any]:
        """Return the task's own keys for config.json, besides the model and prediction configs."""
        return {}

    def tokenizer_files(self) -> Mapping[str, str]:
        """Return a mapping from file names to contents: by default one file, for `self.tokenizer`."""
        return {TOKENIZER: self.tokenizer.to_json()}

    def save(self, folder: Path | str, *, force: bool = False) -> None:
        """Write the model folder."""
        from regard.checkpoint.predictors import save_predictor

        save_predictor(self, Path(folder), force=force)

    @classmethod
    @abstractmethod
    def load(cls, folder: ModelFolder, model: Any) -> Self:
        """Return a predictor for a model that was loaded from a folder."""

    @classmethod
    def adapt(cls, other: Predictor[Any]) -> Self | None:
        """Return a predictor of this task for another predictor's model, or None if that model is unsuitable."""
        return None


def describe_size(model: Any) -> str:
    """Return the number of parameters, such as "12,345 parameters" or "1.23 M parameters"."""
    from regard.nn.quantized import count_weights

    count = count_weights(model)
    return f"{count:,} parameters" if count < 1e6 else f"{count / 1e6:.2f} M parameters"


def describe_model(model: Any, vocab_size: int) -> str:
    """Return the size and shape of a model in one line."""
    shape = model.config
    parts = [describe_size(model)]
    if hasattr(shape, "num_encoder_layers"):
        parts.append(f"{shape.num_encoder_layers}+{shape.num_decoder_layers} layers")
    elif hasattr(shape, "num_layers"):
        parts.append(f"{shape.num_layers} layers")
    parts.append(f"d_model {shape.d_model}")
    if hasattr(shape, "context_length"):
        parts.append(f"context {shape.context_length}")
    return ", ".join([*parts, f"{vocab_size:,} tokens"])


def new_tokenizer(texts: Iterable[str], *, vocab_size: int, **options: Any) -> Tokenizer:
    """Train a tokenizer on texts; errors mention the flag --vocab-size."""
    try:
        return train_tokenizer(texts, vocab_size=vocab_size, **options)
    except UsageError as error:
        raise UsageError(f"--vocab-size {vocab_size}: {error}", argument="vocab_size", value=vocab_size) from None
