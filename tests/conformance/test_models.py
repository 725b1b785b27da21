"""What must hold for every variant of the built-in architectures. The variants are in `conftest.py`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.checkpoint.folder import read_model, write_model
from regard.nn import masks
from regard.nn.state_dict import load_into, unique_tensors
from regard.testing import MODEL_CHECKS, Check, ModelCase
from regard.testing.models import TEXTS, Tokens


@pytest.mark.parametrize("check", MODEL_CHECKS, ids=lambda check: check.__name__)
def test_model(case: ModelCase, check: Check) -> None:
    check(case)


@torch.no_grad()
def test_cache_extended_by_chunks_equals_uncached(text_generator: ModelCase) -> None:
    for text in TEXTS:
        count = len(text.target)
        whole = text_generator.run([text])
        for sizes in ([count], [count - count // 2, count // 2], [1, count - 1]):
            chunks = decode_chunks(text_generator, text, [size for size in sizes if size])
            text_generator.assert_near([chunks.flatten()], whole)


def decode_chunks(case: ModelCase, text: Tokens, sizes: list[int]) -> Tensor:
    """The logits of a text whose target is decoded in chunks of these sizes."""
    model: Any = case.model
    caches, inputs = model.new_caches(), list[Any]()
    if case.has_source:
        mask = masks.lengths(torch.tensor([len(text.source)]))
        inputs = [model.encode(torch.tensor([text.source]), mask), mask]
    parts = []
    for chunk in torch.split(torch.tensor([text.target]), sizes, dim=1):
        parts.append(model.logits(model.decode(chunk, *inputs, caches=caches))[0])
        inputs[:1] = [None] if inputs else []  # the cache holds the memory after the first chunk
    return torch.cat(parts)


@torch.no_grad()
def test_saved_equals_loaded_bit_for_bit(case: ModelCase, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    write_model(folder, config=case.model.config.to_dict(), tensors=unique_tensors(case.model), texts={})
    read = read_model(folder)
    config = type(case.model.config)(**read.config)
    assert config == case.model.config
    other = replace(case, config=config)
    load_into(other.model, read.tensors)
    assert all(torch.equal(a, b) for a, b in zip(case.run(TEXTS), other.run(TEXTS), strict=True))
    mine, loaded = case.model.state_dict(), other.model.state_dict()
    assert list(mine) == list(loaded)
    assert all(torch.equal(mine[name], loaded[name]) for name in mine)


@torch.no_grad()
def test_running_twice_gives_the_same_bits(case: ModelCase) -> None:
    assert all(torch.equal(a, b) for a, b in zip(case.run(TEXTS), case.run(TEXTS), strict=True))
