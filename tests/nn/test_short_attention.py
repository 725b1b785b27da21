"""Attention over short sequences in training: values and gradients equal those of the formula in float64."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from regard.nn import masks
from regard.nn.attention import SHORT, ShortAttention, attention, attention_weights
from regard.nn.masks import AttentionMask

B, H, T, S, WIDTH, VALUES = 2, 3, 5, 7, 11, 13
MASKS: dict[str, Callable[[int], AttentionMask]] = {
    "all": lambda _: masks.no_mask(),
    "some": lambda _: masks.lengths(torch.tensor([5, 3])),
    "none": lambda _: masks.lengths(torch.tensor([0, 4])),
    "window": lambda keys: masks.window(2) if keys == T else masks.no_mask(),
    "causal": lambda keys: masks.causal() & masks.lengths(torch.tensor([keys, 3])),
}


def drawn(*shape: int, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed)).requires_grad_()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("queries", [1, T])
@pytest.mark.parametrize("keys", [T, S])
@pytest.mark.parametrize("kind", MASKS)
def test_values_and_gradients_equal_the_formula(kind: str, keys: int, queries: int, dtype: torch.dtype) -> None:
    q, k, v = (
        drawn(B, H, count, width, seed=seed, dtype=dtype)
        for seed, (count, width) in enumerate([(queries, WIDTH), (keys, WIDTH), (keys, VALUES)])
    )
    mask = MASKS[kind](keys)
    expected = attention_weights(q, k, mask) @ v
    actual = attention(q, k, v, mask, training=True)
    pull = drawn(B, H, queries, VALUES, seed=4, dtype=dtype).detach()
    gradients = [torch.autograd.grad(out, (q, k, v), pull) for out in (actual, expected)]
    torch.testing.assert_close(actual, expected)
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_gradients_equal_finite_differences() -> None:
    q, k, v = (drawn(1, 2, 3, 2, seed=seed) for seed in (5, 6, 7))
    allowed = masks.lengths(torch.tensor([2])).dense(3, 3, torch.device("cpu"))
    assert torch.autograd.gradcheck(lambda *x: ShortAttention.apply(*x, allowed, 0.7), (q, k, v))


def test_heads_may_be_views_of_one_product() -> None:
    """As in a model, where one matrix product gives q, k and v."""
    joint = drawn(B, T, 3 * H * WIDTH, seed=8)

    def heads(x: Tensor) -> tuple[Tensor, ...]:
        return x.view(B, T, -1, WIDTH).transpose(1, 2).split(H, dim=1)

    outs = [attention(*heads(joint), training=True), attention(*(x.contiguous() for x in heads(joint)), training=True)]
    ways = [torch.autograd.grad(out.square().sum(), joint)[0] for out in outs]
    assert torch.equal(outs[0], outs[1])
    torch.testing.assert_close(ways[0], ways[1])


def test_other_inputs_use_the_fused_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> Tensor:
        raise NotImplementedError

    monkeypatch.setattr(ShortAttention, "apply", refuse)
    q = drawn(B, H, T, WIDTH, seed=1)
    long = drawn(1, 1, SHORT + 1, WIDTH, seed=2)
    shared = drawn(B, 1, T, WIDTH, seed=3)
    cases: list[tuple[Tensor, Tensor, AttentionMask]] = [
        (long, long, masks.no_mask()),
        (q, shared, masks.no_mask()),
        (q, q, masks.causal()),
    ]
    for queries, keys, mask in cases:
        assert attention(queries, keys, keys, mask, training=True).shape == queries.shape
    attention(q, q, q)
    with pytest.raises(NotImplementedError):
        attention(q, q, q, training=True)
