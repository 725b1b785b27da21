"""Conversion from and to the formats of other tools, such as transformers: the parts that all architectures share.

A format converts the config, tensors and other files of a folder; `regard.checkpoint` reads and writes the folders. An
architecture describes its format with tables that are used in both directions: a `Setting` pairs the names of a
setting, and `Pairs` pair the names of tensors. In names and comments, "our" means of regard, and "their" means of the
other tool.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from regard.tokenizers.tokenizer import SpecialTokens, Tokenizer
from regard.utils.config import Config, from_dict, to_dict
from regard.utils.errors import FolderError, UsageError

CONFIG, GENERATION_CONFIG = "config.json", "generation_config.json"
TOKENIZER, TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"
# Names of activations in `transformers` and in regard.
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
OUR_ACTIVATIONS = tuple(dict.fromkeys(ACTIVATIONS.values()))


class Folder(Protocol):
    """A folder on disk: its config.json, its tensors, and access to its other files."""

    @property
    def path(self) -> Path: ...
    @property
    def config(self) -> Mapping[str, Any]: ...
    @property
    def tensors(self) -> Mapping[str, Tensor]: ...
    def has_text(self, name: str) -> bool: ...
    def text(self, name: str) -> str: ...
    def file(self, name: str) -> Path: ...


@dataclass(frozen=True)
class FolderContent:
    """The content of a model folder in memory. An import returns it, and an export converts it."""

    config: Mapping[str, Any]
    tensors: dict[str, Tensor]
    texts: Mapping[str, str | bytes]  # other files by name


@dataclass(frozen=True)
class Export(FolderContent):
    """The content of a folder in the format of another tool."""

    class_name: str = ""  # the class that loads it
    notes: tuple[str, ...] = ()  # messages for the user about settings that the export changes or leaves out


@dataclass(frozen=True, kw_only=True)
class Format:
    """Conversion from and to one model type of another tool."""

    model_type: str  # `model_type` in config.json
    from_hf: Callable[[Folder], FolderContent]
    to_hf: Callable[[FolderContent], Export] | None = None  # None if these models are exported as another type
    # Returns the class that would load the model, and the settings that this class does not support, with reasons.
    unsupported_settings: Callable[[FolderContent], tuple[str, dict[str, str]]] | None = None


def export(formats: Sequence[Format], content: FolderContent) -> Export:
    """Convert a model to the first format that supports its settings; without such a format, the error lists why."""
    unsupported: dict[str, dict[str, str]] = {}
    for item in formats:
        if item.to_hf is None or item.unsupported_settings is None:
            continue
        class_name, reasons = item.unsupported_settings(content)
        if not reasons:
            exported = item.to_hf(content)
            return replace(exported, tensors={name: t.contiguous() for name, t in exported.tensors.items()})
        unsupported[class_name] = reasons
    listed = "; ".join(f"not {name}: {', '.join(reasons.values())}" for name, reasons in unsupported.items())
    raise UsageError(
        f"no transformers class supports these settings ({listed}). Train a model with settings that one of these "
        "classes supports.",
        argument="model",
        value={name: tuple(reasons) for name, reasons in unsupported.items()},
        allowed=unsupported,
    )


def our_config(architecture: str, config: Config, tokenizer: Tokenizer, **more: Any) -> dict[str, Any]:
    """Return the config.json of a regard folder."""
    special_tokens = to_dict(tokenizer.special_tokens)
    named = {"regard": {}, "architecture": architecture, "model": config.to_dict(), "special_tokens": special_tokens}
    return {**named, **more}


# --- Files --------------------------------------------------------------------------------------------------


def read_json(folder: Folder, name: str) -> dict[str, Any]:
    """Return the JSON object in a file; empty if the file is missing or contains another value."""
    values = read_json_value(folder, name)
    return values if isinstance(values, dict) else {}


def read_json_value(folder: Folder, name: str) -> Any:
    if not folder.has_text(name):
        return None
    try:
        return json.loads(folder.text(name))
    except (ValueError, RecursionError) as problem:
        message = f"{folder.path}: {name} is not valid JSON ({problem}). Copy or download it again."
        raise FolderError(message, path=folder.path / name) from None


@contextlib.contextmanager
def errors_at(path: Path) -> Iterator[None]:
    """Context manager that adds the path to errors from code that does not know the file."""
    try:
        yield
    except FolderError as error:
        error.path = error.path or path
        raise


def json_text(values: Any) -> str:
    return json.dumps(values, ensure_ascii=False, indent=2) + "\n"


def token_name(value: Any) -> str | None:
    """Return a special token from tokenizer_config.json: a string, or the `content` of an object."""
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None


def tokenizer_config(max_length: int, special_tokens: Mapping[str, str | None], **more: Any) -> dict[str, Any]:
    """Return a tokenizer_config.json for `AutoTokenizer`."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_length,
        "clean_up_tokenization_spaces": False,
        **{name: value for name, value in special_tokens.items() if value is not None},
        **more,
    }


