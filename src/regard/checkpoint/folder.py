"""Read and write a model folder: `config.json`, `model.safetensors`, tokenizer files and a card.

An adapter folder has `adapter.safetensors` instead: LoRA weights that are added to those of another folder.

Folders written by regard have a manifest and are verified on every read. Folders from other programs have none and are
read if they have `config.json` and safetensors weights, in one or more files. Pickles are rejected, because loading
them can run code. Users may edit the card (`*.md`); all other files in the manifest must be unchanged.

Tensors are read by the safetensors library, but written by this module (a length, a JSON header and raw bytes). The
checksum is computed while chunks are written, without a second copy of the model in memory. Tied weights must be given
only once, because the bytes of each name are written: `regard.nn.state_dict.unique_tensors` returns such tensors.

This module handles files and tensors and does not depend on any architecture.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from regard.checkpoint.atomic_folders import (
    MANIFEST,
    Manifest,
    find_damage,
    locate,
    put_folder,
    read_consistent,
    read_manifest,
    staged_folder,
)
from regard.checkpoint.probe import check_folder
from regard.models.heads import HeadConfig
from regard.tokenizers.tokenizer import SpecialTokens, Tokenizer
from regard.utils.atomic_files import Content, content_of, storage_errors
from regard.utils.config import from_dict
from regard.utils.errors import FolderError, UsageError, shorten_list

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"  # lists the shards of a model that is stored in several files
ADAPTER = "adapter.safetensors"  # LoRA weights that are added to those of another folder
CARD = "README.md"

_PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt", "model.pth", "model.ckpt")
_WEIGHTS = (WEIGHTS, INDEX, ADAPTER)  # a model has one of these files; the first that exists is used

_TYPES = """
    float64 F64, float32 F32, float16 F16, bfloat16 BF16, float8_e4m3fn F8_E4M3, float8_e5m2 F8_E5M2, complex64 C64,
    int64 I64, int32 I32, int16 I16, int8 I8, uint64 U64, uint32 U32, uint16 U16, uint8 U8, bool BOOL
