"""Training and validation splits: sizes, equal texts, and labels."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batches import hold_out, split_validation
from regard.utils.errors import DataError, UsageError


@settings(deadline=None)
@given(count=st.integers(2, 5003), fraction=st.floats(0.001, 0.999), maximum=st.integers(1, 307))
def test_split_is_a_partition(count: int, fraction: float, maximum: int) -> None:
    train, validation = split_validation(count, fraction=fraction, maximum=maximum, seed=3)
    assert sorted(train + validation) == list(range(count))
    assert train == sorted(train)
    assert validation == sorted(validation)
    assert 1 <= len(validation) <= maximum
    assert train
    assert (train, validation) == split_validation(count, fraction=fraction, maximum=maximum, seed=3)


def test_split_sizes_and_seeds() -> None:
    assert len(split_validation(1000)[1]) == 50
    assert len(split_validation(1_000_000)[1]) == 2000
    assert len(split_validation(2)[1]) == 1
    assert split_validation(1000, seed=1) != split_validation(1000, seed=2)
    for count in (0, 1):
        with pytest.raises(DataError) as too_few:
            split_validation(count)
        assert too_few.value.value == count
    for options, argument in (({"fraction": 1.0}, "val_fraction"), ({"maximum": 0}, "maximum"), ({"seed": -1}, "seed")):
        with pytest.raises(UsageError) as caught:
            split_validation(10, **options)  # type: ignore[arg-type]
        assert caught.value.argument == argument


@given(st.lists(st.sampled_from("abc"), min_size=2, max_size=200), st.floats(0.05, 0.9), st.integers(0, 5))
def test_every_kind_gives_its_share_to_validation(kinds: list[str], fraction: float, seed: int) -> None:
    train, validation = split_validation(len(kinds), fraction=fraction, seed=seed, kinds=kinds)
    assert sorted(train + validation) == list(range(len(kinds)))
    assert len(validation) == len(split_validation(len(kinds), fraction=fraction)[1])
    for kind in set(kinds):
        due = kinds.count(kind) * len(validation) / len(kinds)
        assert abs([kinds[index] for index in validation].count(kind) - due) < 1


@given(
    st.lists(st.tuples(st.integers(0, 9), st.frozensets(st.sampled_from("abcd"), max_size=2)), max_size=40),
    st.floats(0.05, 0.9),
)
def test_equal_texts_stay_together_and_every_label_is_learned(
    examples: list[tuple[int, frozenset[str]]], fraction: float
) -> None:
    keys, labels = [key for key, _ in examples], [sorted(found) for _, found in examples]
    bearers = {label: {key for key, found in examples if label in found} for label in "abcd"}
    alone = {key for bearing in bearers.values() if len(bearing) == 1 for key in bearing}
    if len(set(keys)) < 2 or not set(keys) - alone:
        with pytest.raises(DataError):
            hold_out(keys, labels, fraction=fraction)
        return
    for kinds in (None, [tuple(found) for found in labels]):
        train, validation = hold_out(keys, labels, fraction=fraction, kinds=kinds)
        assert sorted(train + validation) == list(range(len(keys)))
        assert train and validation
        assert not {keys[index] for index in train} & {keys[index] for index in validation}
        learned = {label for index in train for label in labels[index]}
        assert learned == {label for found in labels for label in found}


def test_without_equal_texts_and_lone_labels_the_draw_is_the_same() -> None:
    kinds = ["ab"[place % 7 == 0] for place in range(211)]
    labels = [(kind,) for kind in kinds]
    assert hold_out(range(211), labels, fraction=0.1, kinds=kinds) == split_validation(211, fraction=0.1, kinds=kinds)
    assert hold_out(range(211), labels, fraction=0.1) == split_validation(211, fraction=0.1)
