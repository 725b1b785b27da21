"""A model folder: `config.json`, `model.safetensors`, the tokenizer's files and a card, written and read.

An adapted model has `adapter.safetensors` in place of its weights: what was learned beside those of another folder.

Folders that regard wrote carry a manifest and are verified on every read. Folders of other programs have
none; they are read when they hold `config.json` and safetensors weights, whole or sharded. Weights in Python's
pickle format are refused, because loading them can run code. The words of the card (`*.md`) may be edited by
hand; every other file of the manifest must be as it was written.

This module knows files and tensors, but no architecture: what a config means is decided by who asks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch

from regard.checkpoint.atomic_folders import COMMIT, locate, merge_into, staged_folder
from regard.checkpoint.manifest import MANIFEST, Manifest, problems, read_manifest
from regard.checkpoint.probe import check_folder
from regard.checkpoint.tensors import read_tensors, tensors_content
from regard.models.heads import HeadConfig
from regard.tokenizers.tokenizer import SpecialTokens, Tokenizer
from regard.utils.atomic_files import content_of, storage_errors
from regard.utils.config import from_dict
from regard.utils.errors import FolderError, UsageError, shorten_list

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"  # the list of shards of a model that is stored in several files
ADAPTER = "adapter.safetensors"  # what was learned beside weights that lie in another folder
CARD = "README.md"

_PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt", "model.pth", "model.ckpt")
_WEIGHTS = (WEIGHTS, INDEX, ADAPTER)  # a model has one of them; the first that is there counts
_ATTEMPTS = 5  # how often a read starts again because a writer replaced the model meanwhile

R = TypeVar("R")


@dataclass(frozen=True)
class ModelFolder:
    """A model as it lies on disk; `manifest` is None for folders of other programs."""

    path: Path
    config: dict[str, Any]
    tensors: dict[str, torch.Tensor]
    manifest: Manifest | None
    is_adapter: bool = False  # the tensors are adapters, and not a model by themselves
    texts: Mapping[str, str] = field(default_factory=dict)  # files in the current format, where others are on disk

    @property
    def head(self) -> HeadConfig:
        """The head that config.json describes."""
        return HeadConfig(**self.config.get("head", {}))

    def tokenizer(self, name: str = "tokenizer.json") -> Tokenizer:
        """A tokenizer of this model, with the special tokens that config.json names."""
        tokenizer = Tokenizer.from_json(self.text(name), self.path / name)
        special_tokens = self.config.get("special_tokens")
        return (
            tokenizer
            if special_tokens is None
            else tokenizer.with_special_tokens(from_dict(SpecialTokens, special_tokens))
        )

    def has_text(self, name: str) -> bool:
        return name in self.texts or locate(self.path, name).is_file()

    def file(self, name: str) -> Path:
        """Where a file of this model lies, for readers that want a path (a sentencepiece model)."""
        found = locate(self.path, name)
        if not found.is_file():
            raise FolderError(f"{self.path} has no {name}. There: {_listing(self.path)}.", path=self.path, value=name)
        return found

    def text(self, name: str) -> str:
        """A text file of this model, such as its tokenizer."""
        if name in self.texts:
            return self.texts[name]
        return _read_text(self.file(name))

    def __repr__(self) -> str:
        num = sum(tensor.numel() for tensor in self.tensors.values())
        return f"ModelFolder({str(self.path)!r}, {len(self.tensors)} tensors, {num:,} numbers)"


# --- Writing ------------------------------------------------------------------------------------------------


def write_model(
    path: Path,
    *,
    config: Mapping[str, Any],
    tensors: Mapping[str, torch.Tensor],
    texts: Mapping[str, str | bytes],
    weights: str = WEIGHTS,
    force: bool = False,
) -> None:
    """Write a model into `path`, all of it or nothing; whatever else lies in the folder stays.

    `texts` are the other files by name (`tokenizer.json`, `README.md`, a sentencepiece model as bytes). The tensors go
    to the file `weights`: a whole model's, or `ADAPTER`. A file that is already there is only replaced with `force`;
    then the old model stays valid until the new one is.
    """
    path = Path(path)
    contents = {CONFIG: content_of(_config_text(config)), weights: tensors_content(tensors)}
    for name, data in texts.items():
        if name in ("", CONFIG, *_WEIGHTS, MANIFEST) or name.startswith(".") or Path(name).name != name:
            raise ValueError(f"{name!r} cannot be the name of an additional file of a model")
        contents[name] = content_of(data)
    num_bytes = sum(content.num_bytes for content in contents.values())
    with storage_errors(path, num_bytes):
        if path.exists() and not path.is_dir():
            raise UsageError(f"{path} is a file; give a folder to write the model to.", argument="out", path=path)
        if not force:
            _refuse_to_overwrite(path, [*contents, MANIFEST, *(name for name in _WEIGHTS if name != weights)])
        reassurance = f"The model that was in {path} is intact." if is_model_folder(path) else ""
    with storage_errors(path, num_bytes, reassurance):
        created = _make_folders(path)
        try:
            with staged_folder(path, contents) as staged:
                merge_into(staged, path)
        except BaseException:
            for folder in reversed(created):
                _remove_if_empty(folder)
            raise


def _config_text(config: Mapping[str, Any]) -> str:
    try:
        return json.dumps(dict(config), indent=2, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise ValueError(f"the config of a model must be plain JSON: {error}") from error


def _refuse_to_overwrite(path: Path, names: Iterable[str]) -> None:
    taken = [name for name in names if locate(path, name).exists()]
    if taken:
        raise UsageError(
            f"{path} already holds {shorten_list(taken)}. Choose another folder, or replace the model with --force.",
            argument="out",
            path=path,
        )


def _make_folders(path: Path) -> list[Path]:
    """Create `path` with its parents, and say which of them are new, outermost first."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    return missing[::-1]


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return