def tokenizer_of(content: FolderContent, name: str = TOKENIZER) -> Tokenizer:
    """Return a tokenizer from the content of a regard folder, with its special tokens."""
    tokenizer = Tokenizer.from_json(str(content.texts[name]), Path(name))
    special_tokens = content.config.get("special_tokens")
    if special_tokens is None:
        return tokenizer
    return tokenizer.with_special_tokens(from_dict(SpecialTokens, special_tokens))


# --- Settings -----------------------------------------------------------------------------------------------


def unsupported_settings(config: Any, required: Mapping[str, Any], *, full_width: bool = True) -> dict[str, str]:
    """Return the settings of a model that a class of another tool does not support, each with the reason.

    `required` maps a setting to the value that it must have, or to a tuple of allowed values. With
    `full_width`, num_heads × head_dim must equal d_model.
    """
    reasons = {}
    for name, only in required.items():
        value, allowed = getattr(config, name), only if isinstance(only, tuple) else (only,)
        if value not in allowed:
            reasons[name] = f"{name} is {value!r} (must be {' or '.join(map(repr, allowed))})"
    if other := {address: heads for address, heads in config.num_heads_by_layer.items() if heads != config.num_heads}:
        reasons["num_heads_by_layer"] = f"num_heads_by_layer is {other!r} (must be {config.num_heads} in every layer)"
    if full_width and config.num_heads * config.head_dim != config.d_model:
        numbers = f"{config.num_heads} × {config.head_dim} is not {config.d_model}"
        reasons["head_dim"] = f"num_heads × head_dim is not d_model ({numbers})"
    return reasons


@dataclass
class UnsupportedSettings:
    """Collect unsupported settings in the config of another tool, to raise one error that lists all of them."""

    path: Path  # of their config.json
    found: list[FolderError] = field(default_factory=list)

    def require(self, settings: Mapping[str, Any], fixed: Mapping[str, Any]) -> None:
        """Record each setting that is present and whose value differs from the one in `fixed`."""
        for name, only in fixed.items():
            value = settings.get(name, only)
            self.add_if(value != only, name, value, f"{name} is {value!r} (must be {only!r})", (only,))

    def add_if(self, wrong: bool, name: str, value: Any, reason: str, allowed: Iterable[Any] | None = None) -> None:
        """Record a setting if its value is wrong."""
        if wrong:
            self.found.append(FolderError(reason, argument=name, value=value, allowed=allowed, path=self.path))

    def activation(self, settings: Mapping[str, Any], name: str, default: str, known: Mapping[str, str]) -> str:
        """Return regard's name of an activation; record an activation that is not in `known`."""
        value = settings.get(name, default)
        self.add_if(value not in known, name, value, f"{name} is {value!r} (must be {', '.join(known)})", known)
        return known.get(value, "")

    def raise_if_any(self) -> None:
        """Raise if any setting was recorded. The message lists all, the error fields describe the first."""
        if self.found:
            first, listed = self.found[0], "; ".join(map(str, self.found))
            message = f"{self.path} has settings that regard does not support: {listed}."
            raise FolderError(
                message, argument=first.argument, value=first.value, allowed=first.allowed, path=self.path
            )


_REQUIRED: Any = object()


