"""Save, load, import and export predictors for any registered task.

The config.json of a regard folder contains its task and architecture. A folder from another tool is recognized by
one of the registered formats, which converts it to the regard format in memory.

An adapter folder has no copy of the base weights, which can be a thousand times larger. It stores the checksum of the
base weights and the relative path of the base folder: both folders can move together, and no absolute path is
published. The checksum covers tensors, not files, so the base may be moved, sharded or converted. A folder or link
named `base` inside the adapter folder takes precedence.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.checkpoint.atomic_folders import is_edited_card
from regard.checkpoint.card import CardData, model_card
from regard.checkpoint.folder import CARD, CONFIG, WEIGHTS, ModelFolder, raw_bytes, read_config, read_model, write_model
from regard.checkpoint.format1 import FORMAT, rename_tensor, upgrade
from regard.checkpoint.probe import cached_folder, is_hub_name
from regard.metrics.score import Score
from regard.models.formats import FolderContent, Format, export
from regard.nn.config import LoRAConfig
from regard.nn.init import empty_weights
from regard.nn.lora import add_adapters, merge
from regard.nn.quantized import PRECISIONS, Precision, quantize_weights
from regard.nn.state_dict import load_into, unique_tensors
from regard.registry import architecture_of, architectures, task_for_model, tasks
from regard.spec import Architecture, TaskSpec, resolve
from regard.utils.errors import FolderError, UsageError, config_errors, unknown

LORA = "lora"  # the key of an adapter's settings in config.json
BASE = "base"  # the key of an adapter's base in config.json, and the name of the base folder or link inside its folder
PACKAGES = ("regard", "torch", "tokenizers")  # packages whose versions are listed in the card


@dataclass(frozen=True)
class Weights:
    """The weights to write: a complete model, or an adapter with a reference to its base."""

    file: str
    tensors: Mapping[str, torch.Tensor]
    config: Mapping[str, Any]  # additional entries of config.json

    @classmethod
    def of(cls, model: nn.Module) -> Weights:
        """Return the weights of a complete model."""
        return cls(WEIGHTS, unique_tensors(model), {})


# --- Loading ------------------------------------------------------------------------------------------------


def load_predictor(path: Path, *, task: str | None = None, precision: Precision = "fp32") -> Any:
    """Load the predictor in a folder; with `task`, use its model in a predictor for that task."""
    if precision not in PRECISIONS:
        raise unknown("precision", str(precision), PRECISIONS)
    predictor = predictor_of(open_folder(path))
    if task is not None and task != predictor.spec.name:
        predictor = adapt(predictor, tasks[task], path)
    quantize_weights(predictor.model, precision)
    return predictor


def open_folder(path: Path) -> ModelFolder:
    """Read a model folder from any supported tool or version and convert it to the current format."""
    config = read_config(path)
    if "regard" in config:
        return upgrade(read_model(path))
    foreign = foreign_format(path, config)
    folder = read_model(path)
    content = foreign.from_hf(folder)
    texts = {name: str(text) for name, text in content.texts.items()}
    return ModelFolder(path, dict(content.config), content.tensors, texts=texts)


def foreign_format(path: Path, config: Mapping[str, Any]) -> Format:
    """Return the format of another tool's folder, according to its model_type."""
    known = {item.model_type: item for entry in architectures.usable().values() for item in formats_of(entry)}
    model_type = config.get("model_type")
    if model_type not in known:
        message = f"the model_type of {path} must be one of {', '.join(known)}, got {model_type!r}."
        raise FolderError(message, path=path, argument="model_type", value=model_type, allowed=known)
    return known[str(model_type)]


def formats_of(architecture: Architecture) -> Sequence[Format]:
    """Return the formats of other tools that an architecture can be converted from and to."""
    formats: Sequence[Format] = () if architecture.formats is None else resolve(architecture.formats)
    return formats


def predictor_of(folder: ModelFolder) -> Any:
    """Build the predictor in a folder that `open_folder` has read."""
    with config_errors(folder.path / CONFIG):
        architecture = architectures[folder.config["architecture"]]
        config = architecture.config(**folder.config["model"])
        with empty_weights():
            model = architecture.build(config, folder.head)
        name, kind = folder.config["regard"].get("task"), folder.head.kind
        spec = task_for_model(architecture.name, kind) if name is None else tasks[name]
        if spec is None:
            raise UsageError(f"no installed task uses the head {kind!r}.", argument="head", value=kind)
    _load_weights(model, folder)
    with config_errors(folder.path / CONFIG):
        return spec.load("predictor").load(folder, model)


