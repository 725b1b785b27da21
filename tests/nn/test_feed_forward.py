"""The feed-forward network compared with its formula, for every activation."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from regard.nn.layers import ACTIVATIONS, FeedForward, SquaredReLU
from regard.utils.errors import UsageError

D, HIDDEN = 7, 29


@pytest.fixture
def x() -> Tensor:
    return torch.randn(2, 5, D, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def randomized(activation: str, *, bias: bool = True) -> FeedForward:
    torch.manual_seed(1)
    network = FeedForward(D, d_ff=HIDDEN, activation=activation, bias=bias).double()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_()
    return network


def test_m121_shapes_of_the_two_projections() -> None:
    network = FeedForward(D, d_ff=4 * D)
    assert network.up_proj.weight.shape == (4 * D, D)
    assert network.down_proj.weight.shape == (D, 4 * D)


def test_m121_relu_equals_the_formula(x: Tensor) -> None:
    network = randomized("relu")
    W1, b1 = network.up_proj.weight.T, network.up_proj.bias
    W2, b2 = network.down_proj.weight.T, network.down_proj.bias
    expected = torch.maximum(torch.zeros(1, dtype=x.dtype), x @ W1 + b1) @ W2 + b2
    torch.testing.assert_close(network(x), expected, atol=1e-12, rtol=0)


def by_hand(name: str, value: float) -> float:
    if name == "relu":
        return max(0.0, value)
    if name == "relu2":
        return max(0.0, value) ** 2
    if name == "gelu":
        return value * 0.5 * (1 + math.erf(value / math.sqrt(2)))
    return value / (1 + math.exp(-value))  # silu


@pytest.mark.parametrize("name", ["relu", "relu2", "gelu", "silu"])
def test_activations_by_hand(name: str) -> None:
    values = [-3.0, -0.7, 0.0, 0.4, 2.0]
    bent = ACTIVATIONS[name](torch.tensor(values, dtype=torch.float64))
    assert bent.tolist() == pytest.approx([by_hand(name, value) for value in values], abs=1e-12)


@pytest.mark.parametrize("name", ["relu", "relu2", "gelu", "silu"])
def test_the_activation_is_between_the_two_projections(name: str, x: Tensor) -> None:
    network = randomized(name, bias=False)
    inner = (x @ network.up_proj.weight.T).detach().apply_(lambda value: by_hand(name, value))
    torch.testing.assert_close(network(x), inner @ network.down_proj.weight.T, atol=1e-10, rtol=0)


def test_swiglu_gates_one_half_with_the_other(x: Tensor) -> None:
    network = randomized("swiglu")
    assert network.up_proj.weight.shape == (2 * HIDDEN, D)
    both = x @ network.up_proj.weight.T + network.up_proj.bias
    gate, value = both[..., :HIDDEN], both[..., HIDDEN:]
    inner = gate / (1 + (-gate).exp()) * value
    expected = inner @ network.down_proj.weight.T + network.down_proj.bias
    torch.testing.assert_close(network(x), expected, atol=1e-10, rtol=0)


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_m122_permuting_positions_permutes_outputs(activation: str, x: Tensor) -> None:
    network = randomized(activation)
    order = torch.tensor([3, 0, 4, 1, 2])
    torch.testing.assert_close(network(x)[:, order], network(x[:, order]), atol=1e-12, rtol=0)


def test_m122_permuting_positions_permutes_outputs_exactly() -> None:
    """With integer weights no sum is rounded, so the outputs are exactly equal."""
    torch.manual_seed(2)
    network = FeedForward(D, d_ff=HIDDEN)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randint(-3, 4, parameter.shape))
    x = torch.randint(-5, 6, (2, 5, D)).float()
    order = torch.tensor([3, 0, 4, 1, 2])
    assert torch.equal(network(x)[:, order], network(x[:, order]))


def test_dropout_applies_to_hidden_values_in_training_only(x: Tensor) -> None:
    network = FeedForward(D, d_ff=HIDDEN, dropout=0.5).double()
    torch.manual_seed(3)
    assert not torch.equal(network(x), network(x))
    network.eval()
    assert torch.equal(network(x), network(x))


def test_an_unknown_activation_suggests_the_nearest_name() -> None:
    with pytest.raises(UsageError) as caught:
        FeedForward(D, d_ff=HIDDEN, activation="swigl")
    assert (caught.value.argument, caught.value.value, caught.value.hint) == ("activation", "swigl", "swiglu")


def test_the_gradient_of_squared_relu_equals_finite_differences() -> None:
    x = torch.linspace(-2, 2, 8, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(SquaredReLU.apply, x)
