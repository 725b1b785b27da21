"""Tensors of any content are saved and loaded bit for bit, in the format of the safetensors library."""

from __future__ import annotations

import json
import random

import hypothesis
import hypothesis.strategies as st
import pytest
import safetensors.torch
import torch

from regard.checkpoint.atomic_folders import checksum
from regard.checkpoint.folder import DTYPES, raw_bytes, read_tensors, tensors_content
from regard.utils.atomic_files import write_synced
from regard.utils.errors import FolderError


def random_bits(dtype, *shape, seed=0):
    """A tensor with random bytes, including NaN payloads, infinities and negative zeros."""
    item = torch.empty((), dtype=dtype).element_size()
    count = item
    for size in shape:
        count *= size
    raw = bytearray(random.Random(seed).randbytes(count))
    if dtype is torch.bool:
        raw = bytearray(byte & 1 for byte in raw)
    if not raw:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(raw, dtype=dtype).reshape(shape).clone()


def same_bits(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and bytes(raw_bytes(a)) == bytes(raw_bytes(b))


def round_trip(folder, tensors):
    path = folder / "t.safetensors"
    path.unlink(missing_ok=True)
    content = tensors_content(tensors)
    record = write_synced(path, content)
    assert record.num_bytes == content.num_bytes == path.stat().st_size
    assert record.sha256 == checksum(path)
    return read_tensors(path)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_is_loaded_bit_for_bit(tmp_path, dtype):
    tensors = {
        "matrix": random_bits(dtype, 7, 11, seed=1),
        "cube": random_bits(dtype, 3, 5, 2, seed=2),
        "number": random_bits(dtype, seed=3),
        "empty": random_bits(dtype, 0),
        "empty with width": random_bits(dtype, 13, 0, 5),
    }
    back = round_trip(tmp_path, tensors)
    assert set(back) == set(tensors)
    assert all(same_bits(back[name], tensors[name]) for name in tensors)


def test_nan_payloads_and_the_sign_of_zero_are_kept(tmp_path):
    patterns = [0x7FC00001, -0x3FABCD, 0x7F800001, -0x80000000, 0x00000001]  # NaNs, −0.0, the smallest number
    tensor = torch.tensor(patterns, dtype=torch.int32).view(torch.float32)
    back = round_trip(tmp_path, {"x": tensor})["x"]
    assert back.view(torch.int32).tolist() == patterns


def test_mixed_types_with_odd_sizes_share_a_file(tmp_path):
    tensors = {f"{i} {dtype}": random_bits(dtype, 13, 1 + i % 3, seed=i) for i, dtype in enumerate(DTYPES)}
    back = round_trip(tmp_path, tensors)
    assert all(same_bits(back[name], tensors[name]) for name in tensors)


def test_the_safetensors_library_reads_what_we_write(tmp_path):
    tensors = {"a": torch.randn(7, 3), "b.c": torch.arange(5), "é": torch.randn(2, 2).bfloat16()}
    path = tmp_path / "t.safetensors"
    write_synced(path, tensors_content(tensors))
    other = safetensors.torch.load_file(path)
    assert all(same_bits(other[name], tensors[name]) for name in tensors)
    with safetensors.safe_open(path, framework="pt") as stream:
        assert stream.metadata() == {"format": "pt"}
    length = int.from_bytes(path.read_bytes()[:8], "little")
    assert (8 + length) % 64 == 0


def test_we_read_what_the_safetensors_library_writes(tmp_path):
    tensors = {"a": torch.randn(7, 3), "b": torch.tensor(True)}
    safetensors.torch.save_file(tensors, tmp_path / "t.safetensors")
    back = read_tensors(tmp_path / "t.safetensors")
    assert all(same_bits(back[name], tensors[name]) for name in tensors)


def test_views_are_written_with_their_own_shape_and_order(tmp_path):
    base = torch.arange(35.0).reshape(5, 7)
    tensors = {
        "transposed": base.T,
        "strided": base[::2, 1::3],
        "expanded": torch.tensor([3.0]).expand(4, 5),
        "conjugated": torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex64).conj(),
        "parameter": torch.nn.Parameter(torch.randn(3)),
        "left": base[:, :3],
        "right": base[:, 3:],
    }
    back = round_trip(tmp_path, tensors)
    for name, tensor in tensors.items():
        assert torch.equal(back[name], tensor.detach().resolve_conj()), name


