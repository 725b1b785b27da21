"""Predictors in model folders: save, load, import and export. Knows the registry and no task.

A folder that regard wrote names its task and its architecture in config.json. A folder of another tool is recognized by
one of the registered formats, which reads it as if regard had written it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.checkpoint.adapters import BASE, BaseReference, base_tensors, name_to_keep
from regard.checkpoint.atomic_folders import is_edited_card
from regard.checkpoint.card import Card, CardData, CardScore, model_card
from regard.checkpoint.folder import CARD, CONFIG, WEIGHTS, ModelFolder, read_config, read_model, write_model
from regard.checkpoint.format1 import upgrade
from regard.models.formats import Content, Format, export
from regard.nn.init import empty_weights
from regard.nn.lora import add_adapters, merge
from regard.nn.lora_config import LoRAConfig
from regard.nn.quantized import PRECISIONS, Precision, quantize_weights
from regard.nn.state_dict import load_into, unique_tensors
from regard.registry import architecture_of, architectures, task_for_model, tasks
from regard.spec import Architecture, TaskSpec, resolve
from regard.utils.errors import FolderError, UsageError, config_errors, unknown

FORMAT = 2  # of config.json
LORA = "lora"  # the key of an adapter's settings in config.json
PACKAGES = ("regard", "torch", "tokenizers")  # whose versions a card names


@dataclass(frozen=True)
class Weights:
    """The weights to write: a whole model, or an adapter with a reference to its base."""

    file: str
    tensors: Mapping[str, torch.Tensor]
    config: Mapping[str, Any]  # what config.json says about them


# --- Loading ------------------------------------------------------------------------------------------------


def load_predictor(path: Path, *, task: str | None = None, precision: Precision = "fp32") -> Any:
    """The predictor in a folder; with `task` the one that does this task with the same model."""
    if precision not in PRECISIONS:
        raise unknown("precision", str(precision), PRECISIONS)
    folder = open_folder(path)
    predictor = predictor_of(folder)
    if task is not None and task != predictor.spec.name:
        predictor = adapt(predictor, tasks[task], path)
    quantize_weights(predictor.model, precision)
    return predictor


def open_folder(path: Path) -> ModelFolder:
    """A model folder in the terms of the current format, whichever tool and version wrote it."""
    config = read_config(path)
    if "regard" in config:
        return upgrade(read_model(path))
    folder, content = _convert(path, config)
    texts = {name: str(text) for name, text in content.texts.items()}
    return ModelFolder(path, dict(content.config), content.tensors, folder.manifest, texts=texts)


def _convert(path: Path, config: Mapping[str, Any]) -> tuple[ModelFolder, Content]:
    """A folder of another tool, and what it would be as one of regard's."""
    found = foreign_format(path, config)
    folder = read_model(path)
    return folder, found.from_hf(folder)


def foreign_format(path: Path, config: Mapping[str, Any]) -> Format:
    """The format of another tool's folder, by its model_type."""
    known = {item.model_type: item for entry in architectures.usable().values() for item in formats_of(entry)}
    kind = config.get("model_type")
    if kind not in known:
        raise FolderError(
            f"{path} holds a model of type {kind!r}. regard reads its own folders and those of {', '.join(known)}.",
            path=str(path),
            argument="model_type",
            value=kind,
            allowed=tuple(known),
        )
    return known[str(kind)]


def formats_of(architecture: Architecture) -> Sequence[Format]:
    """The formats of other tools that hold models of an architecture."""
    formats: Sequence[Format] = () if architecture.formats is None else resolve(architecture.formats)
    return formats


def predictor_of(folder: ModelFolder) -> Any:
    """The predictor of an opened folder."""
    with config_errors(folder.path / CONFIG):
        architecture = architectures[folder.config["architecture"]]
        config = architecture.config(**folder.config["model"])
        with empty_weights():
            model = architecture.build(config, folder.head)
        spec = _task(folder)
    _load_weights(model, folder)
    with config_errors(folder.path / CONFIG):
        return spec.load("predictor").load(folder, model)


def _task(folder: ModelFolder) -> TaskSpec:
    name = folder.config["regard"].get("task")
    if name is not None:
        return tasks[name]
    found = task_for_model(folder.config["architecture"], folder.head.kind)
    if found is None:
        raise UsageError(f"no task uses the head {folder.head.kind!r}.", argument="head", value=folder.head.kind)
    return found


def adapt(predictor: Any, spec: TaskSpec, path: Path) -> Any:
    """The predictor of another task around the same model; refused where the model cannot do it."""
    found = spec.load("predictor").adapt(predictor)
    if found is None:
        raise UsageError(
            f"{path} holds {predictor.spec.noun}, which cannot {spec.name}. Use `regard {predictor.spec.name} {path}`, "
            f"or train a model with `regard train {spec.name}`.",
            argument="task",
            value=spec.name,
            path=str(path),
        )
    return found


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
            raise FolderError(f"the base {path} of {folder.path} is an adapter itself.", path=str(path))
        return base.tensors

    load_into(model, dict(base_tensors(folder.path, reference, read_base)))
    add_adapters(model, config, seed=0)
    load_into(model, folder.tensors, learned_only=True)
    merge(model)


