"""Named tensors ↔ one safetensors file, bit for bit.

Reading is done by the safetensors library. Writing is done here, because the format is a length, a JSON
header and the raw bytes, and writing it in chunks lets the checksum be computed on the way with no second copy
of the model in memory. Nothing in this format can run code. This module knows nothing of folders or manifests.

Tied weights: every name is written with its own bytes, so a tensor that a model uses in two places must come
once, under one name. Two names for the same memory are refused; `regard.checkpoint.folder.unique_tensors` gives
a module's tensors without such duplicates.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from regard.utils.atomic_files import Content
from regard.utils.errors import FolderError

DTYPES: dict[torch.dtype, str] = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.complex64: "C64",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint64: "U64",
    torch.uint32: "U32",
    torch.uint16: "U16",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}

_METADATA = {"format": "pt"}  # transformers asks for it
_ALIGNMENT = 64  # the bytes of the tensors begin at a multiple of this, for those who map the file into memory
_PIECE = 4 << 20
_MAPPED = 32 << 20  # bytes of a file that are read through one opening


def tensors_content(tensors: Mapping[str, torch.Tensor]) -> Content:
    """The safetensors file of these tensors; non-contiguous ones are made contiguous on the way."""
    _check_tensors(tensors)
    # Wide types first, so that every tensor begins at a multiple of its own item size.
    names = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header: dict[str, object] = {"__metadata__": _METADATA}
    start = 0
    for name in names:
        end = start + _num_bytes(tensors[name])
        shape = list(tensors[name].shape)
        header[name] = {"dtype": DTYPES[tensors[name].dtype], "shape": shape, "data_offsets": [start, end]}
        start = end
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    text += b" " * (-(8 + len(text)) % _ALIGNMENT)

    def chunks() -> Iterator[bytes | memoryview]:
        yield len(text).to_bytes(8, "little") + text
        for name in names:
            raw = raw_bytes(tensors[name])
            for first in range(0, len(raw), _PIECE):
                yield raw[first : first + _PIECE]

    return Content(8 + len(text) + start, chunks)


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors file, each in memory of its own.

    They are copied out of the mapped file: arithmetic may round differently on memory that is aligned
    differently, and what was loaded must behave bit for bit like what was saved. What was read of the file counts as
    memory until it is closed, so the largest come first and the file is opened anew every now and then.
    """
    tensors: dict[str, torch.Tensor] = {}
    try:
        with safe_open(path, framework="pt", device="cpu") as stream:
            names = list(stream.keys())
            waiting = sorted(names, key=lambda name: math.prod(stream.get_slice(name).get_shape()))
        while waiting:
            with safe_open(path, framework="pt", device="cpu") as stream:
                read = 0
                while waiting and read < _MAPPED:
                    name = waiting.pop()
                    tensors[name] = stream.get_tensor(name).clone()
                    read += tensors[name].nbytes
    except (SafetensorError, OSError, ValueError, RuntimeError, KeyError, AttributeError) as error:
        raise FolderError(
            f"{path} is truncated or is not a safetensors file ({error}). Copy or download it again.", path=path
        ) from error
    return {name: tensors[name] for name in names}


def raw_bytes(tensor: torch.Tensor) -> memoryview:
    """The bytes of a tensor in row order, without a copy where it already lies so."""
    plain = tensor.detach().to("cpu").resolve_conj().resolve_neg().contiguous().reshape(-1)
    return plain.view(torch.uint8).numpy().data


def _num_bytes(tensor: torch.Tensor) -> int:
    return math.prod(tensor.shape) * tensor.element_size()


def _check_tensors(tensors: Mapping[str, torch.Tensor]) -> None:
    """Refuse what would not come back as it went: these are mistakes of the calling code."""
    seen: dict[tuple[object, ...], str] = {}
    for name, tensor in tensors.items():
        if name == "__metadata__":
            raise ValueError("a tensor cannot be called '__metadata__': safetensors keeps that name for itself")
        if tensor.dtype not in DTYPES or tensor.layout != torch.strided or tensor.is_meta:
            kind = f"{tensor.dtype}, {tensor.layout}, on {tensor.device}"
            raise ValueError(f"tensor {name!r} cannot be stored ({kind}): give a dense tensor with values")
        if tensor.numel() == 0:
            continue
        memory = (tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        if memory in seen:
            raise ValueError(
                f"tensors {seen[memory]!r} and {name!r} are the same memory: give tied weights once, "
                "under one name (unique_tensors(module) does that)"
            )
        seen[memory] = name
