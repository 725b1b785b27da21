"""Which decoder writes: the compiled one, or torch.

The compiled kernels serve on CPUs, for a few texts at a time: many are bound by arithmetic and not by reading the
weights, and torch's products are quicker. torch serves everywhere, and wherever somebody looks into the model while it
writes. Loading the kernels takes about a second, and compiling them for a new machine several, so `auto` takes them
when the work is worth it: this call's, with that of the calls before it. `REGARD_BACKEND` may name one for a whole
process.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
from functools import cache
from typing import Literal, cast, get_args

from torch import nn

from regard.errors import UsageError, unknown
from regard.generation.decoder import Decoder, TorchGPTDecoder, TorchSeq2SeqDecoder
from regard.generation.writing import GuessingDecoder
from regard.models.gpt import GPT
from regard.models.transformer import Transformer
from regard.nn.packed import Packed
from regard.nn.taps import is_watched

Backend = Literal["auto", "kernels", "torch"]
BACKENDS = get_args(Backend)
VARIABLE = "REGARD_BACKEND"

# Rough costs, in seconds, of what `auto` weighs up: torch spends so much on a block, whatever its size.
LOADING = 1.5
TORCH_BLOCK = 0.4e-3
MANY = 16  # rows from which torch's products of matrices are quicker
NO_NUMBA = "numba is not installed"

log = logging.getLogger("regard")


def gpt_decoder(
    model: GPT, *, vocab_size: int | None = None, steps: int = 1, rows: int = 1, backend: Backend = "auto"
) -> GuessingDecoder:
    """A decoder for a language model that is to write about `steps` tokens of each of `rows` texts."""
    if _kernels_serve(model, model.config.layers * steps, rows, backend):
        from regard.generation.fast import FastGPTDecoder

        return FastGPTDecoder(model, vocab_size=vocab_size)
    return TorchGPTDecoder(model, vocab_size=vocab_size)


def translation_decoder(
    model: Transformer, *, start_id: int, steps: int = 1, rows: int = 1, backend: Backend = "auto"
) -> Decoder:
    """A decoder for a translator that is to write about `steps` pieces, `rows` side by side."""
    if _kernels_serve(model, 2 * model.config.decoder_layers * steps, rows, backend):
        from regard.generation.fast import FastSeq2SeqDecoder

        return FastSeq2SeqDecoder(model, start_id=start_id)
    return TorchSeq2SeqDecoder(model, start_id=start_id)


def _kernels_serve(model: GPT | Transformer, blocks: int, rows: int, backend: Backend) -> bool:
    backend = _asked(backend)
    packed = isinstance(model.output_weight, Packed)  # torch would unpack every matrix for every token
    if backend == "torch" or (backend == "auto" and rows > MANY and not packed) or is_watched(model):
        return False
    reason = obstacle(model)
    if reason is not None:
        if backend == "kernels":
            raise UsageError(f"the compiled kernels cannot serve here: {reason}.")
        if reason == NO_NUMBA and (packed or _has_cost(blocks * TORCH_BLOCK) > LOADING):
            _say_what_is_missing()
        return False
    loaded = "regard.generation.kernels" in sys.modules
    if not (backend == "kernels" or loaded or packed or _has_cost(blocks * TORCH_BLOCK) > LOADING):
        return False
    why = trouble()
    if why is None:
        return True
    if backend == "kernels":
        raise UsageError(f"the compiled kernels cannot serve here: {why}.")
    return False


_seconds_in_torch = 0.0  # that short works of this process are reckoned to have taken


def _has_cost(seconds: float) -> float:
    """What torch will have taken with this work and all before it: who waited so long could have loaded the kernels."""
    global _seconds_in_torch
    _seconds_in_torch += seconds
    return _seconds_in_torch


def _asked(backend: Backend) -> Backend:
    found = os.environ.get(VARIABLE, backend) if backend == "auto" else backend
    if found not in BACKENDS:
        raise unknown("backend", found, BACKENDS)
    return cast(Backend, found)


def obstacle(model: GPT | Transformer) -> str | None:
    """Why this model cannot be served by the kernels, if it cannot."""
    if importlib.util.find_spec("numba") is None:
        return NO_NUMBA
    if any(isinstance(module, nn.Linear) and type(module) is not nn.Linear for module in model.modules()):
        return "it has adapters that are not merged into its weights"
    if isinstance(model, GPT) and not model.keep.is_only_causal:
        return "its mask is not the causal one"
    weight = model.output_weight
    if weight.device.type != "cpu":
        return f"the model is on {weight.device.type}, and they run on a CPU"
    kinds = {str(param.dtype).removeprefix("torch.") for param in model.parameters()}
    if kinds - {"float32"}:
        return f"the weights are {', '.join(sorted(kinds))}, and they take float32"
    return None


@cache
def _say_what_is_missing() -> None:
    log.warning("%s: torch serves, more slowly. `pip install numba` brings the compiled kernels", NO_NUMBA)


@cache
def trouble() -> str | None:
    """Load the kernels, compiling them if this machine has not seen them; why that failed, if it did."""
    try:
        from regard.generation.fast import warm_up

        warm_up(lambda: log.warning("compiling the kernels for this machine, once …"))
    except Exception as error:  # whatever numba or LLVM find wrong with a machine, torch still writes
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        log.warning("the compiled kernels do not run on this machine (%s): torch serves, more slowly", reason)
        return reason
    return None
