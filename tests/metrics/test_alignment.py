"""Alignment error rate: numbers computed by hand, and properties that always hold."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.metrics.alignment import alignment_error_rate
from regard.utils.errors import UsageError

links = st.frozensets(st.tuples(st.integers(0, 4), st.integers(0, 6)), max_size=11)


def test_by_hand_over_two_sentences() -> None:
    predicted = [{(0, 0), (1, 1), (2, 3)}, {(0, 1), (1, 0)}]
    sure = [{(0, 0), (1, 1)}, {(0, 1)}]
    possible = [{(2, 3)}, {(5, 5)}]
    # |A| = 5, |S| = 3, |A∩S| = 3, |A∩P| = 4 (sure links are possible).
    assert alignment_error_rate(predicted, sure, possible) == pytest.approx(1 - 7 / 8)
    assert alignment_error_rate(predicted, sure) == pytest.approx(1 - 6 / 8)


def test_nothing_predicted_and_nothing_sure() -> None:
    assert alignment_error_rate([set()], [set()]) == 0.0
    assert alignment_error_rate([set()], [{(0, 0)}]) == 1.0
    assert alignment_error_rate([{(0, 0)}], [set()]) == 1.0


@settings(deadline=None)
@given(st.lists(st.tuples(links, links, links), min_size=1, max_size=5))
def test_bounds_and_perfection(sentences: list[tuple[frozenset[tuple[int, int]], ...]]) -> None:
    predicted, sure, possible = ([row[place] for row in sentences] for place in range(3))
    assert 0.0 <= alignment_error_rate(predicted, sure, possible) <= 1.0
    assert alignment_error_rate(sure, sure, possible) == 0.0
    assert alignment_error_rate(predicted, sure, possible) <= alignment_error_rate(predicted, sure)
    # Without possible links it is 1 - F1.
    hits, num_predicted, num_sure = (
        sum(map(len, rows)) for rows in ([a & b for a, b in zip(predicted, sure, strict=True)], predicted, sure)
    )
    if hits:
        precision, recall = hits / num_predicted, hits / num_sure
        f1 = 2 * precision * recall / (precision + recall)
        assert alignment_error_rate(predicted, sure) == pytest.approx(1 - f1)


def test_invalid_arguments() -> None:
    for lists, value, allowed in (
        ([[set(), set()], [set()]], 2, (1,)),
        ([[set()], [set()], [set()] * 3], 1, (3,)),
        ([[], []], 0, None),
    ):
        with pytest.raises(UsageError) as caught:
            alignment_error_rate(*lists)
        assert (caught.value.argument, caught.value.value, caught.value.allowed) == ("predicted", value, allowed)
