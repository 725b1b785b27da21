"""The key-value cache: growth by doubling, and row selection as in beam search."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.nn.multihead import KVCache
from regard.utils.errors import UsageError


def chunks(sizes: list[int], *, batch: int = 2) -> list[tuple[torch.Tensor, torch.Tensor]]:
    random = torch.Generator().manual_seed(0)
    return [
        (torch.randn(batch, 3, size, 5, generator=random), torch.randn(batch, 3, size, 7, generator=random))
        for size in sizes
    ]


@given(st.lists(st.integers(1, 6), min_size=1, max_size=8))
def test_reading_returns_everything_appended(sizes: list[int]) -> None:
    cache, added = KVCache(), chunks(sizes)
    for i, (k, v) in enumerate(added):
        keys, values = cache.append(k, v)
        assert cache.length == sum(sizes[: i + 1])
        assert torch.equal(keys, torch.cat([k for k, _ in added[: i + 1]], dim=2))
        assert torch.equal(values, torch.cat([v for _, v in added[: i + 1]], dim=2))
    assert all(torch.equal(a, b) for a, b in zip(cache.read(), (keys, values), strict=True))


def test_capacity_grows_by_doubling() -> None:
    cache, capacities = KVCache(), []
    for k, v in chunks([1] * 33):
        keys, _ = cache.append(k, v)
        capacities.append(keys.untyped_storage().nbytes() // (2 * 3 * 5 * 4))
    assert sorted(set(capacities)) == [1, 2, 4, 8, 16, 32, 64]


@given(rows=st.lists(st.integers(0, 1), min_size=1, max_size=5), size=st.integers(1, 3))
def test_reorder_selects_rows_and_append_continues(rows: list[int], size: int) -> None:
    cache = KVCache()
    (k, v), (more_k, more_v) = chunks([3, size])
    cache.append(k, v)
    cache.reorder(torch.tensor(rows))
    assert all(torch.equal(a, b[rows]) for a, b in zip(cache.read(), (k, v), strict=True))
    keys, values = cache.append(more_k[rows], more_v[rows])
    assert torch.equal(keys, torch.cat((k, more_k), dim=2)[rows])
    assert torch.equal(values, torch.cat((v, more_v), dim=2)[rows])


def test_an_empty_cache_can_be_reordered_but_not_read() -> None:
    cache = KVCache()
    cache.reorder(torch.tensor([0, 0]))
    with pytest.raises(UsageError):
        cache.read()