# --- Reading ------------------------------------------------------------------------------------------------


def read_model(path: Path) -> ModelFolder:
    """Read and verify a model folder."""
    return read_consistent(Path(path), _read_model)


def read_config(path: Path) -> dict[str, Any]:
    """Read only the config of a model folder; cheap, the weights are not touched."""
    return read_consistent(Path(path), lambda path: _read_config(path, _open_folder(path)))


def model_files(path: Path, *names: str) -> dict[str, Path]:
    """Those of `names` that belong to the model, verified, and where they lie."""
    manifest = _open_folder(path)
    present = [name for name in names if (name in manifest.files if manifest else _has(path, name))]
    if manifest is not None:
        _verify(path, manifest, present)
    return {name: locate(path, name) for name in present}


def is_adapter_folder(path: Path) -> bool:
    """Whether a folder holds an adapter of another folder's weights."""
    return bool(model_files(path, ADAPTER))


def is_model_folder(path: Path) -> bool:
    """Whether there is a model in `path`, as far as the names of its files tell."""
    return _has(path, CONFIG) and any(_has(path, name) for name in _WEIGHTS)


def read_consistent(path: Path, read: Callable[[Path], R]) -> R:
    """What `read` returns, read again when a writer was replacing the model meanwhile: never half old, half new."""
    for _ in range(_ATTEMPTS - 1):
        before = _version(path)
        try:
            found = read(path)
        except FolderError:
            if _version(path) == before:
                raise
        else:
            if _version(path) == before:
                return found
    return read(path)


def _version(path: Path) -> tuple[bytes, tuple[str, ...]]:
    """What changes while a writer is at work: the valid manifest, and what is still to be moved."""
    try:
        manifest = locate(path, MANIFEST).read_bytes()
    except OSError:
        manifest = b""
    return manifest, tuple(sorted(entry.name for entry in path.glob(f"{COMMIT}/*")))


def _read_model(path: Path) -> ModelFolder:
    manifest = _open_folder(path)
    if manifest is not None:
        _verify(path, manifest, [name for name in manifest.files if not name.endswith(".md")])
    config = _read_config(path, manifest)
    kind = next(name for name in _WEIGHTS if (name in manifest.files if manifest else _has(path, name)))
    tensors = _read_shards(path) if kind == INDEX else read_tensors(locate(path, kind))
    # Read together with the weights, so that a concurrent writer cannot leave one old and one new.
    names = [name for name in manifest.files if name.startswith("tokenizer")] if manifest else []
    texts = {name: _read_text(locate(path, name)) for name in names}
    return ModelFolder(path, config, tensors, manifest, is_adapter=kind == ADAPTER, texts=texts)


