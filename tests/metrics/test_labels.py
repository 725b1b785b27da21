"""Accuracy, F1, Matthews and the correlations: numbers computed by hand, and those of scikit-learn and SciPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.metrics.labels import (
    accuracy,
    confusion,
    f1,
    label_counts,
    label_names,
    majority,
    matthews,
    pearson,
    ranks,
    spearman,
)
from regard.utils.errors import UsageError

sklearn_metrics = pytest.importorskip("sklearn.metrics")
scipy_stats = pytest.importorskip("scipy.stats")

GOLD = ["spam", "ham", "ham", "spam", "ham", "ham", "spam"]
PREDICTED = ["spam", "ham", "spam", "ham", "ham", "ham", "spam"]
two_lists = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd")), min_size=1, max_size=23)
label_sets = st.frozensets(st.sampled_from("abcd"), max_size=3)
set_lists = st.lists(st.tuples(label_sets, label_sets), min_size=1, max_size=17)


def test_by_hand() -> None:
    assert accuracy(PREDICTED, GOLD).value == pytest.approx(100 * 5 / 7)
    # spam: 2 correct, 3 predicted, 3 gold; ham: 3 correct, 4 predicted, 4 gold.
    assert f1(PREDICTED, GOLD, average="binary", positive="spam").value == pytest.approx(100 * 2 / 3)
    assert f1(PREDICTED, GOLD, average="macro").value == pytest.approx(100 * (2 / 3 + 3 / 4) / 2)
    # 2·3 - 1·1 over the root of 3·3·4·4.
    assert matthews(PREDICTED, GOLD).value == pytest.approx(100 * 5 / 12)
    assert majority(GOLD) == "ham"
    assert majority([("b",), (), ("a",), ()]) == ()
    assert majority(["b", "a"]) == "a", "ties by the alphabet"


@given(two_lists)
def test_single_labels_as_scikit_learn_counts(pairs: list[tuple[str, str]]) -> None:
    predicted, gold = [list(side) for side in zip(*pairs, strict=True)]
    assert accuracy(predicted, gold).value == pytest.approx(100 * sklearn_metrics.accuracy_score(gold, predicted))
    for average in ("macro", "micro"):
        wanted = sklearn_metrics.f1_score(gold, predicted, average=average, zero_division=0)
        assert f1(predicted, gold, average=average).value == pytest.approx(100 * wanted)
    wanted = sklearn_metrics.f1_score(gold, predicted, average=None, labels=["b"], zero_division=0)[0]
    assert f1(predicted, gold, average="binary", positive="b").value == pytest.approx(100 * wanted)
    if len({*predicted, *gold}) > 1:
        assert matthews(predicted, gold).value == pytest.approx(
            100 * sklearn_metrics.matthews_corrcoef(gold, predicted)
        )
    table = confusion(predicted, gold)
    wanted = sklearn_metrics.confusion_matrix(gold, predicted, labels=list(table.labels))
    assert [list(row) for row in table.counts] == wanted.tolist()


@given(set_lists)
def test_several_labels_as_scikit_learn_counts(pairs: list[tuple[frozenset[str], frozenset[str]]]) -> None:
    predicted, gold = [list(side) for side in zip(*pairs, strict=True)]
    occurring = sorted(frozenset().union(*predicted, *gold))
    tables = [[[int(label in labels) for label in occurring] for labels in side] for side in (gold, predicted)]
    assert accuracy(predicted, gold).value == pytest.approx(100 * sum(a == b for a, b in pairs) / len(pairs))
    if len(occurring) < 2:  # scikit-learn takes one column for a single label
        return
    for average in ("macro", "micro"):
        wanted = sklearn_metrics.f1_score(*tables, average=average, zero_division=0)
        assert f1(predicted, gold, average=average).value == pytest.approx(100 * wanted)


@pytest.mark.parametrize("few", [True, False])
@given(numbers=st.lists(st.tuples(st.integers(-7, 7), st.floats(-1e3, 1e3)), min_size=2, max_size=29))
def test_correlations_as_scipy_counts(few: bool, numbers: list[tuple[int, float]]) -> None:
    predicted = [float(n) for n, _ in numbers]
    gold = [round(x / 500) if few else round(x, 3) for _, x in numbers]  # few different ones: many ties
    assert ranks(gold) == pytest.approx(scipy_stats.rankdata(gold))
    if len(set(predicted)) == 1 or len(set(gold)) == 1:
        assert pearson(predicted, gold).value == spearman(predicted, gold).value == 0
        return
    assert pearson(predicted, gold).value == pytest.approx(
        100 * scipy_stats.pearsonr(predicted, gold).statistic, abs=1e-7
    )
    assert spearman(predicted, gold).value == pytest.approx(
        100 * scipy_stats.spearmanr(predicted, gold).statistic, abs=1e-7
    )


def test_a_label_that_one_list_does_not_know() -> None:
    counts = label_counts(["a", "c"], ["a", "b"])
    assert {label: (c.correct, c.predicted, c.gold) for label, c in counts.items()} == {
        "a": (1, 1, 1),
        "b": (0, 0, 1),
        "c": (0, 1, 0),
    }
    assert f1(["a"], ["b"], average="binary", positive="z").value == 0
    assert matthews(["a", "a"], ["a", "b"]).value == 0


def test_signatures_and_tables() -> None:
    assert repr(accuracy(PREDICTED, GOLD)) == "accuracy 71.43 (n:7)"
    assert f1(PREDICTED, GOLD, average="binary", positive="spam").signature == "average:binary|positive:spam|n:7"
    names = [f1(PREDICTED, GOLD, average=average, positive="spam").name for average in ("macro", "micro", "binary")]  # type: ignore[arg-type]
    assert names == ["macro F1", "micro F1", "F1 of spam"]
    assert str(confusion(PREDICTED, GOLD)).splitlines() == ["       ham  spam", " ham     3     1", "spam     1     2"]


def test_arrays_are_lists() -> None:
    predicted, gold = np.array([0.0, 2.0, 1.0]), np.array([0.0, 3.0, 5.0])
    for metric in (pearson, spearman):
        assert metric(predicted, gold) == metric(predicted.tolist(), gold.tolist())
        assert metric(np.array([0.0]), np.array([0.0])).value == 0
        with pytest.raises(UsageError):
            metric(np.array([]), np.array([]))
    assert accuracy(np.array(PREDICTED), np.array(GOLD)) == accuracy(PREDICTED, GOLD)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("function", "arguments", "fields"),
    [
        *(
            (metric, arguments, ("predicted", value, None))
            for metric in (accuracy, f1, matthews, confusion)
            for arguments, value in (([[], []], 0), (["a", ["a"]], "a"))
        ),
        *((metric, [["a", "b"], ["a"]], ("predicted", 2, (1,))) for metric in (accuracy, f1, matthews, confusion)),
        (spearman, [[1.0], [1.0, 2.0]], ("predicted", 1, (2,))),
        (majority, [[]], ("gold", None, None)),
    ],
)
def test_invalid_lists(function: Any, arguments: list[Any], fields: tuple[Any, ...]) -> None:
    with pytest.raises(UsageError) as caught:
        function(*arguments)
    assert (caught.value.argument, caught.value.value, caught.value.allowed) == fields


def test_invalid_options_and_numbers() -> None:
    with pytest.raises(UsageError) as caught:
        f1(["a"], ["a"], average="makro")  # type: ignore[arg-type]
    assert (caught.value.value, caught.value.hint) == ("makro", "macro")
    with pytest.raises(UsageError) as caught:
        f1(PREDICTED, GOLD, average="binary")
    assert (caught.value.argument, caught.value.allowed) == ("positive", ("ham", "spam"))
    with pytest.raises(UsageError) as caught:
        pearson([1.0, math.nan], [1.0, 2.0])
    assert caught.value.argument == "predicted"
    assert math.isnan(caught.value.value)


def test_order_of_labels() -> None:
    assert label_names(["10", "9", "10"]) == ("9", "10")
    assert label_names(["ham", "b", "10"]) == ("10", "b", "ham")
    assert confusion(["2", "10"], ["10", "2"]).labels == ("2", "10")
