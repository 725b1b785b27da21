"""Attention over short rows: the same values and gradients as written out step by step, in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.nn import masks, short
from regard.nn.attention import attend, attention_weights
from regard.nn.masks import Keep

B, H, T, S, WIDTH = 3, 2, 5, 7, 4


def drawn(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()


@pytest.mark.parametrize("keys", [T, S])
@pytest.mark.parametrize("lengths", [None, (5, 1, 3), (4, 0, 5)], ids=["all", "some", "none"])
def test_values_and_gradients(keys: int, lengths: tuple[int, ...] | None) -> None:
    q, k, v = drawn(B, H, T, WIDTH, seed=1), drawn(B, H, keys, WIDTH, seed=2), drawn(B, H, keys, 3, seed=3)
    keep = masks.everything() if lengths is None else masks.lengths(torch.tensor(lengths))
    expected = attention_weights(q, k, keep) @ v
    assert short.is_short(q, k)
    found = attend(q, k, v, keep)
    pull = drawn(B, H, T, 3, seed=4).detach()
    ways = [torch.autograd.grad(out, (q, k, v), pull) for out in (found, expected)]
    torch.testing.assert_close(found, expected)
    for one, other in zip(*ways, strict=True):
        torch.testing.assert_close(one, other)


def test_gradients_are_those_of_small_steps() -> None:
    q, k, v = (drawn(1, 2, 3, 2, seed=seed) for seed in (5, 6, 7))
    kept = masks.lengths(torch.tensor([2])).dense(3, 3, torch.device("cpu"))
    assert torch.autograd.gradcheck(lambda *x: short.attend_shortly(*x, kept, 0.7), (q, k, v))


def test_rows_come_as_they_lie_in_memory() -> None:
    """Heads that are views of one product, as a model has them."""
    joint = drawn(B, T, 3 * H * WIDTH, seed=8)

    def heads(x: Tensor) -> tuple[Tensor, ...]:
        return x.view(B, T, -1, WIDTH).transpose(1, 2).split(H, dim=1)

    outs = [attend(*heads(joint)), attend(*(x.contiguous() for x in heads(joint)))]
    ways = [torch.autograd.grad(out.square().sum(), joint)[0] for out in outs]
    assert torch.equal(outs[0], outs[1])
    torch.testing.assert_close(ways[0], ways[1])


def test_the_fused_kernel_serves_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> Tensor:
        raise AssertionError("not for these")

    monkeypatch.setattr("regard.nn.attention.attend_shortly", refuse)
    q = drawn(B, H, T, WIDTH, seed=1)
    long = drawn(1, 1, short.LONGEST + 1, WIDTH, seed=2)
    shared = drawn(B, 1, T, WIDTH, seed=3)
    cases: list[tuple[Tensor, Tensor, Keep]] = [
        (q.detach(), q.detach(), masks.everything()),
        (long, long, masks.everything()),
        (q, shared, masks.everything()),
        (q, q, masks.causal()),
    ]
    for queries, keys, keep in cases:
        assert attend(queries, keys, keys, keep).shape == queries.shape
    with torch.no_grad():
        attend(q, q, q)
    with pytest.raises(AssertionError, match="not for these"):
        attend(q, q, q)
