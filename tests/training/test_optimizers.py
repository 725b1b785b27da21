"""Muon and AdamW against their definitions, and their state in checkpoints."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.nn.layers import FeedForward
from regard.nn.multihead import MultiHeadAttention
from regard.training.config import TrainingConfig
from regard.training.optimizers import (
    Muon,
    load_state_tensors,
    make_optimizers,
    matrix_parts,
    orthogonalize,
    set_lr_factor,
    state_tensors,
)


@pytest.mark.parametrize("shape", [(3, 7, 13), (2, 13, 7), (1, 11, 11)])
def test_orthogonalise_keeps_directions_and_evens_out_their_lengths(shape: tuple[int, int, int]) -> None:
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = orthogonalize(matrices)
    u, _, vt = torch.linalg.svd(matrices, full_matrices=False)
    # Muon's quintic is tuned for speed, so singular values end in a band around 1, and nowhere else.
    values = torch.linalg.svdvals(found)
    assert values.min() > 0.3
    assert values.max() < 1.3
    along = (u.mT @ found @ vt.mT).diagonal(dim1=-2, dim2=-1)
    torch.testing.assert_close(along.sort(dim=-1).values, values.sort(dim=-1).values, atol=1e-6, rtol=0)


def test_muon_step_by_hand() -> None:
    weight = nn.Parameter(torch.eye(5, dtype=torch.float64))
    gradient = torch.randn(5, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    weight.grad = gradient.clone()
    Muon([weight], lr=0.1, momentum=0.95, weight_decay=0.5).step()
    momentum = 0.05 * gradient
    update = 0.05 * gradient + 0.95 * momentum
    expected = torch.eye(5, dtype=torch.float64) * (1 - 0.1 * 0.5) - 0.1 * orthogonalize(update[None])[0]
    torch.testing.assert_close(weight.detach(), expected)


def test_joint_projections_are_orthogonalised_part_by_part() -> None:
    attention = MultiHeadAttention(10, num_heads=3, head_dim=4, num_kv_heads=1)
    cross = MultiHeadAttention(10, num_heads=3, head_dim=4, cross=True)
    gated = FeedForward(10, d_ff=7, activation="swiglu")
    model = nn.ModuleList([attention, cross, gated])
    parts = matrix_parts(model)
    assert parts[attention.qkv_proj.weight] == (12, 4, 4)
    assert parts[cross.kv_proj.weight] == (12, 12)
    assert parts[gated.up_proj.weight] == (7, 7)
    joint = nn.Parameter(torch.zeros(6, 3, dtype=torch.float64))
    joint.grad = torch.randn(6, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    alone = [nn.Parameter(torch.zeros(3, 3, dtype=torch.float64)) for _ in range(2)]
    for param, grad in zip(alone, joint.grad.split(3), strict=True):
        param.grad = grad.clone()
    Muon([joint], lr=0.1, parts={joint: (3, 3)}).step()
    Muon(alone, lr=0.1).step()
    torch.testing.assert_close(joint.detach(), torch.cat([param.detach() for param in alone]))


def make_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(7, 5), nn.Linear(5, 5), nn.LayerNorm(5))


@pytest.mark.parametrize("kind", ["muon", "adamw"])
def test_every_parameter_has_exactly_one_optimizer(kind: str) -> None:
    model = make_model()
    optimizers = optimizers_for(model, kind)
    owned = [id(p) for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]]
    assert sorted(owned) == sorted(id(param) for param in model.parameters())
    assert len(optimizers) == (2 if kind == "muon" else 1)
    set_lr_factor(optimizers, 0.5)
    assert optimizers[0].param_groups[0]["lr"] == 0.005


@pytest.mark.parametrize("kind", ["muon", "adamw"])
def test_state_is_loaded_from_a_checkpoint_bit_for_bit(kind: str) -> None:
    def train(model: nn.Module, optimizers: list[torch.optim.Optimizer], steps: range) -> None:
        for step in steps:
            torch.manual_seed(step)
            loss = model(torch.randint(0, 7, (11,))).square().sum()
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()

    straight = make_model()
    train(straight, optimizers_for(straight, kind), range(6))
    first = make_model()
    before = optimizers_for(first, kind)
    train(first, before, range(3))
    saved = {name: tensor.clone() for name, tensor in state_tensors(before, first).items()}
    second = make_model()
    second.load_state_dict(first.state_dict())
    after = optimizers_for(second, kind)
    load_state_tensors(after, second, saved)
    train(second, after, range(3, 6))
    for a, b in zip(straight.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)


def optimizers_for(model: nn.Module, kind: str) -> list[torch.optim.Optimizer]:
    config = TrainingConfig(optimizer=kind, learning_rate=0.01, muon_learning_rate=0.02, weight_decay=0.1)  # type: ignore[arg-type]
    return make_optimizers(model, config)


def test_m149_parameters_with_a_smaller_learning_rate() -> None:
    model = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 2))
    lr_multipliers = dict.fromkeys(model[0].parameters(), 0.25)
    config = TrainingConfig(optimizer="adamw", learning_rate=0.1, weight_decay=0.01)
    (adam,) = make_optimizers(model, config, lr_multipliers=lr_multipliers)
    found = {param: (group["lr"], group["weight_decay"]) for group in adam.param_groups for param in group["params"]}
    assert found[model[0].weight] == (0.025, 0.01)
    assert found[model[0].bias] == (0.025, 0.0)
    assert found[model[1].weight] == (0.1, 0.01)
    set_lr_factor([adam], 0.5)
    assert sorted({group["lr"] for group in adam.param_groups}) == [0.0125, 0.05]
