"""LayerNorm and RMSNorm compared with torch's modules and with their formulas."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from regard.nn.layers import LayerNorm, RMSNorm, make_norm
from regard.utils.errors import UsageError

D = 13


@pytest.fixture
def x() -> Tensor:
    return torch.randn(2, 5, D, generator=torch.Generator().manual_seed(0)) * 3 + 2


def test_m123_mean_zero_and_variance_one_before_scale_and_shift(x: Tensor) -> None:
    out = LayerNorm(D, elementwise_affine=False, bias=False)(x)
    torch.testing.assert_close(out.mean(-1), torch.zeros(2, 5), atol=1e-5, rtol=0)
    torch.testing.assert_close(out.var(-1, unbiased=False), torch.ones(2, 5), atol=1e-5, rtol=0)


@pytest.mark.parametrize("eps", [1e-5, 0.1])
def test_m123_layer_norm_equals_torchs(x: Tensor, eps: float) -> None:
    ours, theirs = LayerNorm(D, eps=eps), nn.LayerNorm(D, eps=eps)
    with torch.no_grad():
        ours.weight.copy_(theirs.weight.normal_())  # type: ignore[union-attr]
        ours.bias.copy_(theirs.bias.normal_())  # type: ignore[union-attr]
    torch.testing.assert_close(ours(x), theirs(x), atol=1e-6, rtol=0)


@pytest.mark.parametrize("eps", [1e-6, 0.1])
def test_rms_norm_equals_torchs_and_its_formula(x: Tensor, eps: float) -> None:
    ours, theirs = RMSNorm(D, eps=eps), nn.RMSNorm(D, eps=eps)
    with torch.no_grad():
        ours.weight.copy_(theirs.weight.normal_())  # type: ignore[union-attr]
    torch.testing.assert_close(ours(x), theirs(x), atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(ours.bfloat16()(x.bfloat16()), theirs.bfloat16()(x.bfloat16()), atol=0, rtol=0)
    ours, theirs = ours.float(), theirs.float()
    wide = x.double()
    formula = wide / (wide.square().mean(-1, keepdim=True) + eps).sqrt() * theirs.weight.double()
    torch.testing.assert_close(ours(x), formula.float(), atol=1e-5, rtol=0)


def test_the_gradient_of_rms_norm_equals_finite_differences(x: Tensor) -> None:
    wide = x.double().requires_grad_()
    assert torch.autograd.gradcheck(RMSNorm(D).double(), wide)
    assert torch.autograd.gradcheck(
        RMSNorm(D, elementwise_affine=False), wide.detach().mT.contiguous().mT.requires_grad_()
    )


def test_a_vector_of_zeros_stays_finite() -> None:
    x = torch.zeros(1, D, requires_grad=True)
    for norm in (LayerNorm(D), RMSNorm(D)):
        out = norm(x)
        assert (out == 0).all()
        (grad,) = torch.autograd.grad(out.sum(), x)
        assert grad.isfinite().all()


def test_make_norm_by_name() -> None:
    assert [name for name, _ in make_norm("layer", D).named_parameters()] == ["weight", "bias"]
    assert [name for name, _ in make_norm("layer", D, bias=False).named_parameters()] == ["weight"]
    assert [name for name, _ in make_norm("rms", D).named_parameters()] == ["weight"]
    with pytest.raises(UsageError) as caught:
        make_norm("layers", D)
    assert (caught.value.argument, caught.value.hint) == ("norm", "layer")
