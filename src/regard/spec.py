"""What a task and an architecture declare about themselves.

`TaskSpec` and `Architecture` are plain descriptions: everything generic (the command line, the Python functions, model
folders, training, reports, JSON schemas) is derived from them and names no task. Importing this file, or the `spec.py`
of a task, never imports torch: code that needs it is named as "module:attribute" and imported on use.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from regard.utils.config import Config

# A document may span lines: files and stdin are read whole. Of `texts` there are one or more.
FieldType = Literal[
    "text",
    "document",
    "texts",
    "tokens",
    "label",
    "labels",
    "boolean",
    "number",
    "numbers",
    "vector",
    "vectors",
    "spans",
    "candidates",
    "records",
    "scores",
    "image",
]

# How a field is written as JSON.
_JSON_TYPES: dict[str, dict[str, Any]] = {
    "text": {"type": "string"},
    "document": {"type": "string"},
    "scores": {"type": "object", "additionalProperties": {"type": "number"}},
    "texts": {"type": "array", "items": {"type": "string"}},
    "tokens": {"type": "array", "items": {"type": "string"}},
    "label": {"type": "string"},
    "labels": {"type": "array", "items": {"type": "string"}},
    "boolean": {"type": "boolean"},
    "number": {"type": "number"},
    "numbers": {"type": "array", "items": {"type": "number"}},
    "vector": {"type": "array", "items": {"type": "number"}},
    "vectors": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
    "spans": {"type": "array", "items": {"type": "object"}},
    "candidates": {"type": "array", "items": {"type": "array", "items": {"type": "object"}}},
    "records": {"type": "array", "items": {"type": "object"}},
    "image": {"type": "string", "contentEncoding": "base64"},
}


@dataclass(frozen=True)
class Field:
    """One input or output of a task."""

    name: str
    type: FieldType
    help: str
    columns: tuple[str, ...] = ()  # names by which a table's column is recognized, besides `name`
    optional: bool = False  # whether a result may lack it, or have null instead

    def schema(self) -> dict[str, Any]:
        described = {**_JSON_TYPES[self.type], "description": self.help}
        return {**described, "type": [described["type"], "null"]} if self.optional else described


@dataclass(frozen=True, kw_only=True, repr=False)
class TaskSpec:
    """One task: what goes in, what comes out, which options it has, and where its code is."""

    name: str
    summary: str  # one sentence, imperative: "Label a text."
    noun: str  # what a trained model is called in messages: "a text classifier"
    inputs: tuple[Field, ...]
    outputs: tuple[Field, ...]
    predict_config: type[Config]  # options of prediction; a model folder keeps them
    predictor: str  # "module:Class"
    reader: str  # "module:Class"
    read_config: type[Config]  # how files are read: columns, separators, what to do about bad rows
    input_options: frozenset[str] = frozenset()  # the options of reading that apply to files of inputs, without targets
    # Options of training, those of reading included; None for tasks that only use models trained for another task.
    train_config: type[Config] | None = None
    objective: str | None = None  # "module:Class"
    recipe: str | None = None  # "module:function(request) -> Recipe": defaults that depend on preset or --from
    needs: frozenset[str] = frozenset()  # capabilities that an architecture must have
    default_architecture: str = ""
    default_preset: str = ""
    lora: bool = False  # whether adapters can be trained beside pretrained weights
    head: str | tuple[str, ...] = ()  # kinds of head that its models have, for folders that name a head but no task
    fixed: frozenset[str] = frozenset()  # settings that follow from the task, and are no flags
    metrics: tuple[str, ...] = ()
    views: tuple[str, ...] = ()
    hub_pipeline: str | None = None
    hub_classes: tuple[str, ...] = ()  # how the names of the classes of `transformers` end that do the task
    uses: str = ""  # of a task without training: the task whose models it uses
    example: tuple[Any, ...] = ()  # one input, a value for each field; for documentation and tests
    test_settings: Mapping[str, Any] = field(default_factory=dict)  # for a training of a second, in tests
    formats: tuple[str, ...] = (".txt", ".jsonl", ".csv")  # suffixes of files that predictions can be written to
    default_help: Mapping[str, str] = field(default_factory=dict)  # defaults in words, where a recipe decides
    data_help: str = ""  # what DATA is, for --help
    data_example: str = "data.csv"

    @property
    def trainable(self) -> bool:
        return self.objective is not None

    def supports(self, architecture: Architecture) -> bool:
        """Whether a model of this architecture can do the task."""
        return self.needs <= architecture.capabilities

    def load(self, part: Literal["reader", "objective", "predictor", "recipe"]) -> Any:
        """Import the class or function that does a part of the task; None if it has no such part."""
        reference = getattr(self, part)
        return None if reference is None else resolve(reference)

    def schema(self) -> dict[str, Any]:
        """JSON schema of inputs, outputs and options."""
        described = {
            "title": self.name,
            "description": self.summary,
            "inputs": _object_schema(self.inputs),
            "outputs": _object_schema(self.outputs),
            "options": self.predict_config.model_json_schema(),
        }
        if self.train_config is not None:
            described["training"] = self.train_config.model_json_schema()
        return described

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(item.name for item in fields) for fields in (self.inputs, self.outputs))
        return f"TaskSpec({self.name}: {inputs} → {outputs})"


@dataclass(frozen=True, kw_only=True, repr=False)
class Architecture:
    """One model family: its config, named shapes, capabilities and code."""

    name: str
    summary: str
    config: type[Config]
    model: str  # "module:function(config, head=None) -> nn.Module"
    capabilities: frozenset[str]
    heads: frozenset[str] = frozenset()  # those of its capabilities that are kinds of head: a model has one of them
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    decoder_builder: str | None = None  # "module:function(model, **options) -> Decoder"
    cost_model: str | None = None  # "module:function(config, preset=, batch_tokens=) -> Costs"
    formats: str | None = None  # "module:FORMATS": folder formats of other tools, both ways
    test_settings: Mapping[str, Any] = field(default_factory=dict)  # of the smallest model, for tests
    fixed: frozenset[str] = frozenset({"vocab_size"})  # settings that follow from data, and are no flags

    def build(self, config: Config, head: Any = None) -> Any:
        """A module with new weights; `head` is the head config of a task, if it has one."""
        return resolve(self.model)(config, head)

    def decoder(self, model: Any, **options: Any) -> Any:
        """The decoding interface of a model (prefill, step, reorder)."""
        if self.decoder_builder is None:
            raise LookupError(f"architecture {self.name!r} does not generate")
        return resolve(self.decoder_builder)(model, **options)

    def costs(self, config: Config, **options: Any) -> Any:
        """Parameters, memory and compute of a config, without building it."""
        if self.cost_model is None:
            raise LookupError(f"architecture {self.name!r} has no cost model")
        return resolve(self.cost_model)(config, **options)

    def __repr__(self) -> str:
        return f"Architecture({self.name}: {', '.join(sorted(self.capabilities))})"


@dataclass(frozen=True, kw_only=True)
class ViewSpec:
    """One way to look at a model: `regard look MODEL INPUT --view NAME`."""

    name: str
    summary: str
    build: str  # "module:function(predictor, inputs, config) -> View"
    needs: frozenset[str] = frozenset()  # capabilities that the model must have
    config: type[Config] | None = None  # options of the view


@functools.cache
def resolve(reference: str) -> Any:
    """The object that "module:attribute" names."""
    module, _, attribute = reference.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _object_schema(fields: tuple[Field, ...]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {item.name: item.schema() for item in fields},
        "required": [item.name for item in fields if not item.optional],
    }