def _open_folder(path: Path) -> Manifest | None:
    """Check that `path` is a model folder, and return its manifest if it has one."""
    try:
        check_folder(path)
        manifest = read_manifest(locate(path, MANIFEST)) if _has(path, MANIFEST) else None
        names = {name for name in (CONFIG, *_WEIGHTS) if _has(path, name)}
        if manifest is not None:
            names = set(manifest.files)  # listed but absent is damage, and is reported as such
        if CONFIG not in names or names.isdisjoint(_WEIGHTS):
            raise _not_a_model(path)
    except OSError as error:
        raise FolderError(f"{path} cannot be read: {error.strerror or error}.", path=path) from error
    return manifest


def _not_a_model(path: Path) -> FolderError:
    pickles = [name for name in _PICKLES if _has(path, name)]
    if pickles and not any(_has(path, name) for name in _WEIGHTS):
        return FolderError(
            f"{path} holds its weights as {pickles[0]}, a Python pickle. Loading one can run any code, so regard never "
            "does. If you trust its source, convert it once with transformers: "
            f'AutoModel.from_pretrained("{path}").save_pretrained("{path}-safe", safe_serialization=True), '
            "with the model's own class instead of AutoModel, and load that folder.",
            path=path,
            value=pickles[0],
        )
    checkpoints = sorted(path.glob(f"checkpoint-*/{MANIFEST}"))
    unfinished = (
        " It is a training run without a finished model: go on with `regard train … --resume`." if checkpoints else ""
    )
    return FolderError(
        f"{path} is not a model folder: {CONFIG} and {WEIGHTS} are expected. There: {_listing(path)}.{unfinished}",
        path=path,
    )


def _verify(path: Path, manifest: Manifest, names: Iterable[str]) -> None:
    found = problems(manifest, lambda name: locate(path, name), names)
    if found:
        raise FolderError(
            f"the model in {path} is damaged: {'; '.join(found)}. Copy it again or write it again. If you changed it "
            f"on purpose, delete {MANIFEST}: the folder is then read without verification.",
            path=path,
        )


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise FolderError(f"{path} is not UTF-8 text ({error.reason} at byte {error.start}).", path=str(path)) from None


def _read_config(path: Path, manifest: Manifest | None) -> dict[str, Any]:
    if manifest is not None:
        _verify(path, manifest, [CONFIG])
    return _read_object(locate(path, CONFIG))


def _read_object(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise FolderError(f"{path} is not JSON ({error}). Copy or download it again.", path=path) from None
    except OSError as error:
        raise FolderError(f"{path} cannot be read: {error.strerror or error}.", path=path) from error
    if not isinstance(values, dict):
        raise FolderError(f"{path} must hold a JSON object, not a {type(values).__name__}.", path=path)
    return values


def _read_shards(path: Path) -> dict[str, torch.Tensor]:
    index = locate(path, INDEX)
    shards = _read_object(index).get("weight_map")
    if not isinstance(shards, dict) or not all(isinstance(shard, str) for shard in shards.values()):
        raise FolderError(f"{index} has no usable weight_map (tensor name → file). Download it again.", path=index)
    if foreign := [shard for shard in shards.values() if Path(shard).name != shard]:
        raise FolderError(f"{index} names files outside the folder: {shorten_list(sorted(set(foreign)))}.", path=index)
    names = sorted(set(shards.values()))
    if missing := [name for name in names if not _has(path, name)]:
        raise FolderError(f"{path} lacks {shorten_list(missing)}, which {INDEX} names. Download them again.", path=path)
    tensors: dict[str, torch.Tensor] = {}
    for name in names:
        shard = read_tensors(locate(path, name))
        tensors.update((key, tensor) for key, tensor in shard.items() if shards.get(key) == name)
    if lost := [key for key in shards if key not in tensors]:
        raise FolderError(
            f"{path} lacks the tensors {shorten_list(lost)}, which {INDEX} names. Download it again.", path=path
        )
    return tensors


def _has(path: Path, name: str) -> bool:
    return locate(path, name).is_file()


def _listing(path: Path) -> str:
    names = sorted(entry.name + ("/" if entry.is_dir() else "") for entry in path.iterdir())
    return shorten_list(names) if names else "nothing, it is empty"
