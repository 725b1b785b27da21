"""Optimizers, learning-rate schedules and weight averaging.

Muon (Jordan et al. 2024) replaces the momentum of a matrix with the nearest orthogonal matrix, so that all directions
are updated equally. The orthogonalization is five steps of a Newton–Schulz iteration, here in fp32, which on a CPU is
twenty times faster than bfloat16.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.nn.layers import FeedForward
from regard.nn.multihead import MultiHeadAttention
from regard.training.config import TrainingConfig, WeightAveraging

# The quintic polynomial of a Newton–Schulz step, tuned to bring singular values close to 1 in few steps.
A, B, C = 3.4445, -4.7750, 2.0315

TAIL = 0.2  # `tail` averages weights over this last fraction of the run
NUM_SNAPSHOTS = 5  # number of snapshots in the `tail` average


# --- Optimizers ---------------------------------------------------------------------------------------------


def orthogonalize(matrices: Tensor, steps: int = 5) -> Tensor:
    """Set all singular values of `matrices` (count, rows, columns) to about 1 and keep their singular vectors."""
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    if x.shape[-1] >= 2 * x.shape[-2]:
        x = _polynomial(x @ x.mT, steps) @ x
    else:
        for _ in range(steps):
            square = x @ x.mT
            x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=B, alpha=C), x, beta=A)
    return x.mT if tall else x


def _polynomial(square: Tensor, steps: int) -> Tensor:
    """Return the product of the factors of all Newton–Schulz steps, computed only from `square` = x xᵀ.

    A step multiplies x by a polynomial of x xᵀ. Polynomials of one matrix commute, so the next x xᵀ does not need x.
    This halves the compute for matrices with four times as many columns as rows.
    """
    product = None
    for step in range(steps):
        factor = torch.baddbmm(square, square, square, beta=B, alpha=C)
        factor.diagonal(dim1=-2, dim2=-1).add_(A)
        product = factor if product is None else factor @ product
        if step < steps - 1:
            square = factor @ square @ factor
    assert product is not None, "at least one step"
    return product


class Muon(torch.optim.Optimizer):
    """The Muon optimizer: orthogonalized Nesterov momentum. Matrices of one shape are orthogonalized in one batch.

    `parts` has the row counts of parameters that stack several matrices, such as the projection to queries, keys and
    values. Each of these matrices is orthogonalized separately.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        *,
        lr: float,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
        parts: Mapping[Tensor, Sequence[int]] | None = None,
    ) -> None:
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))
        self.parts = parts or {}

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            by_shape: dict[tuple[int, ...], list[tuple[Tensor, Tensor]]] = {}
            for param in group["params"]:
                if param.grad is None:
                    continue
                state = self.state[param]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(param)
                momentum = state["momentum"].lerp_(param.grad, 1 - group["momentum"])
                update = param.grad.lerp(momentum, group["momentum"])
                sizes = list(self.parts.get(param, (param.shape[0],)))
                for weight, part in zip(param.split(sizes), update.split(sizes), strict=True):
                    by_shape.setdefault(tuple(part.shape), []).append((weight, part))
            for (rows, columns), members in by_shape.items():
                directions = orthogonalize(torch.stack([update for _, update in members]))
                rate = group["lr"] * max(1.0, rows / columns) ** 0.5
                for (weight, _), direction in zip(members, directions, strict=True):
                    if group["weight_decay"]:
                        weight.mul_(1 - group["lr"] * group["weight_decay"])
                    weight.add_(direction, alpha=-rate)


def matrix_parts(model: nn.Module) -> dict[Tensor, Sequence[int]]:
    """Return the parameters that stack several matrices, with the number of rows of each matrix."""
    parts: dict[Tensor, Sequence[int]] = {}
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            kv = module.num_kv_heads * module.head_dim
            if module.cross:
                parts[module.kv_proj.weight] = (kv, kv)
            else:
                parts[module.qkv_proj.weight] = (module.num_heads * module.head_dim, kv, kv)
        if isinstance(module, FeedForward) and module.activation == "swiglu":
            parts[module.up_proj.weight] = (module.down_proj.in_features,) * 2
    return parts


def make_optimizers(
    model: nn.Module, config: TrainingConfig, *, lr_multipliers: Mapping[Tensor, float] | None = None
) -> list[torch.optim.Optimizer]:
    """Return AdamW alone, or Muon for the weights of linear layers and AdamW for embeddings, norms and biases.

    `lr_multipliers` scales the AdamW learning rate of single parameters, for example for layer-wise decay.
    """
    matrices = {module.weight for module in model.modules() if isinstance(module, nn.Linear)}
    params = [param for param in model.parameters() if param.requires_grad]
    muon = [param for param in params if config.optimizer == "muon" and param in matrices]
    rest = [param for param in params if config.optimizer != "muon" or param not in matrices]
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}  # by weight decay and learning rate
    for param in sorted(rest, key=lambda param: param.dim() <= 1):
        lr = (lr_multipliers or {}).get(param, 1.0) * config.learning_rate
        groups.setdefault((config.weight_decay if param.dim() > 1 else 0.0, lr), []).append(param)
    adam = torch.optim.AdamW(
        [dict(params=params, weight_decay=decay, lr=lr) for (decay, lr), params in groups.items()],
        lr=config.learning_rate,
        betas=(config.beta1, config.beta2),
        eps=config.adam_eps,
        fused=True,
    )
    optimizers: list[torch.optim.Optimizer] = [adam]
    if muon:
        parts = matrix_parts(model)
        optimizers.append(Muon(muon, lr=config.muon_learning_rate, weight_decay=config.weight_decay, parts=parts))
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["peak_lr"] = group["lr"]
    return optimizers