def adapt(predictor: Any, spec: TaskSpec, path: Path) -> Any:
    """Return a predictor for another task with the same model; raise if the model does not support the task."""
    adapted = spec.load("predictor").adapt(predictor)
    if adapted is None:
        advice = f"Use `regard {predictor.spec.name} {path}`, or train a model with `regard train {spec.name}`."
        message = f"{path} is {predictor.spec.noun}, which cannot {spec.name}. {advice}"
        raise UsageError(message, argument="task", value=spec.name, path=path)
    return adapted


def _load_weights(model: nn.Module, folder: ModelFolder) -> None:
    if not folder.is_adapter:
        try:
            load_into(model, folder.tensors)
        except FolderError as error:
            raise FolderError(f"{folder.path}: {error}", path=folder.path) from None
        return
    with config_errors(folder.path / CONFIG):
        config = LoRAConfig(**folder.config[LORA])
        reference = BaseReference(**folder.config[BASE])

    def read_base(path: Path) -> Mapping[str, torch.Tensor]:
        base = open_folder(path)
        if base.is_adapter:
            message = f"the base of {folder.path} must be a complete model, but {path} is an adapter."
            raise FolderError(f"{message} Put the original base model at that path.", path=path)
        return base.tensors

    load_into(model, dict(base_tensors(folder.path, reference, read_base)))
    add_adapters(model, config, seed=0)
    load_into(model, folder.tensors, trainable_only=True)
    merge(model)


# --- Adapters -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class BaseReference:
    """A reference to the base of an adapter, which is stored in the adapter's config.json."""

    name: str  # a relative path or hf:owner/name as the user gave it, or the last part of an absolute path
    checksum: str  # checksum of the base weights
    relative: str = ""  # its path relative to the adapter folder
    path: str = ""  # absolute path, only if the base was on another drive or regard was an earlier version

    @classmethod
    def relative_to(cls, folder: Path, *, name: str, base: Path, checksum: str) -> BaseReference:
        """Return a reference to `base` for an adapter in `folder`."""
        public = public_name(name)
        if is_hub_name(name):
            return cls(name=public, checksum=checksum)
        base, folder = base.resolve(), folder.resolve()
        if base.anchor != folder.anchor:
            return cls(name=public, checksum=checksum, path=base.as_posix())
        return cls(name=public, checksum=checksum, relative=Path(os.path.relpath(base, folder)).as_posix())

    def candidates(self, folder: Path) -> list[Path]:
        """Return the folders where the base may be, most likely first."""
        if is_hub_name(self.name):
            cached = cached_folder(self.name)
            return [folder / BASE, *([cached] if cached is not None else [])]
        recorded = [folder / self.relative] if self.relative else []
        recorded += [Path(self.path)] if self.path else []
        sibling = folder.resolve().parent / Path(self.name).name
        return list(dict.fromkeys([folder / BASE, *recorded, Path(self.name), sibling]))


def public_name(name: str) -> str:
    """Return the name of a folder, without the parent directories if it is an absolute path."""
    return name if is_hub_name(name) or not Path(name).is_absolute() else Path(name).name


