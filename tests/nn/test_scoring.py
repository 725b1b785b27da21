"""The scorers of attention compared with hand computation, one pair of query and key at a time."""

from __future__ import annotations

import math

import pytest
import torch

from regard.nn.attention import Additive, General, ScaledDotProduct, attention_weights

B, H, T, S = 2, 3, 5, 7


def test_scaled_dot_by_hand() -> None:
    q = torch.tensor([[[[1.0, 2.0, 3.0, 4.0]]]])
    k = torch.tensor([[[[1.0, 1.0, 1.0, 1.0], [2.0, 0.0, 0.0, -1.0]]]])
    assert ScaledDotProduct()(q, k).flatten().tolist() == [5.0, -1.0]  # 10 / √4 and -2 / √4
    assert ScaledDotProduct(scale=1.0)(q, k).flatten().tolist() == [10.0, -2.0]


def test_additive_by_hand() -> None:
    """One number each: w · tanh(a q + b k) with w = 2, a = 0.5, b = -1."""
    scorer = Additive(1, 1, hidden_dim=1)
    with torch.no_grad():
        scorer.q_proj.weight.fill_(0.5)
        scorer.k_proj.weight.fill_(-1.0)
        scorer.v.weight.fill_(2.0)
    scores = scorer(torch.tensor([[[[3.0], [0.0]]]]), torch.tensor([[[[1.0], [-1.0]]]]))
    expected = [[2 * math.tanh(0.5), 2 * math.tanh(2.5)], [2 * math.tanh(-1.0), 2 * math.tanh(1.0)]]
    assert scores[0, 0].tolist() == [pytest.approx(row, abs=1e-6) for row in expected]


def test_additive_one_pair_at_a_time() -> None:
    torch.manual_seed(0)
    scorer = Additive(11, 13, hidden_dim=5).double()
    q, k = torch.randn(B, H, T, 11, dtype=torch.float64), torch.randn(B, H, S, 13, dtype=torch.float64)
    scores = scorer(q, k)
    assert scores.shape == (B, H, T, S)
    for b, h, t, s in [(0, 0, 0, 0), (1, 2, 4, 6), (0, 1, 3, 2)]:
        inner = torch.tanh(scorer.q_proj.weight @ q[b, h, t] + scorer.k_proj.weight @ k[b, h, s])
        torch.testing.assert_close(scores[b, h, t, s], scorer.v.weight[0] @ inner, atol=1e-12, rtol=0)


def test_general_one_pair_at_a_time() -> None:
    torch.manual_seed(1)
    scorer = General(11, 13).double()
    q, k = torch.randn(B, H, T, 11, dtype=torch.float64), torch.randn(B, H, S, 13, dtype=torch.float64)
    scores = scorer(q, k)
    assert scores.shape == (B, H, T, S)
    for b, h, t, s in [(0, 0, 0, 0), (1, 2, 4, 6), (0, 1, 3, 2)]:
        expected = q[b, h, t] @ scorer.k_proj.weight @ k[b, h, s]
        torch.testing.assert_close(scores[b, h, t, s], expected, atol=1e-12, rtol=0)


def test_luongs_concat_is_the_additive_scorer() -> None:
    torch.manual_seed(1)
    scorer = Additive(11, 13, hidden_dim=5).double()
    weight = torch.cat((scorer.q_proj.weight, scorer.k_proj.weight), dim=1)  # W of Luong et al.
    q, k = torch.randn(B, H, T, 11, dtype=torch.float64), torch.randn(B, H, S, 13, dtype=torch.float64)
    scores = scorer(q, k)
    assert scores.shape == (B, H, T, S)
    for b, h, t, s in [(0, 0, 0, 0), (1, 2, 4, 6), (0, 1, 3, 2)]:
        inner = torch.tanh(weight @ torch.cat((q[b, h, t], k[b, h, s])))
        torch.testing.assert_close(scores[b, h, t, s], scorer.v.weight[0] @ inner, atol=1e-12, rtol=0)


@pytest.mark.parametrize("scorer", [Additive(4, 6, hidden_dim=3), General(4, 6)])
def test_rows_of_weights_sum_to_one(scorer: Additive | General) -> None:
    torch.manual_seed(2)
    weights = attention_weights(torch.randn(B, H, T, 4), torch.randn(B, H, S, 6), scorer=scorer)
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, H, T), atol=1e-6, rtol=0)