def set_lr_factor(optimizers: Sequence[torch.optim.Optimizer], factor: float) -> None:
    """Set every learning rate to `factor` times its peak."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["peak_lr"] * factor


def state_tensors(optimizers: Sequence[torch.optim.Optimizer], model: nn.Module) -> dict[str, Tensor]:
    """Return the state of all optimizers, keyed by "parameter name/state key"."""
    return {
        f"{name}/{key}": value
        for name, param, optimizer in _owners(optimizers, model)
        for key, value in optimizer.state.get(param, {}).items()
    }


def load_state_tensors(
    optimizers: Sequence[torch.optim.Optimizer], model: nn.Module, tensors: Mapping[str, Tensor]
) -> None:
    """Restore the state that `state_tensors` returned."""
    by_param: dict[str, dict[str, Tensor]] = {}
    for path, value in tensors.items():
        name, _, key = path.rpartition("/")
        by_param.setdefault(name, {})[key] = value
    for name, param, optimizer in _owners(optimizers, model):
        if name in by_param:
            state = by_param[name].items()
            optimizer.state[param] = {key: value.to(param.device, copy=True) for key, value in state}


def _owners(
    optimizers: Sequence[torch.optim.Optimizer], model: nn.Module
) -> Iterator[tuple[str, nn.Parameter, torch.optim.Optimizer]]:
    owner = {param: opt for opt in optimizers for group in opt.param_groups for param in group["params"]}
    for name, param in model.named_parameters():
        if param in owner:
            yield name, param, owner[param]


# --- Schedules ----------------------------------------------------------------------------------------------


def linear(progress: float) -> float:
    return max(0.0, 1 - progress)


# The learning rate as a fraction of its peak. `progress` runs from 0 to 1, whether the budget is in steps or minutes.
SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda progress: 1.0,
    "linear": linear,
    "cosine": lambda progress: 0.5 * (1 + math.cos(math.pi * min(1.0, progress))),
    "trapezoid": lambda progress: min(1.0, linear(progress) / 0.6),  # constant for 40 %, then linear
    "linear-from-peak": linear,  # `lr_factor` starts the decay at the end of the warm-up
}


def lr_factor(schedule: str, *, step: int, progress: float, warmup_steps: int, warmed: float = 0.0) -> float:
    """Return the fraction of the peak learning rate at a step (counted from 0): linear warm-up, then the schedule.

    `warmed` is the progress at the end of the warm-up (0 if unknown), where `linear-from-peak` starts to decay; other
    schedules start at 0. `inverse-square-root` is min(step^-½, step · warmup^-1.5) from 2017, scaled to a peak of 1.
    """
    step = step + 1
    if schedule == "inverse-square-root":
        warmup = max(1, warmup_steps)
        return min(step / warmup, math.sqrt(warmup / step))
    warmup_factor = min(1.0, step / warmup_steps) if warmup_steps else 1.0
    if schedule == "linear-from-peak" and warmed < 1:
        progress = max(0.0, progress - warmed) / (1 - warmed)
    return warmup_factor * SCHEDULES[schedule](progress)


# --- Weight averaging ---------------------------------------------------------------------------------------


class WeightAverager:
    """An average of the weights over steps, which is often better than the last weights.

    - `ema`: an exponential moving average, with a lower decay in the first steps.
    - `tail`: the mean of `NUM_SNAPSHOTS` snapshots, evenly spaced over the last part of the run, similar to the
      average of the last checkpoints in the 2017 paper.
    """

    def __init__(self, model: nn.Module, *, kind: WeightAveraging, decay: float = 0.999) -> None:
        self.kind, self.decay = kind, decay
        trainable = {name: param.detach() for name, param in model.named_parameters() if param.requires_grad}
        self.names, self.params = list(trainable), list(trainable.values())
        self.mean = [] if kind == "none" else [param.clone() for param in self.params]
        self.num_snapshots = 0

    @torch.no_grad()
    def update(self, step: int, progress: float) -> None:
        """Add the weights after a step (counted from 1) to the average."""
        if self.kind == "ema":
            # A lower decay at the start removes the random weights: step n averages about the last n / 10 steps.
            torch._foreach_lerp_(self.mean, self.params, max(1 - self.decay, 9 / (step + 9)))
        elif self.kind == "tail":
            next_snapshot = 1 - TAIL + TAIL * self.num_snapshots / (NUM_SNAPSHOTS - 1)
            if self.num_snapshots < NUM_SNAPSHOTS and progress >= next_snapshot - 1e-9:
                self.num_snapshots += 1
                torch._foreach_lerp_(self.mean, self.params, 1 / self.num_snapshots)

    @torch.no_grad()
    def swap(self) -> None:
        """Swap the weights of the model with their average, if there is one; a second call swaps them back."""
        if self.kind == "ema" or self.num_snapshots:
            for param, mean in zip(self.params, self.mean, strict=True):
                weights = param.clone()
                param.copy_(mean)
                mean.copy_(weights)

    def tensors(self) -> dict[str, Tensor]:
        return dict(zip(self.names, self.mean, strict=True)) if self.mean else {}

    @torch.no_grad()
    def load(self, tensors: Mapping[str, Tensor], num_snapshots: int) -> None:
        self.num_snapshots = num_snapshots
        for name, mean in zip(self.names, self.mean, strict=bool(self.mean)):
            mean.copy_(tensors[name])
