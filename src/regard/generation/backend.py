"""Choose the decoder: compiled kernels or torch.

The compiled kernels run on CPUs and are faster for small batches, which are bound by memory bandwidth. Large batches
are bound by arithmetic, where torch's matrix products are faster. torch runs on all devices, and is always used when
hooks are active on the model. Loading the kernels takes about a second, and compiling them on a new machine takes
several. So `auto` uses them only when the estimated work of this call and all earlier calls exceeds that cost. The
environment variable `REGARD_BACKEND` sets the backend for the whole process.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
from functools import cache
from typing import Literal, get_args

from torch import nn

from regard.generation.decoder import Decoder, SpeculativeDecoder, TorchGPTDecoder, TorchSeq2SeqDecoder
from regard.models.gpt.model import GPT
from regard.models.transformer.model import Transformer
from regard.nn.attention import ScaledDotProduct
from regard.nn.hooks import has_hooks
from regard.nn.init import Linear
from regard.nn.multihead import MultiHeadAttention
from regard.nn.quantized import QuantizedWeight
from regard.utils.errors import UsageError, unknown

Backend = Literal["auto", "kernels", "torch"]
BACKENDS = get_args(Backend)
VARIABLE = "REGARD_BACKEND"

# Rough costs that `auto` compares: loading the kernels, and torch's overhead per block of any size.
LOAD_SECONDS = 1.5
TORCH_SECONDS_PER_BLOCK = 0.4e-3
MAX_KERNEL_ROWS = 16  # largest batch for which `auto` uses the kernels
NO_NUMBA = "numba is not installed"

log = logging.getLogger("regard")


def gpt_decoder(
    model: GPT, *, vocab_size: int | None = None, steps: int = 1, rows: int = 1, backend: Backend = "auto"
) -> SpeculativeDecoder:
    """A decoder for a language model that generates about `steps` tokens for each of `rows` texts."""
    if _use_kernels(model, model.config.num_layers * steps, rows, backend):
        from regard.generation.compiled.decoder import CompiledGPTDecoder

        return CompiledGPTDecoder(model, vocab_size=vocab_size)
    return TorchGPTDecoder(model, vocab_size=vocab_size)


def translation_decoder(
    model: Transformer, *, start_id: int, steps: int = 1, rows: int = 1, backend: Backend = "auto"
) -> Decoder:
    """A decoder for a translation model that generates about `steps` tokens for `rows` sequences at a time."""
    if _use_kernels(model, 2 * model.config.num_decoder_layers * steps, rows, backend):
        from regard.generation.compiled.decoder import CompiledSeq2SeqDecoder

        return CompiledSeq2SeqDecoder(model, start_id=start_id)
    return TorchSeq2SeqDecoder(model, start_id=start_id)


_seconds_in_torch = 0.0  # estimated time that this process has spent in torch's decoders


def _use_kernels(model: GPT | Transformer, blocks: int, rows: int, backend: Backend) -> bool:
    """Return whether to use the kernels for a call that computes `blocks` blocks, one token at a time."""
    global _seconds_in_torch
    requested = os.environ.get(VARIABLE, backend) if backend == "auto" else backend
    if requested not in BACKENDS:
        raise unknown("backend", requested, BACKENDS)
    quantized = isinstance(model.output_weight, QuantizedWeight)  # torch would dequantize every matrix for every token
    if requested == "torch" or (requested == "auto" and rows > MAX_KERNEL_ROWS and not quantized) or has_hooks(model):
        return False
    reason = unsupported_reason(model)
    if requested == "kernels" and reason is not None:
        raise _no_kernels(f"this model: {reason}.")
    if reason not in (None, NO_NUMBA):
        return False
    loaded = reason is None and "regard.generation.compiled.kernels" in sys.modules
    if not (requested == "kernels" or loaded or quantized):
        _seconds_in_torch += blocks * TORCH_SECONDS_PER_BLOCK
        if _seconds_in_torch <= LOAD_SECONDS:
            return False
    if reason == NO_NUMBA:
        _warn_without_numba()
        return False
    error = kernel_error()
    if requested == "kernels" and error is not None:
        raise _no_kernels(f"on this machine: {error}.")
    return error is None


def _no_kernels(reason: str) -> UsageError:
    message = f"the compiled kernels cannot run {reason} Use the backend auto or torch (REGARD_BACKEND)."
    return UsageError(message, argument="backend", value="kernels", allowed=("auto", "torch"))


def unsupported_reason(model: GPT | Transformer) -> str | None:
    """Return the reason why the kernels cannot run this model, or None."""
    if importlib.util.find_spec("numba") is None:
        return NO_NUMBA
    if any(isinstance(module, nn.Linear) and type(module) not in (nn.Linear, Linear) for module in model.modules()):
        return "it has adapters that are not merged into its weights"
    scorers = (module.scorer for module in model.modules() if isinstance(module, MultiHeadAttention))
    if any(scorer != ScaledDotProduct() for scorer in scorers):
        return "its attention does not use the scaled dot product"
    if isinstance(model, GPT) and not model.mask.is_only_causal:
        return "its mask is not causal"
    weight = model.output_weight
    if weight.device.type != "cpu":
        return f"the model is on {weight.device.type}, but the kernels need a CPU"
    kinds = {str(param.dtype).removeprefix("torch.") for param in model.parameters()}
    if kinds - {"float32"}:
        return f"the weights are {', '.join(sorted(kinds))}, but the kernels need float32"
    return None


@cache
def _warn_without_numba() -> None:
    log.warning("%s, so torch is used for generation, which is slower. To fix this, run `pip install numba`", NO_NUMBA)


@cache
def kernel_error() -> str | None:
    """Load the kernels, and compile them if this machine has no cached build. Returns the error message, or None."""
    try:
        from regard.generation.compiled.decoder import warm_up

        warm_up(lambda: log.warning("compiling the kernels for this machine, once …"))
    except Exception as error:  # any failure of numba or LLVM falls back to torch
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        log.warning("the compiled kernels do not run here (%s). Falling back to torch, which is slower", reason)
        return reason
    return None
