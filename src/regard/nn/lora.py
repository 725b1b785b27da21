"""LoRA: trainable low-rank updates of frozen weights (Hu et al. 2021).

| here | paper | shape |
|---|---|---|
| weight | W₀ | (outputs, inputs), frozen |
| lora_a | A | (rank, inputs), initialized randomly |
| lora_b | B | (outputs, rank), initialized to zero |
| scale | α / r | – |

An adapted layer computes W₀x + b + α/r · B(Ax). B starts at zero, so an adapted model starts out identical to its base
model. `merge` replaces W₀ with W₀ + α/r · BA and returns to a plain model, without overhead at inference.

A matrix that joins several projections, such as qkv_proj, gets one adapter: the projections share A, and each has its
own rows of B.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.nn.config import LoRAConfig
from regard.nn.init import Linear, empty_weights
from regard.nn.multihead import MultiHeadAttention
from regard.utils.errors import UsageError


class LoRALinear(Linear):
    """A linear layer with an adapter. It uses the weight and bias of the layer it replaces."""

    def __init__(self, base: nn.Linear, *, rank: int, alpha: float) -> None:
        with empty_weights():
            super().__init__(base.in_features, base.out_features, bias=base.bias is not None)
        self.weight, self.bias = base.weight, base.bias
        self.scale = alpha / rank
        self.lora_a = nn.Parameter(self.weight.new_empty(rank, base.in_features))
        self.lora_b = nn.Parameter(self.weight.new_zeros(base.out_features, rank))
        nn.init.normal_(self.lora_a, std=base.in_features**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.scale * F.linear(F.linear(x, self.lora_a), self.lora_b)

    def merged(self) -> nn.Linear:
        """Return the equivalent plain layer. The sum is computed in float64 and rounded once."""
        with empty_weights():
            plain = Linear(self.in_features, self.out_features, bias=self.bias is not None)
        change = self.scale * (self.lora_b.detach().double() @ self.lora_a.detach().double())
        plain.weight = nn.Parameter((self.weight.detach().double() + change).to(self.weight.dtype))
        plain.bias = self.bias
        return plain


def add_adapters(model: nn.Module, config: LoRAConfig, *, seed: int) -> None:
    """Add adapters to a model and freeze everything else. The same seed gives the same adapters."""
    adapts_all = config.lora_targets == "all"
    chosen = [linear for linear in _linears(model) if adapts_all or isinstance(linear[0], MultiHeadAttention)]
    if any(isinstance(layer, LoRALinear) for _, _, layer in chosen):
        raise UsageError("this model already has adapters. Merge them before you add new ones.", argument="model")
    narrowest = min((min(layer.weight.shape) for _, _, layer in chosen), default=0)
    if config.lora_rank > narrowest:
        message = f"lora_rank must be at most {narrowest}, the smallest dimension of a matrix, not {config.lora_rank}."
        raise UsageError(message, argument="lora_rank", value=config.lora_rank)
    model.requires_grad_(False)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for parent, name, layer in chosen:
            setattr(parent, name, LoRALinear(layer, rank=config.lora_rank, alpha=config.lora_alpha))


def adapter_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Return the tensors of the adapters by name."""
    layers = [(name, layer) for name, layer in model.named_modules() if isinstance(layer, LoRALinear)]
    return {f"{name}.{part}": getattr(layer, part).detach() for name, layer in layers for part in ("lora_a", "lora_b")}


def merge(model: nn.Module) -> None:
    """Merge every adapter into its layer. All parameters become trainable again."""
    for parent, name, layer in _linears(model):
        if isinstance(layer, LoRALinear):
            setattr(parent, name, layer.merged())
    model.requires_grad_(True)


def _linears(model: nn.Module) -> list[tuple[nn.Module, str, nn.Linear]]:
    """Return every linear layer of a model, with its parent module and its attribute name in the parent."""
    children = [(parent, name, layer) for parent in model.modules() for name, layer in parent.named_children()]
    return [(parent, name, layer) for parent, name, layer in children if isinstance(layer, nn.Linear)]
