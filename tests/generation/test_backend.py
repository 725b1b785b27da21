"""Which decoder writes, and what is said when the compiled one cannot."""

from __future__ import annotations

import importlib.util
import logging
import subprocess
import sys
from typing import Any

import pytest
import torch

from regard.generation import backend
from regard.generation.compiled.decoder import CompiledGPTDecoder, CompiledSeq2SeqDecoder
from regard.generation.decoder import TorchGPTDecoder, TorchSeq2SeqDecoder
from regard.models.gpt.config import GPTConfig
from regard.models.gpt.model import GPT
from regard.models.transformer.config import TransformerConfig
from regard.models.transformer.model import Transformer
from regard.nn import masks
from regard.nn.hooks import capture, edit
from regard.nn.lora import LoRAConfig, add_adapters
from regard.nn.quantized import quantize_weights
from regard.utils.errors import UsageError

SHAPE = dict(d_model=8, d_ff=8, num_heads=2, head_dim=4)


@pytest.fixture
def gpt() -> GPT:
    return GPT(GPTConfig(vocab_size=11, num_layers=1, **SHAPE)).eval()  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def nothing_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(backend.VARIABLE, raising=False)


def test_each_can_be_asked_for(gpt: GPT) -> None:
    translator = Transformer(TransformerConfig(vocab_size=11, **SHAPE)).eval()  # type: ignore[arg-type]
    assert isinstance(backend.gpt_decoder(gpt, backend="torch"), TorchGPTDecoder)
    assert isinstance(backend.gpt_decoder(gpt, backend="kernels"), CompiledGPTDecoder)
    assert isinstance(backend.translation_decoder(translator, start_id=1, backend="torch"), TorchSeq2SeqDecoder)
    assert isinstance(backend.translation_decoder(translator, start_id=1, backend="kernels"), CompiledSeq2SeqDecoder)