def weights_checksum(tensors: Mapping[str, torch.Tensor]) -> str:
    """Return the SHA-256 of the tensors' names, dtypes, shapes and values."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(raw_bytes(tensor))
    return digest.hexdigest()


def base_tensors(
    folder: Path, reference: BaseReference, read: Callable[[Path], Mapping[str, torch.Tensor]]
) -> Mapping[str, torch.Tensor]:
    """Return the base weights of the adapter in `folder`; `read` returns the weights of a model folder."""
    candidates = reference.candidates(folder)
    existing = [candidate for candidate in candidates if candidate.is_dir()]
    for candidate in existing:
        with contextlib.suppress(FolderError, UsageError):  # not a model: try the next candidate
            tensors = read(candidate)
            format1 = {rename_tensor(name, undo=True): tensor for name, tensor in tensors.items()}
            if reference.checksum in (weights_checksum(tensors), weights_checksum(format1)):
                return tensors
    if existing:
        problem = f"{' and '.join(map(str, existing))} does not have the weights that the adapter was trained on"
    else:
        problem = f"its base was not found at {' and '.join(map(str, candidates))}"
    message = (
        f"{folder} is an adapter for {reference.name}, but {problem}. Put the folder {reference.name}, or a link to "
        f"it, at {folder / BASE}. (`regard export` merges an adapter with its base into one model.)"
    )
    raise FolderError(message, path=folder, argument=BASE, value=list(map(str, existing or candidates)))


# --- Saving -------------------------------------------------------------------------------------------------


def save_predictor(
    predictor: Any,
    path: Path,
    *,
    weights: Weights | None = None,  # default: all weights of the model
    settings: Mapping[str, Any] | None = None,  # for the card; default: the model and prediction configs
    training: Mapping[str, Any] | None = None,
    sources: Sequence[CardData] = (),
    scores: Sequence[Score] = (),
    origin: str = "",
    force: bool = False,
) -> None:
    """Write the config, weights, tokenizer and card. Keep a card that the user edited."""
    weights = weights or Weights.of(predictor.model)
    config = {**_config(predictor), **weights.config}
    if training is not None:
        config["training"] = dict(training)
    texts = dict(predictor.tokenizer_files())
    if not is_edited_card(path, CARD):
        texts[CARD] = _card(predictor, path, settings=settings, data=sources, scores=scores, origin=origin)
    write_model(path, config=config, tensors=weights.tensors, texts=texts, weights=weights.file, force=force)


def _config(predictor: Any) -> dict[str, Any]:
    """Return the entries of config.json that complete models and adapters share."""
    return {
        "regard": {"format": FORMAT, "task": predictor.spec.name},
        "architecture": architecture_of(predictor.model).name,
        "model": predictor.model.config.to_dict(),
        "inference": predictor.config.to_dict(),
        **predictor.folder_config(),
    }


def _card(predictor: Any, path: Path, *, settings: Mapping[str, Any] | None = None, origin: str, **facts: Any) -> str:
    """Return the model card, based on the spec of the task; `facts` are other arguments of `model_card`."""
    spec: TaskSpec = predictor.spec
    name = Path(public_name(str(path)))
    inputs = " ".join('"…"' for _ in spec.inputs)
    if settings is None:
        settings = {**predictor.model.config.to_dict(), **predictor.config.to_dict()}
    start = f"It was trained from the weights of {settings['from']}." if settings.get("from") else ""
    return model_card(
        title=path.name,
        summary=" ".join(part for part in (predictor.summary, origin, start) if part),
        task=spec.name,
        num_parameters=sum(param.numel() for param in predictor.model.parameters()),
        settings=settings,
        command=f"regard {spec.name} {name} {inputs}\nregard evaluate {name} test{Path(spec.data_example).suffix}",
        python=f'import regard\n\nmodel = regard.load("{name.as_posix()}")\nprint(model({inputs.replace(" ", ", ")}))',
        versions={package: version(package) for package in PACKAGES},
        pipeline=spec.hub_pipeline or "",
        **facts,
    )


# --- Other tools' folders -----------------------------------------------------------------------------------


def import_folder(path: Path, out: Path, *, force: bool = False) -> Any:
    """Read a folder from another tool and write it as a regard folder."""
    _check_different(path, out)
    config = read_config(path)
    if "regard" in config:
        raise FolderError(f"{path} is already a regard folder. Use it directly, without importing it.", path=path)
    predictor = load_predictor(path)
    origin = f"Imported from the {config['model_type']} folder {path.name}."
    save_predictor(predictor, out, force=force, origin=origin)
    return predictor


def export_folder(path: Path, out: Path, *, force: bool = False) -> list[str]:
    """Write a model as a folder that `transformers` can load; return its class name and notes on the conversion."""
    _check_different(path, out)
    predictor = load_predictor(path)
    architecture = architecture_of(predictor.model)
    formats = formats_of(architecture)
    if not formats:
        message = f"{architecture.name} models cannot be exported: the architecture defines no export format."
        raise UsageError(message, argument="model")
    content = FolderContent(_config(predictor), unique_tensors(predictor.model), predictor.tokenizer_files())
    exported = export(formats, content)
    texts = {**exported.texts, CARD: _card(predictor, out, origin=f"Exported from the regard folder {path.name}.")}
    write_model(out, config=exported.config, tensors=exported.tensors, texts=texts, force=force)
    return [f"{exported.class_name} for transformers", *exported.notes]


def _check_different(path: Path, out: Path) -> None:
    if out.exists() and out.resolve() == path.resolve():
        message = f"--out must not be the model folder, got {out}. Choose another --out."
        raise UsageError(message, argument="out", value=str(out))
