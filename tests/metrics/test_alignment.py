"""Alignment error rate against numbers worked by hand and properties that always hold."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.metrics.alignment import alignment_error_rate, score_alignments
from regard.utils.errors import UsageError

links = st.frozensets(st.tuples(st.integers(0, 4), st.integers(0, 6)), max_size=11)


def test_by_hand_over_two_sentences() -> None:
    predicted = [{(0, 0), (1, 1), (2, 3)}, {(0, 1), (1, 0)}]
    sure = [{(0, 0), (1, 1)}, {(0, 1)}]
    possible = [{(2, 3)}, {(5, 5)}]
    # |A| = 5, |S| = 3, |A∩S| = 3, |A∩P| = 4 (sure links are possible).
    score = score_alignments(predicted, sure, possible)
    assert score.error_rate == pytest.approx(1 - 7 / 8)
    assert score.precision == pytest.approx(4 / 5)
    assert score.recall == pytest.approx(3 / 3)
    assert alignment_error_rate(predicted, sure) == pytest.approx(1 - 6 / 8)
    assert repr(score) == "AER 0.1250 (precision 0.8000, recall 1.0000)"


def test_nothing_predicted_and_nothing_sure() -> None:
    assert alignment_error_rate([set()], [set()]) == 0.0
    assert alignment_error_rate([set()], [{(0, 0)}]) == 1.0
    assert alignment_error_rate([{(0, 0)}], [set()]) == 1.0
    assert score_alignments([set()], [{(0, 0)}]).precision == 1.0
    assert score_alignments([{(0, 0)}], [set()]).recall == 1.0


@settings(deadline=None)
@given(st.lists(st.tuples(links, links, links), min_size=1, max_size=5))
def test_bounds_and_perfection(sentences: list[tuple[frozenset[tuple[int, int]], ...]]) -> None:
    predicted, sure, possible = ([row[place] for row in sentences] for place in range(3))
    assert 0.0 <= alignment_error_rate(predicted, sure, possible) <= 1.0
    assert alignment_error_rate(sure, sure, possible) == 0.0
    assert alignment_error_rate(predicted, sure, possible) <= alignment_error_rate(predicted, sure)
    # Where only sure links are possible it is 1 - F1.
    score = score_alignments(predicted, sure)
    if score.precision + score.recall > 0 and any(predicted) and any(sure):
        f1 = 2 * score.precision * score.recall / (score.precision + score.recall)
        assert score.error_rate == pytest.approx(1 - f1)


def test_wrong_requests_are_refused() -> None:
    with pytest.raises(UsageError, match="2 of predicted, 1 of sure"):
        alignment_error_rate([set(), set()], [set()])
    with pytest.raises(UsageError, match="3 of possible"):
        alignment_error_rate([set()], [set()], [set()] * 3)
    with pytest.raises(UsageError, match="no alignments"):
        alignment_error_rate([], [])
