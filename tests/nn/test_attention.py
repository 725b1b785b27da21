"""`attention_weights` and `attention` compared with torch's own kernel and with the equation in float64."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.nn import masks
from regard.nn.attention import Additive, General, ScaledDotProduct, Scorer, attention, attention_weights
from regard.nn.masks import AttentionMask
from regard.utils.errors import UsageError

B, H, T, S, DH = 2, 3, 5, 7, 11


def tensors(*, keys: int = S, key_heads: int = H, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    q = torch.randn(B, H, T, DH, dtype=dtype)
    k = torch.randn(B, key_heads, keys, DH, dtype=dtype)
    v = torch.randn(B, key_heads, keys, DH, dtype=dtype)
    return q, k, v


def weights_by_hand(q: Tensor, k: Tensor, allowed: Tensor) -> Tensor:
    """exp(s) / Σ exp(s) over the allowed keys, in float64, without softmax, masks of -inf or matrix products."""
    scores = torch.einsum("bhtd,bhsd->bhts", q.double(), k.double()) / math.sqrt(q.shape[-1])
    raised = scores.exp() * allowed
    total = raised.sum(dim=-1, keepdim=True)
    return torch.where(total > 0, raised / total.clamp(min=1e-300), 0.0)


def test_m79_each_row_of_weights_sums_to_one() -> None:
    q, k, _ = tensors()
    weights = attention_weights(q * 5, k)
    assert weights.min() >= 0 and weights.max() <= 1
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(B, H, T), atol=1e-6, rtol=0)


def test_m80_attention_equals_torchs_scaled_dot_product_attention() -> None:
    q, k, v = tensors()
    expected = F.scaled_dot_product_attention(q, k, v)
    torch.testing.assert_close(attention(q, k, v), expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(attention_weights(q, k) @ v, expected, atol=1e-5, rtol=0)


def test_m80_attention_equals_the_equation_in_float64() -> None:
    q, k, v = tensors(dtype=torch.float64)
    expected = torch.einsum("bhts,bhsd->bhtd", weights_by_hand(q, k, torch.ones(T, S)), v)
    torch.testing.assert_close(attention(q, k, v), expected, atol=1e-12, rtol=0)


def test_m81_scores_are_divided_by_the_square_root_of_head_dim() -> None:
    """One lecture prints exp(q·k) / Σ exp(q·k) and leaves out 1/√d_k. By hand: q = (2, 0), k = (1, 0) and (0, 1)."""
    q = torch.tensor([[[[2.0, 0.0]]]])
    k = torch.tensor([[[[1.0, 0.0], [0.0, 1.0]]]])
    scaled = math.exp(2 / math.sqrt(2)) / (math.exp(2 / math.sqrt(2)) + 1)  # 0.8044
    as_printed = math.exp(2) / (math.exp(2) + 1)  # 0.8808
    assert attention_weights(q, k)[0, 0, 0, 0].item() == pytest.approx(scaled, abs=1e-6)
    unscaled = attention_weights(q, k, scorer=ScaledDotProduct(scale=1.0))
    assert unscaled[0, 0, 0, 0].item() == pytest.approx(as_printed, abs=1e-6)


def test_m89_keys_and_values_must_have_the_same_number_of_rows() -> None:
    q, k, v = tensors()
    with pytest.raises(UsageError) as caught:
        attention(q, k, v[:, :, :-1])
    assert (caught.value.argument, caught.value.value) == ("v", ((2, 3, 7, 11), (2, 3, 6, 11)))


def test_m90_softmax_is_applied_to_each_row_separately() -> None:
    q, k, _ = tensors()
    weights = attention_weights(q, k)
    for t in range(T):
        alone = attention_weights(q[:, :, t : t + 1], k)
        torch.testing.assert_close(weights[:, :, t : t + 1], alone, atol=1e-6, rtol=0)
    columns = weights.sum(dim=-2)
    assert (columns - T / S).abs().max() > 0.1, "columns are free: nothing makes them equal"


def mask_with_an_empty_row() -> Tensor:
    torch.manual_seed(1)
    mask = torch.rand(B, 1, T, S) > 0.4
    mask[1, 0, 2] = False
    return mask


@pytest.mark.parametrize("scorer", [ScaledDotProduct(), Additive(DH, DH, hidden_dim=5), General(DH, DH)])
def test_m92_masked_weights_and_fully_masked_rows_are_exactly_zero(scorer: Scorer) -> None:
    q, k, _ = tensors()
    mask = mask_with_an_empty_row()
    weights = attention_weights(q, k, masks.dense(mask), scorer=scorer)
    assert (weights[~mask.expand_as(weights)] == 0.0).all()
    assert (weights[1, :, 2] == 0.0).all()
    full = mask.any(dim=-1).expand(B, H, T)
    torch.testing.assert_close(weights.sum(dim=-1), full.float(), atol=1e-6, rtol=0)


def test_m92_masked_weights_equal_the_equation_in_float64() -> None:
    q, k, v = tensors(dtype=torch.float64)
    mask = mask_with_an_empty_row()
    expected = weights_by_hand(q, k, mask)
    torch.testing.assert_close(attention_weights(q, k, masks.dense(mask)), expected, atol=1e-12, rtol=0)
    torch.testing.assert_close(attention(q, k, v, masks.dense(mask)), expected @ v, atol=1e-12, rtol=0)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scorer", [None, "additive"])
def test_m92_a_fully_masked_row_gives_zeros_and_finite_gradients(
    dropout: float, dtype: torch.dtype, scorer: str | None
) -> None:
    q, k, v = (x.requires_grad_() for x in tensors(dtype=dtype))
    how = Additive(DH, DH, hidden_dim=5).to(dtype) if scorer else None
    out = attention(q, k, v, masks.dense(mask_with_an_empty_row()), scorer=how, dropout=dropout)
    assert (out[1, :, 2] == 0.0).all()
    out.square().sum().backward()
    for x in (q, k, v):
        assert x.grad is not None and x.grad.isfinite().all()
    assert q.grad is not None and (q.grad[1, :, 2] == 0.0).all()


def test_m92_weights_of_a_fully_masked_row_have_finite_gradients() -> None:
    q, k, _ = (x.requires_grad_() for x in tensors())
    attention_weights(q, k, masks.dense(mask_with_an_empty_row())).square().sum().backward()
    assert q.grad is not None and q.grad.isfinite().all()
    assert k.grad is not None and k.grad.isfinite().all()


@pytest.mark.parametrize("queries", [1, 3, S])
def test_m94_causal_queries_are_the_last_positions_of_the_keys(queries: int) -> None:
    """With T queries and S keys, query t has position S - T + t, as in a decoder with a cache."""
    torch.manual_seed(2)
    q, (_, k, v) = torch.randn(B, H, S, DH), tensors()
    kept = torch.ones(S, S).tril().bool()
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=kept)[:, :, S - queries :]
    last = q[:, :, S - queries :]
    torch.testing.assert_close(attention(last, k, v, masks.causal()), expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(attention_weights(last, k, masks.causal()) @ v, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("key_heads", [1, 3])
@pytest.mark.parametrize("mask", [masks.no_mask(), masks.window(3), masks.causal()])
def test_shared_key_value_heads_equal_repeated_ones(key_heads: int, mask: AttentionMask) -> None:
    torch.manual_seed(3)
    q = torch.randn(B, 6, S, DH)
    k, v = torch.randn(B, key_heads, S, DH), torch.randn(B, key_heads, S, DH)
    repeated = [x.repeat_interleave(6 // key_heads, dim=1) for x in (k, v)]
    expected = attention(q, *repeated, mask)
    torch.testing.assert_close(attention(q, k, v, mask), expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(attention_weights(q, k, mask), attention_weights(q, repeated[0], mask))


def test_a_scorer_without_a_fused_kernel_gives_weights_times_values() -> None:
    q, k, v = tensors(dtype=torch.float64)
    scorer = General(DH, DH).double()
    mask = masks.lengths(torch.tensor([S, 4]))
    scores = torch.einsum("bhtd,de,bhse->bhts", q, scorer.k_proj.weight, k)
    scores[1, :, :, 4:] = -torch.inf
    torch.testing.assert_close(attention(q, k, v, mask, scorer=scorer), scores.softmax(-1) @ v, atol=1e-12, rtol=0)


@pytest.mark.parametrize("scorer", [None, General(DH, DH)])
@pytest.mark.parametrize("mask", [masks.no_mask(), masks.causal(), masks.lengths(torch.tensor([S, 4]))])
def test_dropout_of_weights_keeps_the_expectation(mask: AttentionMask, scorer: Scorer | None) -> None:
    torch.manual_seed(4)
    q, k, v = (torch.randn(B, H, S, DH) for _ in range(3))
    with torch.no_grad():
        found = torch.stack([attention(q, k, v, mask, scorer=scorer, dropout=0.25) for _ in range(1000)])
        plain = attention(q, k, v, mask, scorer=scorer)
    assert not torch.equal(found[0], found[1])
    spread = found.std(dim=0) / 1000**0.5
    assert ((found.mean(dim=0) - plain).abs() <= 6 * spread + 1e-6).all()