"""
DTYPES: dict[torch.dtype, str] = {
    getattr(torch, name): code for name, code in (pair.split() for pair in _TYPES.split(","))
}

_METADATA = {"format": "pt"}  # required by transformers
_ALIGNMENT = 64  # the data starts at a multiple of this, for programs that memory-map the file
_CHUNK = 4 << 20
_MAPPED = 32 << 20  # number of bytes read before the file is closed and opened again


@dataclass(frozen=True)
class ModelFolder:
    """The content of a model folder."""

    path: Path
    config: dict[str, Any]
    tensors: dict[str, torch.Tensor] = field(repr=False)
    is_adapter: bool = False  # the tensors are adapters for the weights of another folder
    texts: Mapping[str, str] = field(default_factory=dict, repr=False)  # text files already read or converted

    @property
    def head(self) -> HeadConfig:
        """Return the head that config.json describes."""
        return HeadConfig(**self.config.get("head", {}))

    def tokenizer(self, name: str = "tokenizer.json") -> Tokenizer:
        """Return a tokenizer of this model, with the special tokens from config.json."""
        tokenizer = Tokenizer.from_json(self.text(name), self.path / name)
        tokens = self.config.get("special_tokens")
        return tokenizer if tokens is None else tokenizer.with_special_tokens(from_dict(SpecialTokens, tokens))

    def has_text(self, name: str) -> bool:
        return name in self.texts or _has(self.path, name)

    def file(self, name: str) -> Path:
        """Return the path of a file in this folder, for libraries that read files themselves."""
        if not _has(self.path, name):
            names = _list_files(self.path)
            raise FolderError(f"{self.path} has no {name}. It contains: {names}.", path=self.path, value=name)
        return locate(self.path, name)

    def text(self, name: str) -> str:
        """Return the content of a text file in this folder."""
        return self.texts[name] if name in self.texts else _read_text(self.file(name))


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
    """Write a model into `path` atomically; other files in the folder stay unchanged.

    `texts` maps names to additional files (`tokenizer.json`, `README.md`, a sentencepiece model as bytes). Tensors go
    to the file `weights`: `WEIGHTS` or `ADAPTER`. Existing files are replaced only with `force`; the old model stays
    valid until the new one is complete.
    """
    path = Path(path)
    try:
        config_text = json.dumps(dict(config), indent=2, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise ValueError(f"the config of a model must be plain JSON: {error}") from error
    contents = {CONFIG: content_of(config_text), weights: tensors_content(tensors)}
    for name, data in texts.items():
        if name in ("", CONFIG, *_WEIGHTS, MANIFEST) or name.startswith(".") or Path(name).name != name:
            raise ValueError(f"{name!r} cannot be the name of an additional file of a model")
        contents[name] = content_of(data)
    num_bytes = sum(content.num_bytes for content in contents.values())
    with storage_errors(path, num_bytes):
        if path.exists() and not path.is_dir():
            raise UsageError(f"{path} is a file. Give a folder to write the model to.", argument="out", path=path)
        names = dict.fromkeys((*contents, MANIFEST, *_WEIGHTS))
        existing = [name for name in names if locate(path, name).exists()]
        if existing and not force:
            advice = "Choose another folder, or replace the model with --force."
            message = f"{path} already contains {shorten_list(existing)}. {advice}"
            raise UsageError(message, argument="out", value=existing, path=path)
        reassurance = f"The previous model in {path} is intact." if is_model_folder(path) else ""
    with storage_errors(path, num_bytes, reassurance):
        created = [folder for folder in (path, *path.parents) if not folder.exists()]  # innermost first
        path.mkdir(parents=True, exist_ok=True)
        try:
            with staged_folder(path, contents) as staged:
                put_folder(staged, path)
        except BaseException:
            for folder in created:
                with contextlib.suppress(OSError):  # not empty
                    folder.rmdir()
            raise


# --- Reading ------------------------------------------------------------------------------------------------


def read_model(path: Path) -> ModelFolder:
    """Read and verify a model folder."""
    return read_consistent(Path(path), _read_model)


def read_config(path: Path) -> dict[str, Any]:
    """Read and verify only the config of a model folder, which is faster than `read_model`."""
    return read_consistent(Path(path), _read_config)


def is_adapter_folder(path: Path) -> bool:
    """Return whether a model folder contains an adapter for the weights of another folder."""
    return ADAPTER in _open_folder(path)[1]


def is_model_folder(path: Path) -> bool:
    """Return whether `path` has the files of a model, without reading them."""
    return _has(path, CONFIG) and any(_has(path, name) for name in _WEIGHTS)


def _read_config(path: Path) -> dict[str, Any]:
    manifest, _ = _open_folder(path)
    _verify(path, {CONFIG: manifest[CONFIG]} if manifest else {})
    return _read_object(locate(path, CONFIG))


def _read_model(path: Path) -> ModelFolder:
    manifest, names = _open_folder(path)
    _verify(path, {name: record for name, record in manifest.items() if not name.endswith(".md")})
    config = _read_object(locate(path, CONFIG))
    weights = next(name for name in _WEIGHTS if name in names)
    tensors = _read_shards(path) if weights == INDEX else read_tensors(locate(path, weights))
    # Read tokenizers together with the weights, so that they belong to the same version.
    texts = {name: _read_text(locate(path, name)) for name in manifest if name.startswith("tokenizer")}
    return ModelFolder(path, config, tensors, is_adapter=weights == ADAPTER, texts=texts)


def _open_folder(path: Path) -> tuple[Manifest, set[str]]:
    """Return the manifest of a model folder (empty for folders from other programs) and its file names, or raise."""
    try:
        check_folder(path)
        has_manifest = _has(path, MANIFEST)
        manifest = read_manifest(locate(path, MANIFEST)) if has_manifest else {}
        # Files that the manifest lists but that do not exist are reported as damage later.
        names = set(manifest if has_manifest else filter(partial(_has, path), (CONFIG, *_WEIGHTS)))
        if CONFIG not in names or names.isdisjoint(_WEIGHTS):
            raise _not_a_model(path)
    except OSError as error:
        raise FolderError(f"{path} cannot be read: {error.strerror or error}.", path=path) from error
    return manifest, names


def _not_a_model(path: Path) -> FolderError:
    pickles = [name for name in _PICKLES if _has(path, name)]
    if pickles and not any(_has(path, name) for name in _WEIGHTS):
        message = (
            f"the weights in {path} are a Python pickle, {pickles[0]}. regard does not load pickles, because they can "
            "run code. If you trust the source, convert it once with transformers: "
            f'AutoModel.from_pretrained("{path}").save_pretrained("{path}-safe", safe_serialization=True), '
            "with the class of the model instead of AutoModel, and load that folder."
        )
        return FolderError(message, path=path, value=pickles[0])
    is_run = any(path.glob(f"checkpoint-*/{MANIFEST}"))
    hint = "It is a training run without a finished model: resume with `regard train … --resume`." if is_run else None
    message = (
        f"{path} is not a model folder: it must contain {CONFIG} and {WEIGHTS}, but contains: {_list_files(path)}."
    )
    return FolderError(f"{message} {hint or ''}".rstrip(), path=path, hint=hint)


def _verify(path: Path, manifest: Manifest) -> None:
    if damage := find_damage(path, manifest):
        advice = f"If you changed it on purpose, delete {MANIFEST}: the folder is then read without verification."
        message = f"the model in {path} is damaged: {'; '.join(damage)}. Copy or create it again. {advice}"
        raise FolderError(message, path=path)


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise FolderError(f"{path} is not UTF-8 text ({error.reason} at byte {error.start}).", path=path) from None
    except OSError as error:
        raise FolderError(f"{path} cannot be read: {error.strerror or error}.", path=path) from error


def _read_object(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(_read_text(path))
    except (ValueError, RecursionError) as error:
        raise FolderError(f"{path} is not JSON ({error}). Copy or download it again.", path=path) from None
    if not isinstance(values, dict):
        raise FolderError(f"{path} must contain a JSON object, not a {type(values).__name__}.", path=path)
    return values


def _read_shards(path: Path) -> dict[str, torch.Tensor]:
    index = locate(path, INDEX)
    shards = _read_object(index).get("weight_map")
    if not isinstance(shards, dict) or not all(isinstance(shard, str) for shard in shards.values()):
        raise FolderError(f"{index} has no usable weight_map (tensor name → file). Download it again.", path=index)
    names = sorted(set(shards.values()))
    if outside := [name for name in names if Path(name).name != name]:
        message = f"{index} refers to files outside the folder: {shorten_list(outside)}. Use a source that you trust."
        raise FolderError(message, path=index)
    if missing := [name for name in names if not _has(path, name)]:
        raise FolderError(f"{path} lacks {shorten_list(missing)}, which {INDEX} lists. Download them again.", path=path)
    tensors: dict[str, torch.Tensor] = {}
    for name in names:
        shard = read_tensors(locate(path, name))
        tensors.update((key, tensor) for key, tensor in shard.items() if shards.get(key) == name)
    if missing := [key for key in shards if key not in tensors]:
        message = f"{path} lacks the tensors {shorten_list(missing)}, which {INDEX} lists. Download it again."
        raise FolderError(message, path=path)
    return tensors


def _has(path: Path, name: str) -> bool:
    return locate(path, name).is_file()


def _list_files(path: Path) -> str:
    names = sorted(entry.name + ("/" if entry.is_dir() else "") for entry in path.iterdir())
    return shorten_list(names) if names else "nothing"


# --- Tensors ------------------------------------------------------------------------------------------------


def tensors_content(tensors: Mapping[str, torch.Tensor]) -> Content:
    """Return the content of a safetensors file with these tensors, made contiguous if necessary."""
    _check_tensors(tensors)
    # Wide types first, so that every tensor starts at a multiple of its item size.
    names = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header: dict[str, object] = {"__metadata__": _METADATA}
    start = 0
    for name in names:
        end = start + tensors[name].nbytes
        shape = list(tensors[name].shape)
        header[name] = {"dtype": DTYPES[tensors[name].dtype], "shape": shape, "data_offsets": [start, end]}
        start = end
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    text += b" " * (-(8 + len(text)) % _ALIGNMENT)

    def chunks() -> Iterator[bytes | memoryview]:
        yield len(text).to_bytes(8, "little") + text
        for name in names:
            raw = raw_bytes(tensors[name])
            for first in range(0, len(raw), _CHUNK):
                yield raw[first : first + _CHUNK]

    return Content(8 + len(text) + start, chunks)


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """Read the tensors of a safetensors file, each into its own memory.

    The tensors are copied out of the mapped file. Rounding can depend on the alignment of memory, but the outputs of a
    loaded model must be bitwise identical to those of the saved one. Mapped pages count as memory until the file is
    closed. To limit them, the largest tensors are read first, and the file is opened again after every `_MAPPED` bytes.
    """
    tensors: dict[str, torch.Tensor] = {}
    try:
        with safe_open(path, framework="pt", device="cpu") as stream:
            names = list(stream.keys())
            remaining = sorted(names, key=lambda name: math.prod(stream.get_slice(name).get_shape()))
        while remaining:
            with safe_open(path, framework="pt", device="cpu") as stream:
                num_bytes = 0
                while remaining and num_bytes < _MAPPED:
                    name = remaining.pop()
                    tensors[name] = stream.get_tensor(name).clone()
                    num_bytes += tensors[name].nbytes
    except (SafetensorError, OSError, ValueError, RuntimeError, KeyError, AttributeError) as error:
        message = f"{path} is truncated or is not a safetensors file ({error}). Copy or download it again."
        raise FolderError(message, path=path) from error
    return {name: tensors[name] for name in names}


def raw_bytes(tensor: torch.Tensor) -> memoryview:
    """Return the bytes of a tensor in row-major order, without a copy if it is contiguous."""
    plain = tensor.detach().to("cpu").resolve_conj().resolve_neg().contiguous().reshape(-1)
    return plain.view(torch.uint8).numpy().data


def _check_tensors(tensors: Mapping[str, torch.Tensor]) -> None:
    """Raise ValueError for tensors that could not be read back identically; these are bugs in the calling code."""
    names: dict[tuple[object, ...], str] = {}
    for name, tensor in tensors.items():
        if name == "__metadata__":
            raise ValueError("'__metadata__' is reserved by safetensors and cannot be the name of a tensor")
        if tensor.dtype not in DTYPES or tensor.layout != torch.strided or tensor.is_meta:
            kind = f"{tensor.dtype}, {tensor.layout}, on {tensor.device}"
            raise ValueError(f"tensor {name!r} cannot be stored ({kind}): give a dense tensor with values")
        memory = (tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        if tensor.numel() and names.setdefault(memory, name) != name:
            raise ValueError(
                f"tensors {names[memory]!r} and {name!r} share memory: give tied weights only once (see unique_tensors)"
            )