def test_the_environment_may_name_one(gpt: GPT, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(backend.VARIABLE, "torch")
    assert isinstance(backend.gpt_decoder(gpt, steps=10**6), TorchGPTDecoder)
    monkeypatch.setenv(backend.VARIABLE, "kernel")
    with pytest.raises(UsageError, match="kernels"):
        backend.gpt_decoder(gpt)


def test_where_somebody_looks_torch_writes(gpt: GPT) -> None:
    other = GPT(gpt.config).eval()
    with capture(gpt):
        assert isinstance(backend.gpt_decoder(gpt, steps=10**6), TorchGPTDecoder)
        assert isinstance(backend.gpt_decoder(other, steps=10**6), CompiledGPTDecoder)
    with edit(gpt, "decoder.0", lambda x: x):
        assert isinstance(backend.gpt_decoder(gpt, steps=10**6), TorchGPTDecoder)
    assert isinstance(backend.gpt_decoder(gpt, steps=10**6), CompiledGPTDecoder)


def test_short_work_does_not_wait_for_the_kernels(gpt: GPT, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "regard.generation.compiled.kernels")
    monkeypatch.setattr(backend, "_seconds_in_torch", 0.0)
    assert isinstance(backend.gpt_decoder(gpt, steps=20), TorchGPTDecoder)
    assert isinstance(backend.gpt_decoder(gpt, steps=10**5), CompiledGPTDecoder)
    quantize_weights(gpt, "int8")
    assert isinstance(backend.gpt_decoder(gpt, steps=20), CompiledGPTDecoder)


def test_short_work_that_comes_again_and_again_is_worth_them(gpt: GPT, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "_seconds_in_torch", 0.0)
    found = []
    for _ in range(3):
        monkeypatch.delitem(sys.modules, "regard.generation.compiled.kernels", raising=False)
        steps = int(0.45 * backend.LOAD_SECONDS / backend.TORCH_SECONDS_PER_BLOCK / gpt.config.num_layers)
        found.append(type(backend.gpt_decoder(gpt, steps=steps)))
    assert found == [TorchGPTDecoder, TorchGPTDecoder, CompiledGPTDecoder]


def test_many_texts_at_once_are_served_by_torch(gpt: GPT) -> None:
    assert isinstance(backend.gpt_decoder(gpt, steps=10**6, rows=backend.MAX_KERNEL_ROWS), CompiledGPTDecoder)
    assert isinstance(backend.gpt_decoder(gpt, steps=10**6, rows=backend.MAX_KERNEL_ROWS + 1), TorchGPTDecoder)
    assert isinstance(backend.gpt_decoder(gpt, rows=99, backend="kernels"), CompiledGPTDecoder)
    quantize_weights(gpt, "int8")
    assert isinstance(backend.gpt_decoder(gpt, rows=99), CompiledGPTDecoder)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_types_are_served_by_torch(gpt: GPT, dtype: torch.dtype) -> None:
    gpt.to(dtype)
    assert isinstance(backend.gpt_decoder(gpt, steps=10**6), TorchGPTDecoder)
    with pytest.raises(UsageError, match=str(dtype).removeprefix("torch.")):
        backend.gpt_decoder(gpt, backend="kernels")


def test_a_model_with_adapters_or_another_mask_is_served_by_torch(gpt: GPT) -> None:
    gpt.mask = masks.no_mask()
    assert isinstance(backend.gpt_decoder(gpt, steps=10**6), TorchGPTDecoder)
    gpt.mask = masks.causal()
    assert isinstance(backend.gpt_decoder(gpt, steps=10**6), CompiledGPTDecoder)
    add_adapters(gpt, LoRAConfig(), seed=0)
    assert isinstance(backend.gpt_decoder(gpt, steps=10**6), TorchGPTDecoder)
    with pytest.raises(UsageError, match="adapters that are not merged"):
        backend.gpt_decoder(gpt, backend="kernels")


def test_another_device_is_served_by_torch(gpt: GPT) -> None:
    gpt.to("meta")
    assert isinstance(backend.gpt_decoder(gpt, steps=10**6), TorchGPTDecoder)
    with pytest.raises(UsageError, match="on meta"):
        backend.gpt_decoder(gpt, backend="kernels")


def test_without_numba_torch_serves_and_says_so_where_it_matters(
    gpt: GPT, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "numba" else real(name, *a))
    monkeypatch.setattr(backend, "_seconds_in_torch", 0.0)
    quantized = GPT(gpt.config).eval()
    quantize_weights(quantized, "int8")
    for long_work in (dict(model=gpt, steps=10**6), dict(model=quantized, steps=1)):
        caplog.clear()
        backend._say_what_is_missing.cache_clear()
        with caplog.at_level(logging.WARNING, logger="regard"):
            assert isinstance(backend.gpt_decoder(gpt, steps=1), TorchGPTDecoder)
            assert caplog.text == ""
            for _ in range(2):
                assert isinstance(backend.gpt_decoder(**long_work), TorchGPTDecoder)  # type: ignore[arg-type]
        assert caplog.text.count("numba is not installed: torch serves, more slowly") == 1
        monkeypatch.setattr(backend, "_seconds_in_torch", 0.0)
    with pytest.raises(UsageError, match="numba is not installed"):
        backend.gpt_decoder(gpt, backend="kernels")


def test_kernels_that_do_not_compile_give_way_and_say_so(
    gpt: GPT, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(say: object) -> None:
        raise RuntimeError("no such instruction")

    monkeypatch.setattr("regard.generation.compiled.decoder.warm_up", fail)
    monkeypatch.setattr(backend, "kernel_error", backend.kernel_error.__wrapped__)
    with caplog.at_level(logging.WARNING, logger="regard"):
        assert isinstance(backend.gpt_decoder(gpt, steps=10**6), TorchGPTDecoder)
    assert "no such instruction" in caplog.text and "torch serves" in caplog.text
    with pytest.raises(UsageError, match="no such instruction"):
        backend.gpt_decoder(gpt, backend="kernels")


def test_a_first_compilation_is_announced_and_kept(tmp_path: Any) -> None:
    """In a process of its own, with an empty cache, then again with what the first left."""
    script = "from regard.generation import backend; assert backend.kernel_error() is None"
    script += "; from regard.generation.compiled.kernels import run; print(sum(run.stats.cache_hits.values()))"
    environment = {**__import__("os").environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    first, second = (
        subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=300)
        for _ in range(2)
    )
    assert first.returncode == 0, first.stderr
    assert first.stderr.count("compiling the kernels") == 1 and first.stdout.strip() == "0"
    assert second.stderr == "" and second.stdout.strip() == "1"
