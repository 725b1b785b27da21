"""LoRA: learning a small change beside weights that stay as they are (Hu et al. 2021).

| here | paper | shape |
|---|---|---|
| weight | W₀ | (outputs, inputs), frozen |
| lora_a | A | (rank, inputs), random at first |
| lora_b | B | (outputs, rank), zero at first |
| scale | α / r | – |

An adapted layer computes W₀x + b + α/r · B(Ax). B begins at zero, so that an adapted model begins as exactly the model
that it was made of. `merge` writes W₀ + α/r · BA in the place of W₀ and leaves a plain model, which costs nothing more
to run and knows nothing of adapters.

Where one stored matrix is several maps side by side, as the joint projection of queries, keys and values is, one
adapter covers all of them: they share A, and each has its own rows of B.

Nothing here knows a model: adapters are put on the linear layers that a model has, found by where they stand.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import UsageError
from regard.nn.lora_settings import LoRAConfig
from regard.nn.multihead import MultiHeadAttention


class LoRALinear(nn.Linear):
    """A linear layer with an adapter. Weight and bias keep their names, and are those of the layer it replaces."""

    def __init__(self, base: nn.Linear, *, rank: int, alpha: float) -> None:
        super().__init__(base.in_features, base.out_features, bias=base.bias is not None, device="meta")
        self.weight, self.bias = base.weight, base.bias
        self.scale = alpha / rank
        self.lora_a = nn.Parameter(self.weight.new_empty(rank, base.in_features))
        self.lora_b = nn.Parameter(self.weight.new_zeros(base.out_features, rank))
        nn.init.normal_(self.lora_a, std=base.in_features**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.scale * F.linear(F.linear(x, self.lora_a), self.lora_b)

    def merged(self) -> nn.Linear:
        """The plain layer that computes the same; added up in float64, so that only the result is rounded."""
        plain = nn.Linear(self.in_features, self.out_features, bias=self.bias is not None, device="meta")
        change = self.scale * (self.lora_b.detach().double() @ self.lora_a.detach().double())
        plain.weight = nn.Parameter((self.weight.detach().double() + change).to(self.weight.dtype))
        plain.bias = self.bias
        return plain


def add_adapters(model: nn.Module, config: LoRAConfig, *, seed: int) -> None:
    """Put adapters into a model and freeze everything else; the same seed draws the same ones."""
    chosen = [(parent, name, layer) for parent, name, layer in _linears(model) if _is_chosen(parent, config)]
    if any(isinstance(layer, LoRALinear) for _, _, layer in chosen):
        raise UsageError("this model has adapters already: merge them before it gets new ones.")
    narrowest = min((min(layer.weight.shape) for _, _, layer in chosen), default=0)
    if config.lora_rank > narrowest:
        raise UsageError(
            f"lora_rank {config.lora_rank} is more than the {narrowest} directions that the narrowest of the chosen "
            f"matrices has: choose a lower one, usually 4 to 32."
        )
    model.requires_grad_(False)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for parent, name, layer in chosen:
            setattr(parent, name, LoRALinear(layer, rank=config.lora_rank, alpha=config.lora_alpha))


def adapter_tensors(model: nn.Module) -> dict[str, Tensor]:
    """The adapters alone, by name: all that LoRA has learned."""
    layers = [(name, layer) for name, layer in model.named_modules() if isinstance(layer, LoRALinear)]
    return {f"{name}.{part}": getattr(layer, part).detach() for name, layer in layers for part in ("lora_a", "lora_b")}


def merge(model: nn.Module) -> None:
    """Replace every adapted layer by the plain one that computes the same. All parameters can learn again."""
    for parent, name, layer in list(_linears(model)):
        if isinstance(layer, LoRALinear):
            setattr(parent, name, layer.merged())
    model.requires_grad_(True)


def _linears(model: nn.Module) -> Iterator[tuple[nn.Module, str, nn.Linear]]:
    for parent in model.modules():
        for name, layer in parent.named_children():
            if isinstance(layer, nn.Linear):
                yield parent, name, layer


def _is_chosen(parent: nn.Module, config: LoRAConfig) -> bool:
    return config.lora_on == "all" or isinstance(parent, MultiHeadAttention)
