"""Values through a narrow waist: what W^V · W^O of a head can pass on, and how much of it a text needs.

A head passes x · W^V · W^O on to the positions that look at it. The product is a D × D matrix made of two factors,
D × Dh and Dh × D, so its rank is Dh at most. Its singular values say how much of each direction goes through. Cutting
off the small ones, rank by rank, shows how many a text needs.

| here | lecture | shape |
|---|---|---|
| down | V_down, the head's part of W^V | (H, D, Dh) |
| up | V_up, the head's part of W^O | (H, Dh, D) |
| down @ up | the value matrix | (H, D, D) |
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.inspection.steps import attentions_of, projections_of
from regard.nn.lora import merge
from regard.nn.multihead import MultiHeadAttention
from regard.nn.quantized import QuantizedWeight
from regard.tasks.generate.predictor import LanguageModel
from regard.tasks.translate.predictor import Translation, Translator
from regard.utils.errors import UsageError, unknown
from regard.views.ranks import Ranks


@dataclass(frozen=True)
class ValueFactors:
    """The two factors of the values of every head of one attention, in float64."""

    down: Tensor  # (H, D, Dh)
    up: Tensor  # (H, Dh, D)

    @property
    def product(self) -> Tensor:
        """The value matrix of every head, (H, D, D): y = x @ product[h]."""
        return self.down @ self.up

    def spectrum(self) -> Tensor:
        """The singular values of the product, (H, Dh), the largest first; D - Dh more are zero."""
        values: Tensor = torch.linalg.svdvals(self._core()[1])
        return values

    def ranks(self) -> list[int]:
        """The rank of each head's product, by numpy's usual tolerance."""
        return [int(rank) for rank in torch.linalg.matrix_rank(self.product)]

    def truncated_up(self, rank: int) -> Tensor:
        """`up` with which the product is the nearest one of that rank: (H, Dh, D)."""
        basis, core = self._core()
        kept: Tensor = (
            torch.linalg.svd(core).Vh[:, :rank] @ basis
        )  # (H, rank, D): the strongest directions that come out
        return self.up @ kept.transpose(1, 2) @ kept

    def _core(self) -> tuple[Tensor, Tensor]:
        """Orthonormal rows (H, K, D) that span `up`, and a matrix (H, K, K) with the singular values of the product."""
        down = torch.linalg.qr(self.down).R
        turned, up = torch.linalg.qr(self.up.transpose(1, 2))
        return turned.transpose(1, 2), down @ up.transpose(1, 2)


def value_factors(attention: MultiHeadAttention) -> ValueFactors:
    """The factors of each head's value matrix. Heads that share keys and values share their way down."""
    down = torch.from_numpy(projections_of(attention)[2]).double()
    up = attention.out_proj.weight.detach().cpu().double().T.reshape(attention.num_heads, attention.head_dim, -1)
    return ValueFactors(down, up)


def value_spectra(model: nn.Module) -> dict[str, Tensor]:
    """Address → singular values (H, Dh) of W^V · W^O, for every attention of a model."""
    return {address: factors.spectrum() for address, factors in factors_of(model).items()}


def factors_of(model: nn.Module) -> dict[str, ValueFactors]:
    """Address → the value factors of every attention of a model."""
    found = attentions_of(_plain(model))
    return {address: value_factors(attention) for address, (_, attention) in found.items()}


def _plain(model: nn.Module) -> nn.Module:
    """A copy of a model, without adapters beside its matrices."""
    if any(isinstance(value, QuantizedWeight) for module in model.modules() for value in vars(module).values()):
        raise UsageError("ranks are those of the whole weights: load the model without `precision`.")
    copied = copy.deepcopy(model)
    merge(copied)
    return copied


def truncate_values(model: nn.Module, rank: int, *, addresses: Sequence[str] | None = None) -> nn.Module:
    """A copy of a model whose heads pass values through at most `rank` directions, at `addresses` or everywhere.

    Of each head's W^V · W^O the nearest matrix of that rank is taken. Biases go on as they did.
    """
    if rank < 0:
        raise UsageError(f"a rank must be 0 or more, not {rank}.")
    changed = _plain(model)
    known = attentions_of(changed)
    for address in known if addresses is None else addresses:
        if address not in known:
            raise unknown("attention", address, known)
        _truncate(known[address][1], rank)
    return changed


@torch.no_grad()
def _truncate(attention: MultiHeadAttention, rank: int) -> None:
    factors = value_factors(attention)
    up = factors.truncated_up(rank)
    joint = attention.kv_proj if attention.cross else attention.qkv_proj
    if joint.bias is not None and attention.out_proj.bias is not None:
        # What every position passes on whatever it is: shares add up to 1, so it is a constant of the output.
        bias = joint.bias[-attention.num_kv_heads * attention.head_dim :].double().cpu()
        by_head = bias.view(-1, 1, attention.head_dim).repeat_interleave(
            attention.num_heads // attention.num_kv_heads, 0
        )
        attention.out_proj.bias.add_((by_head @ (factors.up - up)).sum(dim=(0, 1)).to(attention.out_proj.bias))
    attention.out_proj.weight.copy_(up.flatten(0, 1).T.to(attention.out_proj.weight))


def rank_curve(
    model: LanguageModel[Any] | Translator,
    text: str,
    *,
    target: str | Translation | None = None,
    ranks: Sequence[int] | None = None,
) -> dict[int, float]:
    """Rank → loss with all value matrices cut down to that rank; the last is the model as it is.

    The loss is that of `text`; of a translator, that of a translation of it: `target`, or the whole model's own.
    """
    d_model = model.model.config.head_dim
    asked = sorted({*_steps(d_model), d_model} if ranks is None else set(ranks))
    if isinstance(model, Translator) and target is None:
        target = model.predict([text])[0]
    losses = {}
    for rank in asked:
        cut = truncate_values(model.model, rank) if rank < d_model else model.model
        losses[rank] = _loss(_with(model, cut), text, target)
    return losses


def _with(model: LanguageModel[Any] | Translator, cut: nn.Module) -> LanguageModel[Any] | Translator:
    """The same object that answers text, with other weights; the one given is left as it is."""
    changed = copy.copy(model)
    changed.model = cut
    return changed


def _loss(model: LanguageModel[Any] | Translator, text: str, target: str | Translation | None) -> float:
    if isinstance(model, Translator):
        assert target is not None
        return model.loss(text, target)
    return model.loss(text)


def _steps(d_model: int) -> list[int]:
    """0, 1, 2, 4 … and what lies halfway, up to the width of a head."""
    powers = [2**n for n in range(d_model.bit_length()) if 2**n <= d_model]
    return [0, *powers, *(3 * power // 2 for power in powers if power > 2 and 3 * power // 2 < d_model)]


def value_ranks(model: LanguageModel[Any] | Translator, text: str, *, target: str | Translation | None = None) -> Ranks:
    """What there is to see: the spectra of all attentions, and the loss by rank of `text`, or of its translation."""
    factors = factors_of(model.model)
    return Ranks(
        d_model=model.model.config.d_model,
        head_dim=model.model.config.head_dim,
        spectra={address: found.spectrum().numpy() for address, found in factors.items()},
        ranks={address: found.ranks() for address, found in factors.items()},
        losses=rank_curve(model, text, target=target),
    )
