"""The rank of OV matrices, W^V · W^O of each head, and the loss of a text after truncating them.

A head passes x · W^V · W^O to the positions that attend to x. The product is a D × D matrix with two factors, D × Dh
and Dh × D, so its rank is at most Dh. Its singular values show how strongly each direction is passed on. The loss after
truncating the smallest singular values shows how high a rank the text needs.

| here | lecture | shape |
|---|---|---|
| down | V_down, the head's part of W^V | (H, D, Dh) |
| up | V_up, the head's part of W^O | (H, Dh, D) |
| down @ up | the value matrix (OV matrix) | (H, D, D) |
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from regard.inspection.steps import attentions_of, projections_of
from regard.nn.lora import merge
from regard.nn.multihead import MultiHeadAttention
from regard.nn.quantized import QuantizedWeight
from regard.utils.errors import UsageError
from regard.views.studies import Ranks

if TYPE_CHECKING:
    from regard.tasks.translate.predictor import Translation


@dataclass(frozen=True)
class ValueFactors:
    """The two factors of the OV matrix of every head of one attention layer, in float64."""

    down: Tensor  # (H, D, Dh)
    up: Tensor  # (H, Dh, D)

    @property
    def product(self) -> Tensor:
        """The OV matrix of every head, (H, D, D): y = x @ product[h]."""
        return self.down @ self.up

    def spectrum(self) -> Tensor:
        """The singular values of the product, (H, Dh), largest first; the other D - Dh are zero."""
        values: Tensor = torch.linalg.svdvals(self._core()[1])
        return values

    def ranks(self) -> list[int]:
        """The rank of each head's product, with numpy's default tolerance."""
        return [int(rank) for rank in torch.linalg.matrix_rank(self.product)]

    def truncated_up(self, rank: int) -> Tensor:
        """Return `up` (H, Dh, D) such that the product is the nearest matrix of this rank."""
        basis, core = self._core()
        strongest: Tensor = torch.linalg.svd(core).Vh[:, :rank] @ basis  # (H, rank, D): output directions
        return self.up @ strongest.transpose(1, 2) @ strongest

    def _core(self) -> tuple[Tensor, Tensor]:
        """Orthonormal rows (H, K, D) that span `up`, and a matrix (H, K, K) with the singular values of the product."""
        down = torch.linalg.qr(self.down).R
        basis, up = torch.linalg.qr(self.up.transpose(1, 2))
        return basis.transpose(1, 2), down @ up.transpose(1, 2)


def value_factors(attention: MultiHeadAttention) -> ValueFactors:
    """Return the factors of each head's OV matrix. Heads that share keys and values share `down`."""
    down = torch.from_numpy(projections_of(attention)[2]).double()
    up = attention.out_proj.weight.detach().cpu().double().T.reshape(attention.num_heads, attention.head_dim, -1)
    return ValueFactors(down, up)


def factors_of(model: nn.Module) -> dict[str, ValueFactors]:
    """Return the factors of every attention layer of a model, by address."""
    return {address: value_factors(module) for address, (_, module) in attentions_of(_merged(model)).items()}


def _merged(model: nn.Module) -> nn.Module:
    """A copy of a model, with its adapters merged."""
    if any(isinstance(value, QuantizedWeight) for module in model.modules() for value in vars(module).values()):
        message = "the ranks of quantized weights cannot be computed. Load the model without `precision`."
        raise UsageError(message, argument="precision")
    copied = copy.deepcopy(model)
    merge(copied)
    return copied


def truncate_values(model: nn.Module, rank: int) -> nn.Module:
    """Return a copy of a model in which each OV matrix has at most the rank `rank`.

    Each head's W^V · W^O is replaced with the nearest matrix of this rank. The effect of biases is unchanged.
    """
    if rank < 0:
        raise UsageError(f"the rank must be at least 0, got {rank}.", argument="rank", value=rank)
    truncated = _merged(model)
    for _, attention in attentions_of(truncated).values():
        _truncate(attention, rank)
    return truncated


@torch.no_grad()
def _truncate(attention: MultiHeadAttention, rank: int) -> None:
    factors = value_factors(attention)
    up = factors.truncated_up(rank)
    joint, out = attention.kv_proj if attention.cross else attention.qkv_proj, attention.out_proj
    if joint.bias is not None and out.bias is not None:
        # Weights sum to 1, so the value bias adds a constant to the output, whatever the input is.
        bias = joint.bias[-attention.num_kv_heads * attention.head_dim :].double().cpu().view(-1, 1, attention.head_dim)
        by_head = bias.repeat_interleave(attention.num_heads // attention.num_kv_heads, 0)
        out.bias.add_((by_head @ (factors.up - up)).sum(dim=(0, 1)).to(out.bias))
    out.weight.copy_(up.flatten(0, 1).T.to(out.weight))


def rank_curve(predictor: Any, text: str, *, target: str | Translation | None = None) -> dict[int, float]:
    """Return the loss by rank with all OV matrices truncated; the last entry is the loss of the unchanged model.

    The loss of a language model is that of `text`. The loss of a translator is that of a translation of `text`:
    `target`, or the translation of the unchanged model.
    """
    head_dim = predictor.model.config.head_dim
    sample: tuple[Any, ...] = (text,)
    if "encoder-decoder" in predictor.capabilities:
        sample = (text, predictor.predict([text])[0] if target is None else target)
    losses = {}
    # 0, the powers of two and the numbers halfway between them, up to `head_dim`.
    powers = [2**n for n in range(head_dim.bit_length())]
    halfway = [3 * power // 2 for power in powers if power > 2 and 3 * power // 2 < head_dim]
    for rank in sorted({0, *powers, *halfway, head_dim}):
        truncated = copy.copy(predictor)
        if rank < head_dim:
            truncated.model = truncate_values(predictor.model, rank)
        losses[rank] = truncated.loss(*sample)
    return losses


def value_ranks(predictor: Any, text: str, *, target: str | Translation | None = None) -> Ranks:
    """Return the singular values of all attention layers, and the loss by rank of `text` or of its translation."""
    factors = factors_of(predictor.model)
    return Ranks(
        d_model=predictor.model.config.d_model,
        head_dim=predictor.model.config.head_dim,
        spectra={address: by_head.spectrum().numpy() for address, by_head in factors.items()},
        ranks={address: by_head.ranks() for address, by_head in factors.items()},
        losses=rank_curve(predictor, text, target=target),
    )
