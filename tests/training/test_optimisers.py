"""Muon and AdamW against what they claim, and their state against losing anything."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.nn.feed_forward import FeedForward
from regard.nn.multihead import MultiHeadAttention
from regard.training.optimisers import (
    Muon,
    load_state_tensors,
    make_optimisers,
    matrix_parts,
    orthogonalise,
    set_rate,
    state_tensors,
)


@pytest.mark.parametrize("shape", [(3, 7, 13), (2, 13, 7), (1, 11, 11)])
def test_orthogonalise_keeps_directions_and_evens_out_their_lengths(shape: tuple[int, int, int]) -> None:
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = orthogonalise(matrices)
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
    expected = torch.eye(5, dtype=torch.float64) * (1 - 0.1 * 0.5) - 0.1 * orthogonalise(update[None])[0]
    torch.testing.assert_close(weight.detach(), expected)


def test_joint_projections_are_orthogonalised_part_by_part() -> None:
    attention = MultiHeadAttention(10, heads=3, head_width=4, key_value_heads=1)
    cross = MultiHeadAttention(10, heads=3, head_width=4, cross=True)
    gated = FeedForward(10, hidden=7, activation="swiglu")
    model = nn.ModuleList([attention, cross, gated])
    parts = matrix_parts(model)
    assert parts[attention.query_key_value.weight] == (12, 4, 4)
    assert parts[cross.key_value.weight] == (12, 12)
    assert parts[gated.widen.weight] == (7, 7)
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
def test_every_parameter_has_exactly_one_optimiser(kind: str) -> None:
    model = make_model()
    optimisers = optimisers_for(model, kind)
    owned = [id(p) for optimiser in optimisers for group in optimiser.param_groups for p in group["params"]]
    assert sorted(owned) == sorted(id(param) for param in model.parameters())
    assert len(optimisers) == (2 if kind == "muon" else 1)
    set_rate(optimisers, 0.5)
    assert optimisers[0].param_groups[0]["lr"] == 0.005


@pytest.mark.parametrize("kind", ["muon", "adamw"])
def test_state_goes_through_a_checkpoint_bit_for_bit(kind: str) -> None:
    def train(model: nn.Module, optimisers: list[torch.optim.Optimizer], steps: range) -> None:
        for step in steps:
            torch.manual_seed(step)
            loss = model(torch.randint(0, 7, (11,))).square().sum()
            loss.backward()
            for optimiser in optimisers:
                optimiser.step()
                optimiser.zero_grad()

    straight = make_model()
    train(straight, optimisers_for(straight, kind), range(6))
    first = make_model()
    before = optimisers_for(first, kind)
    train(first, before, range(3))
    saved = {name: tensor.clone() for name, tensor in state_tensors(before, first).items()}
    second = make_model()
    second.load_state_dict(first.state_dict())
    after = optimisers_for(second, kind)
    load_state_tensors(after, second, saved)
    train(second, after, range(3, 6))
    for a, b in zip(straight.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)


def optimisers_for(model: nn.Module, kind: str) -> list[torch.optim.Optimizer]:
    return make_optimisers(
        model,
        kind=kind,
        learning_rate=0.01,
        matrix_learning_rate=0.02,
        betas=(0.9, 0.98),
        epsilon=1e-9,
        weight_decay=0.1,
    )


def test_m149_parameters_that_learn_at_a_part_of_the_rate() -> None:
    model = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 2))
    rates = dict.fromkeys(model[0].parameters(), 0.25)
    (adam,) = make_optimisers(
        model, kind="adamw", learning_rate=0.1, matrix_learning_rate=0.1, betas=(0.9, 0.99), epsilon=1e-8,
        weight_decay=0.01, rates=rates,
    )  # fmt: skip
    found = {param: (group["lr"], group["weight_decay"]) for group in adam.param_groups for param in group["params"]}
    assert found[model[0].weight] == (0.025, 0.01)
    assert found[model[0].bias] == (0.025, 0.0)
    assert found[model[1].weight] == (0.1, 0.01)
    set_rate([adam], 0.5)
    assert sorted({group["lr"] for group in adam.param_groups}) == [0.0125, 0.05]
