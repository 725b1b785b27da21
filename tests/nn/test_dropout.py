"""Dropout from random bytes: rate, expectation, gradient and reproducibility."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.nn.layers import Dropout, dropout

MANY = 1_000_003  # prime, so that the last word of random bytes is not used up


@pytest.mark.parametrize("p", [0.1, 0.25, 0.3, 0.5, 0.9])
def test_dropout_rate_and_expectation(p: float) -> None:
    torch.manual_seed(0)
    out = dropout(torch.ones(MANY, requires_grad=True), p)
    rounded = round(p * 256) / 256
    assert abs(rounded - p) <= 1 / 512
    spread = 5 * math.sqrt(rounded * (1 - rounded) / MANY)  # five standard deviations of the rate
    assert (out == 0).float().mean().item() == pytest.approx(rounded, abs=spread)
    assert out.double().mean().item() == pytest.approx(1.0, abs=spread / (1 - rounded))


def test_remaining_elements_are_scaled_by_the_exact_fraction() -> None:
    torch.manual_seed(0)
    out = dropout(torch.ones(1000, requires_grad=True), 0.25)
    assert set(out.tolist()) == {0.0, torch.tensor(4 / 3).item()}


@given(p=st.floats(0.001, 0.9999), count=st.integers(0, 40))
def test_the_gradient_has_the_same_factor(p: float, count: int) -> None:
    torch.manual_seed(count)
    x = torch.randn(count, 3, dtype=torch.float64, requires_grad=True)
    out = dropout(x, p)
    upstream = torch.randn(count, 3, dtype=torch.float64)
    (grad,) = torch.autograd.grad(out, x, upstream)
    factor = (out / x).detach()
    torch.testing.assert_close(grad, upstream * factor, atol=1e-12, rtol=1e-12)
    assert out.isfinite().all() and out.shape == x.shape


def test_neighboring_elements_are_independent() -> None:
    torch.manual_seed(1)
    dropped = (dropout(torch.ones(MANY, requires_grad=True), 0.5) == 0).double()
    for distance in (1, 3, 8):
        together = (dropped[distance:] * dropped[:-distance]).mean().item()
        assert together == pytest.approx(0.25, abs=0.003)


def test_the_same_seed_drops_the_same_elements() -> None:
    x = torch.randn(17, 19, requires_grad=True)
    torch.manual_seed(7)
    first = dropout(x, 0.4)
    second = dropout(x, 0.4)
    torch.manual_seed(7)
    again = dropout(x, 0.4)
    assert torch.equal(first, again)
    assert not torch.equal(first, second)


def test_dropout_applies_without_gradients() -> None:
    torch.manual_seed(0)
    out = dropout(torch.ones(10_007), 0.3)
    assert (out == 0).float().mean().item() == pytest.approx(0.3, abs=0.03)


def test_eval_mode_and_p_zero_change_nothing() -> None:
    x = torch.randn(5, 7, requires_grad=True)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x
    assert not torch.equal(Dropout(0.5)(x), x)


def test_dropout_of_a_strided_view() -> None:
    torch.manual_seed(0)
    x = torch.randn(11, 13, requires_grad=True)
    out = dropout(x.T, 0.5)
    kept = out != 0
    torch.testing.assert_close(out[kept], 2 * x.T[kept])
