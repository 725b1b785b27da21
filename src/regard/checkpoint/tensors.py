"""Write named tensors to a safetensors file and read them back, bit for bit.

The safetensors library reads files. This module writes them (a length, a JSON header and raw bytes), so that the
checksum is computed while chunks are written, without a second copy of the model in memory. Nothing in this format can
run code.

Each name is written with its own bytes, so tied weights must be given only once. Two names for the same memory
raise an error; `regard.nn.state_dict.unique_tensors` returns the tensors of a module without such duplicates.
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

_TYPES = """
    float64 F64, float32 F32, float16 F16, bfloat16 BF16, float8_e4m3fn F8_E4M3, float8_e5m2 F8_E5M2, complex64 C64,
    int64 I64, int32 I32, int16 I16, int8 I8, uint64 U64, uint32 U32, uint16 U16, uint8 U8, bool BOOL
"""
DTYPES: dict[torch.dtype, str] = {
    getattr(torch, name): code for name, code in (pair.split() for pair in _TYPES.split(","))
}

_METADATA = {"format": "pt"}  # transformers requires it
_ALIGNMENT = 64  # the data starts at a multiple of this, for programs that memory-map the file
_CHUNK = 4 << 20
_MAPPED = 32 << 20  # number of bytes read before the file is closed and opened again


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

    They are copied out of the mapped file, because rounding can depend on the alignment of memory, and a
    loaded model must behave bit for bit like the saved one. Pages that were read count as memory until the file is
    closed, so the largest tensors come first and the file is opened again after every `_MAPPED` bytes.
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
        raise FolderError(
            f"{path} is truncated or is not a safetensors file ({error}). Copy or download it again.", path=path
        ) from error
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
                f"tensors {names[memory]!r} and {name!r} share memory: give tied weights once, under one name "
                "(unique_tensors(module) does that)"
            )
