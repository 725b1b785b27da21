"""Weight quantization for inference: int8 with one scale per row, or int4 with one scale per 32 weights.

A `QuantizedWeight` replaces a weight and works with `F.linear` and `F.embedding`, so a quantized model can still run,
score texts and show its attention, but it cannot be trained. Each product dequantizes the whole weight to fp32, which
is cheap for many tokens and expensive for one. To generate token by token, use `regard.generation.compiled.decoder`.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.utils.errors import UsageError

Precision = Literal["fp32", "int8", "int4"]
PRECISIONS = get_args(Precision)
GROUP = 32  # weights per scale in int4
ALIGNED = 64  # bytes: torch's alignment of tensors
AT_ONCE = 1 << 22  # weights quantized or dequantized at a time
LARGEST = 127  # int8 code


class QuantizedWeight:
    """A matrix (rows, columns) in int8 or int4.

    | precision | codes | scales |
    |---|---|---|
    | int8 | (rows, columns), -127 … 127 | (rows,) fp32 |
    | int4 | (rows, groups · 16), two codes from 0 to 15 per byte, zero point 8 | (rows, groups) bfloat16 |

    Groups are stored in pairs: the low nibbles of 32 bytes are the first group of a pair, the high nibbles the second.
    """

    def __init__(self, codes: Tensor, scales: Tensor, shape: tuple[int, int], precision: Precision) -> None:
        self.codes, self.scales, self.shape, self.precision = codes, scales, torch.Size(shape), precision

    @property
    def device(self) -> torch.device:
        return self.codes.device

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes + self.scales.nbytes

    def dequantize(self, rows: Tensor | slice = slice(None), *, out: Tensor | None = None) -> Tensor:
        """Return rows of the matrix in fp32: (rows, columns). For int4, they are written into `out` if it is given."""
        codes, scales = self.codes[rows], self.scales[rows]
        if self.precision == "int8":
            return codes * scales[..., None]
        groups = scales.shape[-1]
        pairs = codes.view(*codes.shape[:-1], groups // 2, 1, GROUP)
        both = torch.cat((pairs & 15, pairs >> 4), dim=-2)
        weights = both.to(torch.float32) if out is None else out[: both.numel()].view(both.shape).copy_(both)
        return weights.sub_(8).flatten(-3, -2).mul_(scales[..., None].float()).flatten(-2)[..., : self.shape[1]]

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        if function is F.linear:
            x, weight, *bias = args
            return F.linear(x, weight.dequantize(out=weight._buffer()), *bias, **(kwargs or {}))
        if function is F.embedding:
            ids, weight = args[:2]
            return weight.dequantize(ids.flatten()).view(*ids.shape, -1)
        return NotImplemented

    def _buffer(self) -> Tensor | None:
        """Return a buffer for dequantizing int4, shared by all matrices of a thread; None if it cannot be used.

        The system has to clear new memory page by page, which takes longer than dequantizing.
        """
        size = self.codes.numel() * 2
        if self.precision == "int8" or torch.is_grad_enabled() or size > AT_ONCE or self.device.type != "cpu":
            return None
        buffer: Tensor | None = getattr(_scratch, "memory", None)
        if buffer is None or buffer.numel() < size:
            with torch.inference_mode(False):
                buffer = _scratch.memory = torch.empty(size)
        return buffer


_scratch = threading.local()  # one buffer per thread


def quantize(weight: Tensor, precision: Precision) -> QuantizedWeight:
    """Round a matrix to int8 or int4, a few rows at a time to limit memory."""
    rows, columns = weight.shape
    quantize_rows = _QUANTIZERS.get(precision)
    if quantize_rows is None:
        message = f"precision must be int8 or int4 to quantize, not {precision!r}."
        raise UsageError(message, argument="precision", value=precision, allowed=_QUANTIZERS)
    chunks = [quantize_rows(chunk) for chunk in torch.split(weight, max(1, AT_ONCE // columns))]
    codes, scales = (torch.cat(parts) for parts in zip(*chunks, strict=True))
    return QuantizedWeight(codes, scales, (rows, columns), precision)


def _int8(weight: Tensor) -> tuple[Tensor, Tensor]:
    scales = weight.abs().amax(dim=1).clamp_(min=1e-20) / LARGEST
    return (weight / scales[:, None]).round_().to(torch.int8), scales


def _int4(weight: Tensor) -> tuple[Tensor, Tensor]:
    rows, columns = weight.shape
    grouped = F.pad(weight, (0, -columns % (2 * GROUP))).view(rows, -1, GROUP)
    # The weight with the largest magnitude gets code 0 (-8), so that all 16 codes are used; the scale takes its sign.
    extreme = grouped.gather(2, grouped.abs().argmax(dim=2, keepdim=True))
    scales = (extreme / -8).to(torch.bfloat16)
    plain = scales.float()
    codes = torch.where(plain != 0, grouped / plain, 0.0).add_(8).round_().clamp_(0, 15).to(torch.uint8)
    low, high = codes.view(rows, -1, 2, GROUP).unbind(dim=2)
    return (low | high << 4).flatten(1), scales.squeeze(2)


_QUANTIZERS = {"int8": _int8, "int4": _int4}


@torch.no_grad()
def quantize_weights(model: nn.Module, precision: Precision) -> None:
    """Quantize every matrix of a model in place. Vectors and position tables are not quantized.

    A shared matrix is quantized once. Each matrix is freed as soon as it is quantized, so that memory never holds both
    models. All codes are stored in one block of memory, in the order of the forward pass: the system can map it with
    huge pages, which reduces TLB misses. "fp32" only moves the matrices into such a block.
    """
    if precision == "fp32":
        matrices = [param for param in model.parameters() if param.dim() == 2 and param.device.type == "cpu"]
        block = _allocate(sum(-(-param.nbytes // ALIGNED) * ALIGNED for param in matrices))
        for param in matrices:
            here, block = block[: param.nbytes], block[-(-param.nbytes // ALIGNED) * ALIGNED :]
            param.data = here.view(param.dtype).view(param.shape).copy_(param.data)
        _trim_memory()
        return
    owners: dict[nn.Parameter, list[tuple[nn.Module, str]]] = {}
    for module in model.modules():
        if isinstance(module, nn.Linear) or hasattr(module, "positions") or module is model:
            for name, param in module.named_parameters(recurse=False):
                if param.dim() == 2:
                    owners.setdefault(param, []).append((module, name))
    block = _allocate(sum(_code_bytes(param.shape, precision) for param in owners))
    while owners:
        param, places = next(iter(owners.items()))
        del owners[param]
        quantized = quantize(param.detach(), precision)
        here, block = block[: quantized.codes.nbytes], block[quantized.codes.nbytes :]
        quantized.codes = here.view(quantized.codes.dtype).view(quantized.codes.shape).copy_(quantized.codes)
        for module, name in places:
            delattr(module, name)
            setattr(module, name, quantized)
    for param in model.parameters():
        param.requires_grad_(False)
    _trim_memory()


def _allocate(size: int) -> Tensor:
    """Allocate `size` aligned bytes with numpy, which asks the system for huge pages."""
    raw = np.empty(size + ALIGNED, dtype=np.uint8)
    return torch.from_numpy(raw[-raw.ctypes.data % ALIGNED :][:size])


def _trim_memory() -> None:
    """Return freed memory to the system; the C library would keep it for later allocations."""
    with contextlib.suppress(OSError, AttributeError, TypeError):  # not glibc
        ctypes.CDLL(None).malloc_trim(0)


def _code_bytes(shape: torch.Size, precision: Precision) -> int:
    rows, columns = shape
    return rows * columns if precision == "int8" else rows * -(-columns // (2 * GROUP)) * GROUP


def count_weights(model: nn.Module) -> int:
    """Return the number of weights of a model, quantized or not; shared weights count once."""
    values = [value for module in model.modules() for value in vars(module).values()]
    quantized = {id(value): value.shape.numel() for value in values if isinstance(value, QuantizedWeight)}
    return sum(param.numel() for param in model.parameters()) + sum(quantized.values())
