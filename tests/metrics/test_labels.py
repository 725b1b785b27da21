"""Accuracy, F1, Matthews and the correlations: numbers worked out by hand, and scikit-learn's and SciPy's own."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.metrics.correlation import pearson, ranks, spearman
from regard.metrics.labels import accuracy, confusion, f1, label_counts, label_names, majority, matthews
from regard.utils.errors import UsageError

sklearn_metrics = pytest.importorskip("sklearn.metrics")
scipy_stats = pytest.importorskip("scipy.stats")

GOLD = ["spam", "ham", "ham", "spam", "ham", "ham", "spam"]
SAID = ["spam", "ham", "spam", "ham", "ham", "ham", "spam"]
two_lists = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd")), min_size=1, max_size=23)
label_sets = st.frozensets(st.sampled_from("abcd"), max_size=3)
set_lists = st.lists(st.tuples(label_sets, label_sets), min_size=1, max_size=17)


def test_by_hand() -> None:
    assert accuracy(SAID, GOLD).value == pytest.approx(100 * 5 / 7)
    # spam: 2 right, 3 given, 3 due; ham: 3 right, 4 given, 4 due.
    assert f1(SAID, GOLD, average="binary", positive="spam").value == pytest.approx(100 * 2 / 3)
    assert f1(SAID, GOLD, average="macro").value == pytest.approx(100 * (2 / 3 + 3 / 4) / 2)
    # 2·3 - 1·1 over the root of 3·3·4·4.
    assert matthews(SAID, GOLD).value == pytest.approx(100 * 5 / 12)
    assert majority(GOLD) == "ham"
    assert majority([("b",), (), ("a",), ()]) == ()
    assert majority(["b", "a"]) == "a", "ties by the alphabet"


@given(two_lists)
def test_single_labels_as_scikit_learn_counts(pairs: list[tuple[str, str]]) -> None:
    said, gold = [list(side) for side in zip(*pairs, strict=True)]
    assert accuracy(said, gold).value == pytest.approx(100 * sklearn_metrics.accuracy_score(gold, said))
    for average in ("macro", "micro"):
        wanted = sklearn_metrics.f1_score(gold, said, average=average, zero_division=0)
        assert f1(said, gold, average=average).value == pytest.approx(100 * wanted)
    wanted = sklearn_metrics.f1_score(gold, said, average=None, labels=["b"], zero_division=0)[0]
    assert f1(said, gold, average="binary", positive="b").value == pytest.approx(100 * wanted)
    if len({*said, *gold}) > 1:
        assert matthews(said, gold).value == pytest.approx(100 * sklearn_metrics.matthews_corrcoef(gold, said))
    table = confusion(said, gold)
    wanted = sklearn_metrics.confusion_matrix(gold, said, labels=list(table.labels))
    assert [list(row) for row in table.counts] == wanted.tolist()


@given(set_lists)
def test_several_labels_as_scikit_learn_counts(pairs: list[tuple[frozenset[str], frozenset[str]]]) -> None:
    said, gold = [list(side) for side in zip(*pairs, strict=True)]
    occurring = sorted(frozenset().union(*said, *gold))
    tables = [[[int(label in labels) for label in occurring] for labels in side] for side in (gold, said)]
    assert accuracy(said, gold).value == pytest.approx(100 * sum(a == b for a, b in pairs) / len(pairs))
    if len(occurring) < 2:  # scikit-learn takes one column for a single label
        return
    for average in ("macro", "micro"):
        wanted = sklearn_metrics.f1_score(*tables, average=average, zero_division=0)
        assert f1(said, gold, average=average).value == pytest.approx(100 * wanted)


@pytest.mark.parametrize("few", [True, False])
@given(numbers=st.lists(st.tuples(st.integers(-7, 7), st.floats(-1e3, 1e3)), min_size=2, max_size=29))
def test_correlations_as_scipy_counts(few: bool, numbers: list[tuple[int, float]]) -> None:
    said = [float(n) for n, _ in numbers]
    gold = [round(x / 500) if few else round(x, 3) for _, x in numbers]  # few different ones: many ties
    assert ranks(gold) == pytest.approx(scipy_stats.rankdata(gold))
    if len(set(said)) == 1 or len(set(gold)) == 1:
        assert pearson(said, gold).value == spearman(said, gold).value == 0
        return
    assert pearson(said, gold).value == pytest.approx(100 * scipy_stats.pearsonr(said, gold).statistic, abs=1e-7)
    assert spearman(said, gold).value == pytest.approx(100 * scipy_stats.spearmanr(said, gold).statistic, abs=1e-7)


def test_a_label_that_one_list_does_not_know() -> None:
    counts = label_counts(["a", "c"], ["a", "b"])
    assert {label: (c.right, c.given, c.actual) for label, c in counts.items()} == {
        "a": (1, 1, 1),
        "b": (0, 0, 1),
        "c": (0, 1, 0),
    }
    assert f1(["a"], ["b"], average="binary", positive="z").value == 0
    assert matthews(["a", "a"], ["a", "b"]).value == 0


def test_signatures_and_tables() -> None:
    assert repr(accuracy(SAID, GOLD)) == "accuracy 71.43 (n:7)"
    assert f1(SAID, GOLD, average="binary", positive="spam").signature == "average:binary|positive:spam|n:7"
    names = [f1(SAID, GOLD, average=how, positive="spam").name for how in ("macro", "micro", "binary")]  # type: ignore[arg-type]
    assert names == ["macro F1", "micro F1", "F1 of spam"]
    assert str(confusion(SAID, GOLD)).splitlines() == ["       ham  spam", " ham     3     1", "spam     1     2"]


def test_arrays_are_lists_of_answers_too() -> None:
    said, gold = np.array([0.0, 2.0, 1.0]), np.array([0.0, 3.0, 5.0])
    for metric in (pearson, spearman):
        assert metric(said, gold) == metric(said.tolist(), gold.tolist())
        assert metric(np.array([0.0]), np.array([0.0])).value == 0
        with pytest.raises(UsageError, match="no answers to score"):
            metric(np.array([]), np.array([]))
    assert accuracy(np.array(SAID), np.array(GOLD)) == accuracy(SAID, GOLD)  # type: ignore[arg-type]


def test_wrong_requests_are_refused() -> None:
    for metric in (accuracy, f1, matthews, confusion):
        with pytest.raises(UsageError, match="2 predicted and 1 gold"):
            metric(["a", "b"], ["a"])  # type: ignore[operator]
        with pytest.raises(UsageError, match="no answers to score"):
            metric([], [])  # type: ignore[operator]
        with pytest.raises(UsageError, match="predicted must be a list"):
            metric("a", ["a"])  # type: ignore[operator]
    with pytest.raises(UsageError, match=r"unknown average of F1 'makro'.*'macro'"):
        f1(["a"], ["a"], average="makro")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"give positive=…, one of ham, spam"):
        f1(SAID, GOLD, average="binary")
    with pytest.raises(UsageError, match="no majority among no labels"):
        majority([])
    with pytest.raises(UsageError, match="predicted number 2 is nan"):
        pearson([1.0, math.nan], [1.0, 2.0])
    with pytest.raises(UsageError, match="1 predicted and 2 gold"):
        spearman([1.0], [1.0, 2.0])


def test_order_of_labels() -> None:
    assert label_names(["10", "9", "10"]) == ("9", "10")
    assert label_names(["ham", "b", "10"]) == ("10", "b", "ham")
    assert confusion(["2", "10"], ["10", "2"]).labels == ("2", "10")
