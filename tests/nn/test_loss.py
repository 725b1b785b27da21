"""Fused linear cross-entropy: values and gradients equal torch's in float64."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from regard.nn import loss
from regard.nn.loss import SLICE, linear_cross_entropy

D, N = 5, 13


def inputs(rows: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(rows)
    hidden = torch.randn(rows, D, generator=random, dtype=torch.float64)
    weight = torch.randn(N, D, generator=random, dtype=torch.float64)
    bias = torch.randn(N, generator=random, dtype=torch.float64)
    return hidden, weight, bias, torch.randint(N, (rows,), generator=random)


@pytest.mark.parametrize("rows", [1, 7, SLICE - 1, SLICE, SLICE + 1, 2 * SLICE, 2 * SLICE + 1])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("with_bias", [False, True])
def test_loss_and_gradients_equal_torchs(rows: int, smoothing: float, with_bias: bool) -> None:
    hidden, weight, bias, targets = inputs(rows)
    given = [x.clone().requires_grad_() for x in ([hidden, weight, bias] if with_bias else [hidden, weight])]
    mine, plain = linear_cross_entropy(
        given[0], given[1], targets, bias=given[2] if with_bias else None, smoothing=smoothing
    )
    (3 * mine).backward()

    other = [x.clone().requires_grad_() for x in ([hidden, weight, bias] if with_bias else [hidden, weight])]
    logits = F.linear(*other)
    theirs = F.cross_entropy(logits, targets, label_smoothing=smoothing)
    (3 * theirs).backward()

    torch.testing.assert_close(mine, theirs, atol=1e-10, rtol=0)
    torch.testing.assert_close(plain, F.cross_entropy(logits, targets), atol=1e-10, rtol=0)
    for x, y in zip(given, other, strict=True):
        torch.testing.assert_close(x.grad, y.grad, atol=1e-10, rtol=0)


def test_by_hand() -> None:
    """Two words with logits 0 and ln 3: probabilities 1/4 and 3/4."""
    hidden, weight = torch.ones(1, 1), torch.tensor([[1.0], [3.0]]).log()
    smooth, plain = linear_cross_entropy(hidden, weight, torch.tensor([1]), smoothing=0.2)
    minus_log = (torch.tensor(4 / 3).log(), torch.tensor(4.0).log())
    torch.testing.assert_close(plain, minus_log[0])
    torch.testing.assert_close(smooth, 0.9 * minus_log[0] + 0.1 * minus_log[1])


def test_gradients_equal_finite_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss, "SLICE", 3)
    hidden, weight, bias, targets = inputs(7)
    parts = [x.requires_grad_() for x in (hidden, weight, bias)]

    def value(h: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return linear_cross_entropy(h, w, targets, bias=b, smoothing=0.1)[0]

    assert torch.autograd.gradcheck(value, parts)


def test_without_gradients_nothing_is_saved() -> None:
    hidden, weight, _, targets = inputs(5)
    smooth, plain = linear_cross_entropy(hidden, weight, targets)
    assert not smooth.requires_grad and not plain.requires_grad
    with torch.no_grad():
        again, _ = linear_cross_entropy(hidden.requires_grad_(), weight, targets)
    torch.testing.assert_close(smooth, again)


def test_the_reported_loss_cannot_be_trained_on() -> None:
    hidden, weight, _, targets = inputs(5)
    _, plain = linear_cross_entropy(hidden.requires_grad_(), weight, targets)
    assert not plain.requires_grad


def test_gradients_when_only_one_input_is_trained() -> None:
    hidden, weight, _, targets = inputs(5)
    weight.requires_grad_()
    linear_cross_entropy(hidden, weight, targets)[0].backward()
    assert weight.grad is not None and hidden.grad is None


def test_large_logits_do_not_overflow() -> None:
    hidden = torch.full((2, 1), 1e4, requires_grad=True)
    smooth, _ = linear_cross_entropy(hidden, torch.tensor([[1.0], [-1.0]]), torch.tensor([0, 1]))
    smooth.backward()
    assert smooth.item() == pytest.approx(1e4)  # no loss on the first row, 2·10⁴ on the second
    assert hidden.grad is not None and hidden.grad.isfinite().all()


def test_a_frozen_matrix_gets_no_gradient_but_hidden_states_do() -> None:
    hidden, weight, bias, targets = inputs(7)
    hidden.requires_grad_()
    linear_cross_entropy(hidden, weight, targets, bias=bias, smoothing=0.1)[0].backward()
    assert weight.grad is None
    expected = hidden.detach().clone().requires_grad_()
    F.cross_entropy(F.linear(expected, weight, bias), targets, label_smoothing=0.1).backward()
    torch.testing.assert_close(hidden.grad, expected.grad)