def integer(settings: Mapping[str, Any], name: str, default: Any = _REQUIRED, *, least: int = 1) -> int:
    """Return a setting that must be an integer ≥ `least`. A missing setting or null means the default."""
    value = _setting(settings, name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        message = f"{name} must be an integer of at least {least}, got {value!r}."
        raise UsageError(message, argument=name, value=value)
    return value


def number(settings: Mapping[str, Any], name: str, default: Any = _REQUIRED) -> float:
    """Return a setting that must be a number."""
    value = _setting(settings, name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UsageError(f"{name} must be a number, got {value!r}.", argument=name, value=value)
    return float(value)


def number_or_null(settings: Mapping[str, Any], name: str, default: float | None) -> float | None:
    """Return a setting that must be a number or null. Only a missing setting means the default."""
    value = settings.get(name, default)
    return None if value is None else number({name: value}, name)


def boolean(settings: Mapping[str, Any], name: str, default: bool) -> bool:
    """Return a setting that must be true or false."""
    value = _setting(settings, name, default)
    if not isinstance(value, bool):
        message = f"{name} must be true or false, got {value!r}."
        raise UsageError(message, argument=name, value=value, allowed=(True, False))
    return value


def _setting(settings: Mapping[str, Any], name: str, default: Any) -> Any:
    value = settings.get(name)
    if value is not None:
        return value
    if default is _REQUIRED:
        raise UsageError(f"{name} is {'null' if name in settings else 'missing'}.", argument=name)
    return default


class Setting(NamedTuple):
    """A setting that both configs have."""

    theirs: str  # name in their config.json
    ours: str  # field of our config
    read: Callable[..., Any] = integer
    default: Any = _REQUIRED  # value of their setting if config.json does not contain it


def read_settings(settings: Mapping[str, Any], table: Iterable[Setting]) -> dict[str, Any]:
    """Return the fields of regard's config for the settings of another tool."""
    return {item.ours: item.read(settings, item.theirs, item.default) for item in table}


def write_settings(config: Config, table: Iterable[Setting]) -> dict[str, Any]:
    """Return the config.json settings of another tool for regard's config."""
    return {item.theirs: getattr(config, item.ours) for item in table}


def their_activation(activation: str) -> str:
    return next(theirs for theirs, ours in ACTIVATIONS.items() if ours == activation)


def dtype_name(tensors: Mapping[str, Tensor]) -> str:
    """Return the dtype of the first tensor, as written in config.json."""
    return str(next(iter(tensors.values())).dtype).removeprefix("torch.")


# --- Names of tensors ---------------------------------------------------------------------------------------

Pairs = Sequence[tuple[str, tuple[str, ...]]]  # our name for a tensor, and their names for its parts


def module_pairs(modules: Mapping[str, str], ours: str = "", theirs: str = "") -> Pairs:
    """Return pairs of our tensor name and their tensor names, with the prefixes `ours` and `theirs`.

    `modules` maps our module names to theirs. Each entry gives a pair for the weight and one for the bias, or one pair
    if their name already ends in ".weight" or ".bias". Several of their names, separated by spaces, form one module.
    """
    return [
        (f"{ours}{name}{leaf}", tuple(f"{theirs}{part}{leaf}" for part in parts.split()))
        for name, parts in modules.items()
        for leaf in (("",) if parts.endswith((".weight", ".bias")) else (".weight", ".bias"))
    ]


def layer_pairs(block: Mapping[str, str], ours: str, theirs: str, num_layers: int) -> Pairs:
    """Return pairs of tensor names for all blocks of a stack."""
    return [pair for i in range(num_layers) for pair in module_pairs(block, f"{ours}.{i}.", f"{theirs}.{i}.")]


def join(theirs: Mapping[str, Tensor], pairs: Pairs) -> dict[str, Tensor]:
    """Convert tensors of another tool to regard's. Tensors that are not in `pairs` keep their names.

    Parts, such as queries, keys and values, are concatenated along rows. The scales of `qk_norm` are stacked.
    """
    remaining, joined = dict(theirs), {}
    for ours, parts in pairs:
        if all(part in remaining for part in parts):
            tensors = [remaining.pop(part) for part in parts]
            if len(tensors) == 1:
                joined[ours] = tensors[0]
            else:
                joined[ours] = torch.stack(tensors) if ours.endswith(".qk_scale") else torch.cat(tensors)
    return joined | remaining


def split(ours: Mapping[str, Tensor], pairs: Pairs, *, qkv_sizes: Sequence[int] = ()) -> dict[str, Tensor]:
    """Convert regard's tensors to those of another tool. Tensors that are not in `pairs` keep their names.

    Parts have the same size, except that `qkv_sizes` gives the sizes of queries, keys and values if these differ.
    """
    remaining, theirs = dict(ours), dict[str, Tensor]()
    for name, parts in pairs:
        if name in remaining:
            tensor = remaining.pop(name)
            if name.endswith(".qk_scale"):
                tensors = tensor.unbind()
            elif len(parts) == 3 and qkv_sizes:
                tensors = torch.split(tensor, list(qkv_sizes))
            else:
                tensors = tensor.chunk(len(parts))
            theirs |= zip(parts, tensors, strict=True)
    return theirs | remaining
