"""Declarations of tasks, architectures and views.

`TaskSpec` and `Architecture` are plain descriptions: everything generic (the command line, the Python functions, model
folders, training, reports, JSON schemas) is derived from them and contains no task-specific code. Importing this file,
or the `spec.py` of a task, never imports torch: code that needs torch is referenced as "module:attribute" and imported
on use.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from regard.utils.config import Config

# A `document` may span several lines: a file or stdin is one input. `texts` means one or more texts.
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

# JSON schema of each type.
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
    columns: tuple[str, ...] = ()  # other names of the table column with this field, besides `name`
    optional: bool = False  # whether a result may omit this field or set it to null

    def schema(self) -> dict[str, Any]:
        described = {**_JSON_TYPES[self.type], "description": self.help}
        return {**described, "type": [described["type"], "null"]} if self.optional else described


@dataclass(frozen=True, kw_only=True, repr=False)
class TaskSpec:
    """One task: its inputs, outputs and options, and where its code is."""

    name: str
    summary: str  # one sentence, imperative: "Label a text."
    noun: str  # name of a trained model in messages: "a text classifier"
    inputs: tuple[Field, ...]
    outputs: tuple[Field, ...]
    predict_config: type[Config]  # options of prediction, which are stored in the model folder
    predictor: str  # "module:Class"
    reader: str  # "module:Class"
    read_config: type[Config]  # options for reading files: columns, separators, skipping bad rows
    input_options: frozenset[str] = frozenset()  # reading options that also apply to prediction inputs
    # Options of training, including reading options; None for tasks that only use models trained for another task.
    train_config: type[Config] | None = None
    objective: str | None = None  # "module:Class"
    recipe: str | None = None  # "module:function(request) -> Recipe": defaults that depend on preset or --from
    needs: frozenset[str] = frozenset()  # capabilities that an architecture must have
    default_architecture: str = ""
    default_preset: str = ""
    lora: bool = False  # whether LoRA adapters can be trained
    head: str | tuple[str, ...] = ()  # kinds of head, to find the task of a folder whose config has only a head
    fixed: frozenset[str] = frozenset()  # settings that the task determines; they have no flags
    metrics: tuple[str, ...] = ()
    views: tuple[str, ...] = ()
    hub_pipeline: str | None = None
    hub_classes: tuple[str, ...] = ()  # suffixes of the `transformers` classes for this task
    uses: str = ""  # for a task without training: the task whose models it uses
    example: tuple[Any, ...] = ()  # one input (a value for each field), for documentation and tests
    test_settings: Mapping[str, Any] = field(default_factory=dict)  # for training in about a second, in tests
    formats: tuple[str, ...] = (".txt", ".jsonl", ".csv")  # suffixes of files that predictions can be written to
    default_help: Mapping[str, str] = field(default_factory=dict)  # descriptions of defaults that a recipe sets
    data_help: str = ""  # description of DATA for --help
    data_example: str = "data.csv"

    @property
    def trainable(self) -> bool:
        return self.objective is not None

    def supports(self, architecture: Architecture) -> bool:
        """Return whether models of this architecture support the task."""
        return self.needs <= architecture.capabilities

    def load(self, part: Literal["reader", "objective", "predictor", "recipe"]) -> Any:
        """Import a class or function of the task; return None if the task does not have it."""
        reference = getattr(self, part)
        return None if reference is None else resolve(reference)

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of inputs, outputs and options."""
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
    """One model family: its config, presets, capabilities and code."""

    name: str
    summary: str
    config: type[Config]
    model: str  # "module:function(config, head=None) -> nn.Module"
    capabilities: frozenset[str]
    heads: frozenset[str] = frozenset()  # those of its capabilities that are kinds of head: a model has one of them
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    decoder_builder: str | None = None  # "module:function(model, **options) -> Decoder"
    cost_model: str | None = None  # "module:function(config, preset=, batch_tokens=) -> Costs"
    formats: str | None = None  # "module:FORMATS": folder formats of other tools, for import and export
    test_settings: Mapping[str, Any] = field(default_factory=dict)  # for tests: settings of the smallest model
    fixed: frozenset[str] = frozenset({"vocab_size"})  # settings that the data determine; they have no flags

    def build(self, config: Config, head: Any = None) -> Any:
        """Return a module with new weights; `head` is the head config of a task, if the task has a head."""
        return resolve(self.model)(config, head)

    def decoder(self, model: Any, **options: Any) -> Any:
        """Return the decoding interface of a model (prefill, step, reorder)."""
        if self.decoder_builder is None:
            raise LookupError(f"architecture {self.name!r} does not support generation (no decoder_builder)")
        return resolve(self.decoder_builder)(model, **options)

    def costs(self, config: Config, **options: Any) -> Any:
        """Return the parameters, memory and compute of a config, without building the model."""
        if self.cost_model is None:
            raise LookupError(f"architecture {self.name!r} has no cost estimates (no cost_model)")
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
    """Import and return the object that "module:attribute" refers to."""
    module, _, attribute = reference.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _object_schema(fields: tuple[Field, ...]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {item.name: item.schema() for item in fields},
        "required": [item.name for item in fields if not item.optional],
    }