def test_a_large_tensor_is_written_in_chunks(tmp_path):
    tensor = random_bits(torch.uint8, 9_000_011)
    assert len(list(tensors_content({"x": tensor}).chunks())) > 2
    assert same_bits(round_trip(tmp_path, {"x": tensor})["x"], tensor)


def test_no_tensors_at_all(tmp_path):
    assert round_trip(tmp_path, {}) == {}


def test_loaded_tensors_own_their_memory(tmp_path):
    back = round_trip(tmp_path, {"a": torch.ones(3), "b": torch.ones(3)})
    back["a"].zero_()
    assert back["b"].sum() == 3
    assert read_tensors(tmp_path / "t.safetensors")["a"].sum() == 3
    assert all(tensor.data_ptr() % 64 == 0 for tensor in back.values())


def test_tied_weights_given_twice_are_refused():
    weight = torch.randn(5, 3)
    with pytest.raises(ValueError):
        tensors_content({"embedding": weight, "output": weight})
    with pytest.raises(ValueError):
        tensors_content({"embedding": weight, "output": weight.detach()})


@pytest.mark.parametrize(
    "tensor",
    [
        torch.empty(3, device="meta"),
        torch.eye(3).to_sparse(),
        torch.zeros(2, dtype=torch.complex128),
    ],
    ids=["meta", "sparse", "complex128"],
)
def test_unsupported_tensors_are_refused_by_name(tensor):
    with pytest.raises(ValueError):
        tensors_content({"weight": tensor})


def test_the_reserved_name_is_refused():
    with pytest.raises(ValueError, match="__metadata__"):
        tensors_content({"__metadata__": torch.zeros(1)})


@hypothesis.given(names=st.lists(st.text(st.characters(exclude_categories=["Cs"])), unique=True, max_size=5))
@hypothesis.settings(suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture], max_examples=50)
def test_any_names(tmp_path, names):
    names = [name for name in names if name != "__metadata__"]
    tensors = {name: torch.tensor(i) for i, name in enumerate(names)}
    back = round_trip(tmp_path, tensors)
    assert {name: int(tensor) for name, tensor in back.items()} == {name: i for i, name in enumerate(names)}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x00" * 8,
        b"\xff" * 64,
        b"PK\x03\x04 a zip archive, as torch.save writes it",
        (2).to_bytes(8, "little") + b"[]",
        (60).to_bytes(8, "little")
        + json.dumps({"a": {"dtype": "F32", "shape": [9], "data_offsets": [0, 36]}}).encode(),
        (61).to_bytes(8, "little") + json.dumps({"a": {"dtype": "F99", "shape": [1], "data_offsets": [0, 4]}}).encode(),
    ],
)
def test_an_invalid_file_raises_an_error_with_its_path(tmp_path, raw):
    path = tmp_path / "model.safetensors"
    path.write_bytes(raw)
    with pytest.raises(FolderError):
        read_tensors(path)


def test_a_file_truncated_anywhere_is_an_error_even_without_a_manifest(tmp_path):
    write_synced(tmp_path / "whole", tensors_content({"a": torch.randn(11, 3), "b": torch.arange(7)}))
    whole = (tmp_path / "whole").read_bytes()
    for length in range(0, len(whole), 5):
        (tmp_path / "cut").write_bytes(whole[:length])
        with pytest.raises(FolderError):
            read_tensors(tmp_path / "cut")
