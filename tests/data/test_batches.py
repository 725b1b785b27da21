"""Batches by tokens: what must hold for any lengths, and how little is padded."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batches import BatchPlan
from regard.utils.errors import UsageError

Lengths = list[int] | list[tuple[int, int]]
numbers = st.lists(st.integers(0, 53), max_size=101)
pairs = st.lists(st.tuples(st.integers(0, 53), st.integers(0, 53)), max_size=101)


def _cost(lengths: Lengths, batch: list[int]) -> int:
    rows = [length if isinstance(length, tuple) else (length,) for length in (lengths[i] for i in batch)]
    return len(rows) * sum(max(column) for column in zip(*rows, strict=True))


def padding_share(lengths: Lengths, batches: list[list[int]]) -> float:
    """The share of the padded size of all batches that is padding, from 0 to 1."""
    padded = sum(_cost(lengths, batch) for batch in batches)
    filled = sum(
        sum(one) if isinstance(one, tuple) else one for one in (lengths[i] for batch in batches for i in batch)
    )
    return 1.0 - filled / padded if padded else 0.0


def _natural(count: int) -> list[tuple[int, int]]:
    """Lengths as of sentences and their translations: log-normal, the two sides alike."""
    draw = random.Random(5)
    sources = [max(3, min(60, round(draw.lognormvariate(2.6, 0.35)))) for _ in range(count)]
    return [(source, max(3, round(source * draw.gauss(1.1, 0.15)))) for source in sources]


@settings(deadline=None)
@given(
    lengths=numbers | pairs,
    max_tokens=st.integers(1, 307),
    seed=st.integers(0, 5),
    epoch=st.integers(0, 5),
    shuffle=st.booleans(),
    pool_batches=st.integers(1, 3),
)
def test_every_index_once_and_no_batch_over_the_limit(
    lengths: Lengths, max_tokens: int, seed: int, epoch: int, shuffle: bool, pool_batches: int
) -> None:
    plan = BatchPlan(max_tokens=max_tokens, seed=seed, shuffle=shuffle, pool_batches=pool_batches)
    batches = plan.batches(lengths, epoch)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    assert all(batch for batch in batches)
    assert all(len(batch) == 1 or _cost(lengths, batch) <= max_tokens for batch in batches)
    assert batches == plan.batches(lengths, epoch)
    assert 0.0 <= padding_share(lengths, batches) < 1.0


@settings(deadline=None)
@given(lengths=pairs.filter(bool), world_size=st.integers(1, 7))
def test_ranks_get_equally_many_batches_and_together_all(lengths: Lengths, world_size: int) -> None:
    plans = [BatchPlan(max_tokens=101, world_size=world_size, rank=rank) for rank in range(world_size)]
    shares = [plan.batches(lengths, 2) for plan in plans]
    assert len({len(share) for share in shares}) == 1
    whole = BatchPlan(max_tokens=101).batches(lengths, 2)
    given_out = [batch for turn in zip(*shares, strict=True) for batch in turn]
    assert given_out[: len(whole)] == whole
    # What is given out twice are the first batches again, and fewer than one round.
    again = given_out[len(whole) :]
    assert len(again) < world_size
    assert all(batch in whole for batch in again)


def test_epochs_and_seeds_differ() -> None:
    lengths = _natural(997)
    found = {
        tuple(map(tuple, BatchPlan(max_tokens=1009, seed=seed).batches(lengths, epoch)))
        for seed in range(3)
        for epoch in range(3)
    }
    assert len(found) == 9
    first, second = (
        {frozenset(batch) for batch in BatchPlan(max_tokens=1009).batches(lengths, epoch)} for epoch in (0, 1)
    )
    # Not only the order of batches changes but who is together in one.
    assert len(first & second) < len(first) / 4


def test_without_shuffling_batches_are_sorted_by_length() -> None:
    lengths = [9, 2, 5, 2, 7]
    batches = BatchPlan(max_tokens=10, shuffle=False).batches(lengths, 0)
    assert batches == [[1, 3], [2], [4], [0]]
    assert batches == BatchPlan(max_tokens=10, seed=3, shuffle=False).batches(lengths, 8)


@pytest.mark.parametrize("max_tokens", [1024, 4096])
def test_little_is_padded_on_natural_lengths(max_tokens: int) -> None:
    lengths = _natural(29_009)
    batches = BatchPlan(max_tokens=max_tokens).batches(lengths, 0)
    assert padding_share(lengths, batches) < 0.10
    sides = [source for source, _ in lengths]
    assert padding_share(sides, BatchPlan(max_tokens=max_tokens).batches(sides, 0)) < 0.10
    # Batches in the order of the file would be padded several times as much.
    rows = max_tokens // 60
    unsorted = [list(range(start, min(start + rows, 29_009))) for start in range(0, 29_009, rows)]
    assert padding_share(lengths, unsorted) > 0.3


def test_padding_share_by_hand() -> None:
    # 2 rows × (4 + 5) = 18 places for 3 + 5 + 4 + 2 = 14 tokens, then 1 row full.
    assert padding_share([(3, 5), (4, 2), (1, 1)], [[0, 1], [2]]) == pytest.approx(4 / 20)
    assert padding_share([3, 1], [[0, 1]]) == pytest.approx(2 / 6)
    assert padding_share([], []) == 0.0


def test_a_row_over_the_limit_is_a_batch_of_its_own() -> None:
    batches = BatchPlan(max_tokens=12, shuffle=False).batches([(50, 50), (2, 3), (3, 2)], 0)
    assert sorted(map(sorted, batches)) == [[0], [1, 2]]


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_tokens", 0), ("pool_batches", 0), ("world_size", 0), ("rank", 1), ("rank", -1), ("seed", -1)],
)
def test_wrong_plans(name: str, value: int) -> None:
    with pytest.raises(UsageError) as caught:
        BatchPlan(**{"max_tokens": 10, name: value})  # type: ignore[arg-type]
    assert (caught.value.argument, caught.value.value) == (name, value)


@pytest.mark.parametrize("lengths", [[3, -2], [(1, 2, 3)], [(1, 2), (3,)], ["ab"]])
def test_wrong_lengths(lengths: list[int]) -> None:
    with pytest.raises(UsageError) as caught:
        BatchPlan(max_tokens=10).batches(lengths, 0)
    assert caught.value.argument == "lengths"
    with pytest.raises(UsageError):
        BatchPlan(max_tokens=10).batches([1], -1)


def test_batches_of_a_fixed_number_of_rows() -> None:
    lengths = [(7 * place) % 31 + 1 for place in range(1001)]
    plan = BatchPlan(max_tokens=1)
    batches = plan.row_batches(lengths, 8, 0)
    assert sorted(place for batch in batches for place in batch) == list(range(1001))
    assert sorted(map(len, batches)) == [1, *[8] * 125]
    assert batches == plan.row_batches(lengths, 8, 0)
    assert batches != plan.row_batches(lengths, 8, 1)
    spread = [max(lengths[i] for i in batch) - min(lengths[i] for i in batch) for batch in batches]
    assert max(spread) < 3, "rows of a batch have similar lengths"
    shares = [BatchPlan(max_tokens=1, rank=rank, world_size=2).row_batches(lengths, 8, 0) for rank in (0, 1)]
    assert len(shares[0]) == len(shares[1])
    with pytest.raises(UsageError):
        plan.row_batches(lengths, 0, 0)