# --- Saving -------------------------------------------------------------------------------------------------


def save_predictor(predictor: Any, path: Path, *, force: bool = False, origin: str = "") -> None:
    """Write a predictor that was loaded, imported or trained."""
    weights = Weights(WEIGHTS, unique_tensors(predictor.model), {})
    settings = {**predictor.model.config.to_dict(), **predictor.config.to_dict()}
    write_predictor(predictor, path, weights=weights, settings=settings, origin=origin, force=force)


def write_predictor(
    predictor: Any,
    path: Path,
    *,
    weights: Weights,
    settings: Mapping[str, Any],
    training: Mapping[str, Any] | None = None,
    sources: Sequence[CardData] = (),
    scores: Sequence[CardScore] = (),
    origin: str = "",
    force: bool = False,
) -> None:
    """Write config, weights, tokenizer and card. A card that was edited by hand stays."""
    config = {
        **_config(predictor),
        **weights.config,
        **({"training": dict(training)} if training is not None else {}),
    }
    texts = dict(predictor.tokenizer_files())
    if not is_edited_card(path, CARD):
        texts[CARD] = predictor_card(predictor, path, settings=settings, sources=sources, scores=scores, origin=origin)
    write_model(path, config=config, tensors=weights.tensors, texts=texts, weights=weights.file, force=force)


def _config(predictor: Any) -> dict[str, Any]:
    """What config.json says about a predictor, besides where its weights come from."""
    return {
        "regard": {"format": FORMAT, "task": predictor.spec.name},
        "architecture": architecture_of(predictor.model).name,
        "model": predictor.model.config.to_dict(),
        "inference": predictor.config.to_dict(),
        **predictor.folder_config(),
    }


def predictor_card(
    predictor: Any,
    path: Path,
    *,
    settings: Mapping[str, Any],
    sources: Sequence[CardData] = (),
    scores: Sequence[CardScore] = (),
    origin: str = "",
) -> str:
    """The model card, derived from the task's spec."""
    spec: TaskSpec = predictor.spec
    name = Path(name_to_keep(str(path)))
    shown = " ".join('"…"' for _ in spec.inputs)
    start = settings.get("from")
    parts = [predictor.summary, origin, f"It was trained from the weights of {start}." if start else ""]
    return model_card(
        Card(
            title=path.name,
            summary=" ".join(part for part in parts if part),
            task=spec.name,
            num_parameters=sum(param.numel() for param in predictor.model.parameters()),
            data=tuple(sources),
            settings=settings,
            scores=tuple(scores),
            command=f"regard {spec.name} {name} {shown}\nregard evaluate {name} {spec.data_example}",
            python=f'import regard\n\nmodel = regard.load("{name.as_posix()}")\n'
            f"print(model({shown.replace(' ', ', ')}))",
            versions={package: version(package) for package in PACKAGES},
            pipeline=spec.hub_pipeline or "",
        )
    )


# --- Other tools' folders -----------------------------------------------------------------------------------


def import_folder(path: Path, out: Path, *, force: bool = False) -> Any:
    """Read a folder of another tool and write it as one of regard's."""
    _check_different(path, out)
    config = read_config(path)
    if "regard" in config:
        raise FolderError(f"{path} is a regard folder already.", path=str(path))
    predictor = load_predictor(path)
    origin = f"Imported from the {config['model_type']} folder {path.name}."
    save_predictor(predictor, out, force=force, origin=origin)
    return predictor


def export_folder(path: Path, out: Path, *, force: bool = False) -> list[str]:
    """Write a model as a folder that `transformers` loads; returns the class it became, and what was lost."""
    _check_different(path, out)
    predictor = load_predictor(path)
    architecture = architecture_of(predictor.model)
    formats = formats_of(architecture)
    if not formats:
        raise UsageError(f"models of type {architecture.name} have no format of another tool.", argument="model")
    content = Content(_config(predictor), unique_tensors(predictor.model), predictor.tokenizer_files())
    exported = export(formats, content)
    settings = {**predictor.model.config.to_dict(), **predictor.config.to_dict()}
    card = predictor_card(predictor, out, settings=settings, origin=f"Exported from the regard folder {path.name}.")
    texts = {**exported.texts, CARD: card}
    write_model(out, config=exported.config, tensors=exported.tensors, texts=texts, force=force)
    return [f"{exported.class_name} for transformers", *exported.notes]


def _check_different(path: Path, out: Path) -> None:
    if out.exists() and out.resolve() == path.resolve():
        raise UsageError(
            f"--out {out} is the model folder itself: choose another --out.", argument="out", value=str(out)
        )
