"""Matrices in fewer bits, for reading: 8 bits with a scale for each row, or 4 bits with a scale for each 32 weights.

A `Packed` matrix stands where a weight stood and answers to `F.linear` and `F.embedding` as the weight would, so a
packed model still reads, scores and shows its attention; it cannot learn. Products unpack into fp32, which costs
little beside many rows and much beside one: writing token by token is the business of `regard.generation.fast`.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import UsageError

Precision = Literal["fp32", "int8", "int4"]
PRECISIONS = get_args(Precision)
GROUP = 32  # weights that share a scale in 4 bits
ALIGNED = 64  # bytes: where torch, too, lets a tensor begin
AT_ONCE = 1 << 22  # weights that are packed, or unpacked, together
LARGEST = 127  # code in 8 bits


class Packed:
    """A matrix (rows, columns) in 8 or 4 bits.

    | precision | codes | scales |
    |---|---|---|
    | int8 | (rows, columns), -127 … 127 | (rows,) fp32 |
    | int4 | (rows, groups · 16), two weights from 0 to 15 a byte, 8 meaning 0 | (rows, groups) bfloat16 |

    Groups lie in pairs: the low halves of 32 bytes are the first group of a pair, the high halves the second.
    """

    def __init__(self, codes: Tensor, scales: Tensor, shape: tuple[int, int], precision: Precision) -> None:
        self.codes, self.scales, self.shape, self.precision = codes, scales, torch.Size(shape), precision

    @property
    def device(self) -> torch.device:
        return self.codes.device

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes + self.scales.nbytes

    def unpack(self, rows: Tensor | slice = slice(None), *, out: Tensor | None = None) -> Tensor:
        """The weights of some rows as fp32, (rows, columns); in 4 bits into the memory `out`, if there is any."""
        codes, scales = self.codes[rows], self.scales[rows]
        if self.precision == "int8":
            return codes * scales[..., None]
        groups = scales.shape[-1]
        pairs = codes.view(*codes.shape[:-1], groups // 2, 1, GROUP)
        both = torch.cat((pairs & 15, pairs >> 4), dim=-2)
        weights = both.to(torch.float32) if out is None else out[: both.numel()].view(both.shape).copy_(both)
        return weights.sub_(8).flatten(-3, -2).mul_(scales[..., None].float()).flatten(-2)[..., : self.shape[1]]

    @classmethod
    def __torch_function__(
        cls,
        function: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if function is F.linear:
            x, weight, *bias = args
            return F.linear(x, weight.unpack(out=weight._memory()), *bias, **(kwargs or {}))
        if function is F.embedding:
            ids, weight = args[:2]
            return weight.unpack(ids.flatten()).view(*ids.shape, -1)
        return NotImplemented

    def _memory(self) -> Tensor | None:
        """Where this matrix is unpacked for a product that nobody differentiates: the same place for all of them.

        Fresh memory has to be cleared by the system page by page, which takes longer than the unpacking itself.
        """
        size = self.codes.numel() * 2
        if self.precision == "int8" or torch.is_grad_enabled() or size > AT_ONCE or self.device.type != "cpu":
            return None
        known: Tensor | None = getattr(_unpacked, "memory", None)
        if known is None or known.numel() < size:
            with torch.inference_mode(False):
                known = _unpacked.memory = torch.empty(size)
        return known


_unpacked = threading.local()  # each thread unpacks where no other does


def pack(weight: Tensor, precision: Precision) -> Packed:
    """The nearest matrix in so many bits, a few rows at a time: a large one would need its size again."""
    rows, columns = weight.shape
    pack_rows = _PACKERS.get(precision)
    if pack_rows is None:
        raise UsageError(f"precision must be int8 or int4 to pack by, not {precision!r}.")
    pieces = [pack_rows(piece) for piece in torch.split(weight, max(1, AT_ONCE // columns))]
    codes, scales = (torch.cat(parts) for parts in zip(*pieces, strict=True))
    return Packed(codes, scales, (rows, columns), precision)


def _int8(weight: Tensor) -> tuple[Tensor, Tensor]:
    scales = weight.abs().amax(dim=1).clamp_(min=1e-20) / LARGEST
    return (weight / scales[:, None]).round_().to(torch.int8), scales


def _int4(weight: Tensor) -> tuple[Tensor, Tensor]:
    rows, columns = weight.shape
    grouped = F.pad(weight, (0, -columns % (2 * GROUP))).view(rows, -1, GROUP)
    # The weight of largest size gets code 0, which is -8: so all sixteen codes are used, and its sign is the scale's.
    extreme = grouped.gather(2, grouped.abs().argmax(dim=2, keepdim=True))
    scales = (extreme / -8).to(torch.bfloat16)
    plain = scales.float()
    codes = torch.where(plain != 0, grouped / plain, 0.0).add_(8).round_().clamp_(0, 15).to(torch.uint8)
    low, high = codes.view(rows, -1, 2, GROUP).unbind(dim=2)
    return (low | high << 4).flatten(1), scales.squeeze(2)


_PACKERS = {"int8": _int8, "int4": _int4}


@torch.no_grad()
def pack_weights(model: nn.Module, precision: Precision) -> None:
    """Pack every matrix of a model, in place. Vectors, and tables of positions, stay as they are.

    A matrix that two modules share is packed once, and each is let go as soon as it is packed, so that the memory
    never holds both models. All codes lie in one stretch of memory, in the order in which they are read: the system
    can map that in large pages, and a step then looks up fewer addresses. With "fp32" that is all that happens.
    """
    if precision == "fp32":
        _gather(model)
        return
    owners: dict[nn.Parameter, list[tuple[nn.Module, str]]] = {}
    for module in model.modules():
        if isinstance(module, nn.Linear) or hasattr(module, "positions") or module is model:
            for name, param in module.named_parameters(recurse=False):
                if param.dim() == 2:
                    owners.setdefault(param, []).append((module, name))
    stretch = _stretch(sum(_code_bytes(param, precision) for param in owners))
    while owners:
        param, places = next(iter(owners.items()))
        del owners[param]
        packed = pack(param.detach(), precision)
        here, stretch = stretch[: packed.codes.nbytes], stretch[packed.codes.nbytes :]
        packed.codes = here.view(packed.codes.dtype).view(packed.codes.shape).copy_(packed.codes)
        for module, name in places:
            delattr(module, name)
            setattr(module, name, packed)
    for param in model.parameters():
        param.requires_grad_(False)
    _give_back_memory()


def _gather(model: nn.Module) -> None:
    """Lay a model's matrices side by side, one after the other."""
    matrices = [param for param in model.parameters() if param.dim() == 2 and param.device.type == "cpu"]
    stretch = _stretch(sum(-(-param.nbytes // ALIGNED) * ALIGNED for param in matrices))
    for param in matrices:
        here, stretch = stretch[: param.nbytes], stretch[-(-param.nbytes // ALIGNED) * ALIGNED :]
        param.data = here.view(param.dtype).view(param.shape).copy_(param.data)
    _give_back_memory()


def _stretch(size: int) -> Tensor:
    """So many bytes of memory, of which numpy tells the system that large pages are welcome."""
    raw = np.empty(size + ALIGNED, dtype=np.uint8)
    return torch.from_numpy(raw[-raw.ctypes.data % ALIGNED :][:size])


def _give_back_memory() -> None:
    """Hand what was freed back to the system. The C library keeps it in case it is asked for as much again."""
    with contextlib.suppress(OSError, AttributeError, TypeError):  # another library than glibc
        ctypes.CDLL(None).malloc_trim(0)


def _code_bytes(weight: Tensor, precision: Precision) -> int:
    rows, columns = weight.shape
    return rows * columns if precision == "int8" else rows * -(-columns // (2 * GROUP)) * GROUP


def count_weights(model: nn.Module) -> int:
    """How many numbers a model has learned, packed or not; what is shared counts once."""
    values = [value for module in model.modules() for value in vars(module).values()]
    packed = {id(value): value.shape.numel() for value in values if isinstance(value, Packed)}
    return sum(param.numel() for param in model.parameters()) + sum(packed.values())
