"""The choice of the decoder, and errors and warnings when the compiled kernels cannot run."""

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
def no_backend_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(backend.VARIABLE, raising=False)


def test_each_backend_can_be_requested(gpt: GPT) -> None:
    translator = Transformer(TransformerConfig(vocab_size=11, **SHAPE)).eval()  # type: ignore[arg-type]
    assert isinstance(backend.gpt_decoder(gpt, backend="torch"), TorchGPTDecoder)
    assert isinstance(backend.gpt_decoder(gpt, backend="kernels"), CompiledGPTDecoder)
    assert isinstance(backend.translation_decoder(translator, start_id=1, backend="torch"), TorchSeq2SeqDecoder)
    assert isinstance(backend.translation_decoder(translator, start_id=1, backend="kernels"), CompiledSeq2SeqDecoder)


def test_the_environment_variable_selects_the_backend(gpt: GPT, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(backend.VARIABLE, "torch")
    assert isinstance(backend.gpt_decoder(gpt, steps=10**6), TorchGPTDecoder)
    monkeypatch.setenv(backend.VARIABLE, "kernel")
    with pytest.raises(UsageError) as caught:
        backend.gpt_decoder(gpt)
    assert (caught.value.argument, caught.value.hint) == ("backend", "kernels")


def assert_kernels_are_refused(gpt: GPT) -> None:
    with pytest.raises(UsageError) as caught:
        backend.gpt_decoder(gpt, backend="kernels")
    assert (caught.value.argument, caught.value.value) == ("backend", "kernels")
    assert caught.value.allowed == ("auto", "torch")


def test_a_model_with_active_hooks_uses_torch(gpt: GPT) -> None:
    other = GPT(gpt.config).eval()
    with capture(gpt):
        assert isinstance(backend.gpt_decoder(gpt, steps=10**6), TorchGPTDecoder)
        assert isinstance(backend.gpt_decoder(other, steps=10**6), CompiledGPTDecoder)
    with edit(gpt, "decoder.0", lambda x: x):
        assert isinstance(backend.gpt_decoder(gpt, steps=10**6), TorchGPTDecoder)
    assert isinstance(backend.gpt_decoder(gpt, steps=10**6), CompiledGPTDecoder)


def test_short_calls_do_not_load_the_kernels(gpt: GPT, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "regard.generation.compiled.kernels")
    monkeypatch.setattr(backend, "_seconds_in_torch", 0.0)
    assert isinstance(backend.gpt_decoder(gpt, steps=20), TorchGPTDecoder)
    assert isinstance(backend.gpt_decoder(gpt, steps=10**5), CompiledGPTDecoder)
    quantize_weights(gpt, "int8")
    assert isinstance(backend.gpt_decoder(gpt, steps=20), CompiledGPTDecoder)


def test_repeated_short_calls_load_the_kernels(gpt: GPT, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "_seconds_in_torch", 0.0)
    found = []
    for _ in range(3):
        monkeypatch.delitem(sys.modules, "regard.generation.compiled.kernels", raising=False)
        steps = int(0.45 * backend.LOAD_SECONDS / backend.TORCH_SECONDS_PER_BLOCK / gpt.config.num_layers)
        found.append(type(backend.gpt_decoder(gpt, steps=steps)))
    assert found == [TorchGPTDecoder, TorchGPTDecoder, CompiledGPTDecoder]


def test_large_batches_use_torch(gpt: GPT) -> None:
    assert isinstance(backend.gpt_decoder(gpt, steps=10**6, rows=backend.MAX_KERNEL_ROWS), CompiledGPTDecoder)
    assert isinstance(backend.gpt_decoder(gpt, steps=10**6, rows=backend.MAX_KERNEL_ROWS + 1), TorchGPTDecoder)
    assert isinstance(backend.gpt_decoder(gpt, rows=99, backend="kernels"), CompiledGPTDecoder)
    quantize_weights(gpt, "int8")
    assert isinstance(backend.gpt_decoder(gpt, rows=99), CompiledGPTDecoder)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_dtypes_use_torch(gpt: GPT, dtype: torch.dtype) -> None:
    gpt.to(dtype)
    assert isinstance(backend.gpt_decoder(gpt, steps=10**6), TorchGPTDecoder)
    assert_kernels_are_refused(gpt)


def test_adapters_and_other_masks_use_torch(gpt: GPT) -> None:
    gpt.mask = masks.no_mask()
    assert isinstance(backend.gpt_decoder(gpt, steps=10**6), TorchGPTDecoder)
    gpt.mask = masks.causal()
    assert isinstance(backend.gpt_decoder(gpt, steps=10**6), CompiledGPTDecoder)
    add_adapters(gpt, LoRAConfig(), seed=0)
    assert isinstance(backend.gpt_decoder(gpt, steps=10**6), TorchGPTDecoder)
    assert_kernels_are_refused(gpt)


def test_other_devices_use_torch(gpt: GPT) -> None:
    gpt.to("meta")
    assert isinstance(backend.gpt_decoder(gpt, steps=10**6), TorchGPTDecoder)
    assert_kernels_are_refused(gpt)


def test_without_numba_long_calls_warn_once_and_use_torch(
    gpt: GPT, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "numba" else real(name, *a))
    monkeypatch.setattr(backend, "_seconds_in_torch", 0.0)
    quantized = GPT(gpt.config).eval()
    quantize_weights(quantized, "int8")
    for long_call in (dict(model=gpt, steps=10**6), dict(model=quantized, steps=1)):
        caplog.clear()
        backend._warn_without_numba.cache_clear()
        with caplog.at_level(logging.WARNING, logger="regard"):
            assert isinstance(backend.gpt_decoder(gpt, steps=1), TorchGPTDecoder)
            assert caplog.text == ""
            for _ in range(2):
                assert isinstance(backend.gpt_decoder(**long_call), TorchGPTDecoder)  # type: ignore[arg-type]
        assert [record.args for record in caplog.records] == [(backend.NO_NUMBA,)]
        monkeypatch.setattr(backend, "_seconds_in_torch", 0.0)
    assert_kernels_are_refused(gpt)


def test_kernels_that_fail_to_compile_warn_and_fall_back_to_torch(
    gpt: GPT, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(notify: object) -> None:
        raise RuntimeError("no such instruction")

    monkeypatch.setattr("regard.generation.compiled.decoder.warm_up", fail)
    monkeypatch.setattr(backend, "kernel_error", backend.kernel_error.__wrapped__)
    with caplog.at_level(logging.WARNING, logger="regard"):
        assert isinstance(backend.gpt_decoder(gpt, steps=10**6), TorchGPTDecoder)
    assert [record.args for record in caplog.records] == [("RuntimeError: no such instruction",)]
    assert_kernels_are_refused(gpt)


def test_the_first_compilation_is_logged_and_cached(tmp_path: Any) -> None:
    """Two new processes: the first starts with an empty cache, the second uses what the first compiled."""
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
