"""Batches by tokens: what must hold for any lengths, and how little is padded."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batches import BatchPlan, hold_out, row_batches, split_validation, token_batches
from regard.errors import DataError, UsageError

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
def test_ranks_get_as_many_batches_and_together_all(lengths: Lengths, world_size: int) -> None:
    plans = [BatchPlan(max_tokens=101, world_size=world_size, rank=rank) for rank in range(world_size)]
    shares = [plan.batches(lengths, 2) for plan in plans]
    assert len({len(share) for share in shares}) == 1
    whole = token_batches(lengths, max_tokens=101, seed=0, epoch=2)
    given_out = [batch for turn in zip(*shares, strict=True) for batch in turn]
    assert given_out[: len(whole)] == whole
    # What is given out twice are the first batches again, and fewer than one round.
    again = given_out[len(whole) :]
    assert len(again) < world_size
    assert all(batch in whole for batch in again)


def test_epochs_and_seeds_differ() -> None:
    lengths = _natural(997)
    found = {
        tuple(map(tuple, token_batches(lengths, max_tokens=1009, seed=seed, epoch=epoch)))
        for seed in range(3)
        for epoch in range(3)
    }
    assert len(found) == 9
    first, second = (
        {frozenset(batch) for batch in token_batches(lengths, max_tokens=1009, seed=0, epoch=epoch)} for epoch in (0, 1)
    )
    # Not only the order of batches changes but who is together in one.
    assert len(first & second) < len(first) / 4


def test_without_shuffling_batches_go_from_short_to_long() -> None:
    lengths = [9, 2, 5, 2, 7]
    batches = token_batches(lengths, max_tokens=10, seed=0, epoch=0, shuffle=False)
    assert batches == [[1, 3], [2], [4], [0]]
    assert batches == token_batches(lengths, max_tokens=10, seed=3, epoch=8, shuffle=False)


@pytest.mark.parametrize("max_tokens", [1024, 4096])
def test_little_is_padded_on_natural_lengths(max_tokens: int) -> None:
    lengths = _natural(29_009)
    batches = token_batches(lengths, max_tokens=max_tokens, seed=0, epoch=0)
    assert padding_share(lengths, batches) < 0.10
    sides = [source for source, _ in lengths]
    assert padding_share(sides, token_batches(sides, max_tokens=max_tokens, seed=0, epoch=0)) < 0.10
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
    batches = token_batches([(50, 50), (2, 3), (3, 2)], max_tokens=12, seed=0, epoch=0, shuffle=False)
    assert sorted(map(sorted, batches)) == [[0], [1, 2]]


def test_wrong_requests_are_refused() -> None:
    plan = {"max_tokens": 10, "seed": 0, "epoch": 0}
    for name, value, message in [
        ("max_tokens", 0, "max_tokens is 0"),
        ("pool_batches", 0, "pool_batches is 0"),
        ("world_size", 0, "world_size is 0"),
        ("rank", 1, "rank is 1; with world_size 1"),
        ("seed", -1, "seed is -1"),
        ("epoch", -1, "epoch is -1"),
    ]:
        with pytest.raises(UsageError, match=message):
            token_batches([1, 2], **{**plan, name: value})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"length 1 is .* negative"):
        token_batches([3, -2], max_tokens=10, seed=0, epoch=0)
    for wrong in ([(1, 2, 3)], [(1, 2), (3,)], ["ab"]):
        with pytest.raises(UsageError, match="lengths must be numbers, or pairs"):
            token_batches(wrong, max_tokens=10, seed=0, epoch=0)  # type: ignore[arg-type]


@settings(deadline=None)
@given(count=st.integers(2, 5003), share=st.floats(0.001, 0.999), maximum=st.integers(1, 307))
def test_split_is_a_partition(count: int, share: float, maximum: int) -> None:
    train, validation = split_validation(count, share=share, maximum=maximum, seed=3)
    assert sorted(train + validation) == list(range(count))
    assert train == sorted(train)
    assert validation == sorted(validation)
    assert 1 <= len(validation) <= maximum
    assert train
    assert (train, validation) == split_validation(count, share=share, maximum=maximum, seed=3)


def test_split_sizes_and_seeds() -> None:
    assert len(split_validation(1000)[1]) == 50
    assert len(split_validation(1_000_000)[1]) == 2000
    assert len(split_validation(2)[1]) == 1
    assert split_validation(1000, seed=1) != split_validation(1000, seed=2)
    for count in (0, 1):
        with pytest.raises(DataError, match=f"{count} example.* at least 2 are needed"):
            split_validation(count)
    with pytest.raises(UsageError, match=r"share is 1\.0"):
        split_validation(10, share=1.0)
    with pytest.raises(UsageError, match="maximum is 0"):
        split_validation(10, maximum=0)
    with pytest.raises(UsageError, match="seed is -1"):
        split_validation(10, seed=-1)


@given(st.lists(st.sampled_from("abc"), min_size=2, max_size=200), st.floats(0.05, 0.9), st.integers(0, 5))
def test_every_kind_gives_its_share_to_validation(kinds: list[str], share: float, seed: int) -> None:
    train, validation = split_validation(len(kinds), share=share, seed=seed, kinds=kinds)
    assert sorted(train + validation) == list(range(len(kinds)))
    assert len(validation) == len(split_validation(len(kinds), share=share)[1])
    for kind in set(kinds):
        due = kinds.count(kind) * len(validation) / len(kinds)
        assert abs([kinds[index] for index in validation].count(kind) - due) < 1


@given(
    st.lists(st.tuples(st.integers(0, 9), st.frozensets(st.sampled_from("abcd"), max_size=2)), max_size=40),
    st.floats(0.05, 0.9),
)
def test_equal_texts_stay_together_and_every_label_is_learned(
    examples: list[tuple[int, frozenset[str]]], share: float
) -> None:
    keys, labels = [key for key, _ in examples], [sorted(found) for _, found in examples]
    bearers = {label: {key for key, found in examples if label in found} for label in "abcd"}
    alone = {key for bearing in bearers.values() if len(bearing) == 1 for key in bearing}
    if len(set(keys)) < 2 or not set(keys) - alone:
        with pytest.raises(DataError, match=r"none of \d+ examples can be held out .* a validation file"):
            hold_out(keys, labels, share=share)
        return
    for kinds in (None, [tuple(found) for found in labels]):
        train, validation = hold_out(keys, labels, share=share, kinds=kinds)
        assert sorted(train + validation) == list(range(len(keys)))
        assert train and validation
        assert not {keys[index] for index in train} & {keys[index] for index in validation}
        learned = {label for index in train for label in labels[index]}
        assert learned == {label for found in labels for label in found}


def test_without_equal_texts_and_lone_labels_the_draw_is_the_same() -> None:
    kinds = ["ab"[place % 7 == 0] for place in range(211)]
    labels = [(kind,) for kind in kinds]
    assert hold_out(range(211), labels, share=0.1, kinds=kinds) == split_validation(211, share=0.1, kinds=kinds)
    assert hold_out(range(211), labels, share=0.1) == split_validation(211, share=0.1)


def test_batches_of_so_many_rows() -> None:
    lengths = [(7 * place) % 31 + 1 for place in range(101)]
    batches = row_batches(lengths, rows=8, seed=0, epoch=0, pool_batches=5)
    assert sorted(place for batch in batches for place in batch) == list(range(101))
    assert sorted(map(len, batches)) == [5, *[8] * 12]
    assert batches == row_batches(lengths, rows=8, seed=0, epoch=0, pool_batches=5)
    assert batches != row_batches(lengths, rows=8, seed=0, epoch=1, pool_batches=5)
    spread = [max(lengths[i] for i in batch) - min(lengths[i] for i in batch) for batch in batches]
    assert max(spread) < 20, "rows of a batch are of like length"
    shares = [row_batches(lengths, rows=8, seed=0, epoch=0, rank=rank, world_size=2) for rank in (0, 1)]
    assert len(shares[0]) == len(shares[1])
    with pytest.raises(UsageError):
        row_batches(lengths, rows=0, seed=0, epoch=0)
