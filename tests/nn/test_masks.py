"""Masks: every combination with `&`, compared with a loop over all positions."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.nn import masks
from regard.nn.attention import attention
from regard.nn.masks import AttentionMask
from regard.utils.errors import UsageError

B, H = 2, 3


def parts(queries: int, keys: int, *, size: int, real: tuple[int, int], seed: int) -> dict[str, AttentionMask]:
    allowed = torch.rand(B, H, queries, keys, generator=torch.Generator().manual_seed(seed)) > 0.3
    return {
        "causal": masks.causal(),
        "lengths": masks.lengths(torch.tensor(real)),
        "window": masks.window(size),
        "dense": masks.dense(allowed),
        "no mask": masks.no_mask(),
    }


def brute_force(
    names: tuple[str, ...], queries: int, keys: int, *, size: int, real: tuple[int, int], allowed: Tensor
) -> Tensor:
    """The dense mask, one element at a time."""
    out = torch.zeros(B, H, queries, keys, dtype=torch.bool)
    for b, h, t, s in itertools.product(range(B), range(H), range(queries), range(keys)):
        position = keys - queries + t
        visible = True
        if "causal" in names and s > position:
            visible = False
        if "window" in names and abs(s - position) >= size:
            visible = False
        if "lengths" in names and s >= real[b]:
            visible = False
        if "dense" in names and not allowed[b, h, t, s]:
            visible = False
        out[b, h, t, s] = visible
    return out


@settings(max_examples=40)
@given(
    queries=st.integers(1, 5),
    extra=st.integers(0, 3),
    size=st.integers(1, 4),
    real=st.tuples(st.integers(0, 8), st.integers(0, 8)),
    seed=st.integers(0, 3),
)
def test_m92_every_combination_equals_a_loop_over_positions(
    queries: int, extra: int, size: int, real: tuple[int, int], seed: int
) -> None:
    keys = queries + extra
    all_parts = parts(queries, keys, size=size, real=real, seed=seed)
    allowed = all_parts["dense"].allowed
    assert allowed is not None
    for count in range(len(all_parts) + 1):
        for names in itertools.combinations(all_parts, count):
            mask = masks.no_mask()
            for name in names:
                mask = mask & all_parts[name]
            expected = brute_force(names, queries, keys, size=size, real=real, allowed=allowed)
            assert torch.equal(mask.dense(queries, keys).expand(B, H, queries, keys), expected)
            assert torch.equal(mask.materialize(queries, keys).dense(queries, keys).expand_as(expected), expected)


@given(seed=st.integers(0, 20))
def test_two_masks_of_one_kind_combine_to_the_stricter_one(seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    real = torch.randint(0, 6, (2, B), generator=random)
    size = torch.randint(1, 6, (2,), generator=random).tolist()
    allowed = torch.rand(2, 5, 5, generator=random) > 0.4
    for make, values in ((masks.lengths, real), (masks.window, size), (masks.dense, allowed)):
        one, two = (make(value) for value in values)  # type: ignore[operator]
        assert torch.equal((one & two).dense(5, 5), one.dense(5, 5) & two.dense(5, 5))
        assert torch.equal((one & two).dense(5, 5), (two & one).dense(5, 5))


def test_m93_attention_with_lengths_equals_attention_without_the_padding() -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(B, H, 5, 7), torch.randn(B, H, 11, 7), torch.randn(B, H, 11, 7)
    real = [3, 11]
    padded = attention(q, k, v, masks.lengths(torch.tensor(real)))
    for row, count in enumerate(real):
        alone = attention(q[row : row + 1], k[row : row + 1, :, :count], v[row : row + 1, :, :count])
        torch.testing.assert_close(padded[row : row + 1], alone, atol=1e-5, rtol=0)


def test_causal_and_empty_masks_stay_symbolic() -> None:
    assert masks.no_mask().is_unmasked
    assert not masks.no_mask().is_only_causal
    assert masks.causal().is_only_causal
    assert (masks.causal() & masks.no_mask()).is_only_causal
    assert masks.causal().materialize(5, 5).allowed is None
    assert masks.no_mask().materialize(5, 5).allowed is None
    for other in (masks.window(2), masks.lengths(torch.tensor([1])), masks.dense(torch.ones(5, 5).bool())):
        both = masks.causal() & other
        assert not both.is_only_causal and not both.is_unmasked and not other.is_unmasked


def test_a_mask_of_lengths_grows_with_the_keys_only() -> None:
    assert masks.lengths(torch.tensor([2, 3])).materialize(1000, 7).dense(1000, 7).shape == (2, 1, 1, 7)


@pytest.mark.parametrize("rows", [[1], [1, 0], [0, 0, 1]])
def test_select_returns_rows_in_the_given_order(rows: list[int]) -> None:
    mask = masks.lengths(torch.tensor([2, 4])) & masks.dense(torch.rand(B, 1, 5, 5) > 0.3) & masks.causal()
    selected = mask.select(torch.tensor(rows))
    assert torch.equal(selected.dense(5, 5), mask.dense(5, 5)[rows])


def test_select_keeps_what_all_rows_share() -> None:
    shared = masks.lengths(torch.tensor([2])) & masks.dense(torch.rand(1, 1, 5, 5) > 0.3)
    assert torch.equal(shared.select(torch.tensor([2, 1])).dense(5, 5), shared.dense(5, 5))


def test_select_heads_touches_explicit_masks_only() -> None:
    mask = masks.dense(torch.rand(H, 5, 5) > 0.3) & masks.causal()
    assert torch.equal(mask.select_heads(torch.tensor([2, 0])).dense(5, 5), mask.dense(5, 5)[:, [2, 0]])
    assert masks.causal().select_heads(torch.tensor([1])).is_only_causal


@pytest.mark.parametrize(
    ("make", "argument", "value"),
    [
        (lambda: masks.lengths(torch.ones(2, 3)), "lengths", (2, 3)),
        (lambda: masks.starts(torch.ones(2, 3)), "starts", (2, 3)),
        (lambda: masks.padding(torch.ones(2)), "attention_mask", (2,)),
        (lambda: masks.window(0), "size", 0),
        (lambda: masks.dense(torch.ones(2, 2)), "allowed", torch.float32),
    ],
)
def test_wrong_arguments_of_masks(make: Callable[[], object], argument: str, value: object) -> None:
    with pytest.raises(UsageError) as caught:
        make()
    assert (caught.value.argument, caught.value.value) == (argument, value)
