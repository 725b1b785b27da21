"""The training report: grouping and thinning of curves, its other parts, the still picture."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.experiments import demo
from regard.utils.errors import UsageError
from regard.views.attention import AttentionMap, attention_view
from regard.views.picture import _ticks
from regard.views.report import report_view, thin
from regard.views.tokens import TokenColumn, tokens_view


def test_curves_that_end_in_the_same_word_share_a_chart() -> None:
    points = [(1.0, 2.0), (2.0, 1.0)]
    curves = dict.fromkeys(["train loss", "learning rate", "validation loss", "tokens/s"], points)
    charts = report_view(title="t", curves=curves).data["charts"]
    assert [(chart["title"], [one["name"] for one in chart["series"]]) for chart in charts] == [
        ("loss", ["train loss", "validation loss"]),
        ("learning rate", ["learning rate"]),
        ("tokens/s", ["tokens/s"]),
    ]


def test_empty_curves_are_left_out_and_steps_sorted() -> None:
    charts = report_view(title="t", curves={"a": [], "b": [(3, 1.0), (1, 2.0)]}).data["charts"]
    assert [chart["title"] for chart in charts] == ["b"]
    assert charts[0]["series"][0]["points"] == [[1.0, 2.0], [3.0, 1.0]]


@given(st.lists(st.floats(-1e6, 1e6), min_size=0, max_size=300), st.integers(4, 40))
def test_thinning_keeps_ends_extremes_and_order(values: list[float], most: int) -> None:
    points = [(float(step), value) for step, value in enumerate(values)]
    kept = thin(points, most)
    assert len(kept) <= max(most, len(points) if len(points) <= most else 0)
    assert [point[0] for point in kept] == sorted({point[0] for point in kept})
    assert all(values[int(step or 0)] == value for step, value in kept)
    if points:
        assert kept[0] == list(points[0])
        assert kept[-1] == list(points[-1])
        inner = [value for _, value in kept]
        if len(points) <= most:
            assert max(inner) == max(values)


def test_thinning_keeps_a_spike() -> None:
    points = [(float(step), 1.0) for step in range(10_007)]
    points[5003] = (5003.0, 99.0)
    assert [5003.0, 99.0] in thin(points)
    assert len(thin(points)) <= 2000


def test_values_that_are_not_finite_become_gaps() -> None:
    assert thin([(1, math.nan), (2, 1.0), (3, math.inf)]) == [[1.0, None], [2.0, 1.0], [3.0, None]]
    view = report_view(title="t", curves={"loss": [(1, math.nan), (2, 3.0), (4, math.inf)]})
    assert "NaN" not in view.html().split('id="data">')[1].split("</script>")[0]
    assert ElementTree.fromstring(view.svg()) is not None


def test_the_data_have_every_part() -> None:
    one = AttentionMap(address="encoder.0.self", rows=["a"], columns=["b"], weights=np.ones((1, 1, 1)))
    view = attention_view([one], title="a")
    data = report_view(
        title="<t>",
        summary="s",
        curves={},
        samples=[("source", "reference", "output")],
        scores=[("BLEU", 41.256, "sig"), ("steps", 12000, ""), ("note", "n/a", "")],
        settings={"model": {"d_model": 7, "shape": (2, 3)}, "seed": 0},
        notes=["device: cpu (no accelerator found)"],
        attention=[("first", view)],
    ).data
    assert json.loads(json.dumps(data)) == data
    assert [score["value"] for score in data["scores"]] == ["41.26", "12,000", "n/a"]
    assert data["samples"] == [{"source": "source", "reference": "reference", "output": "output"}]
    assert (data["sampleNames"], data["compared"]) == (["Source", "Reference", "Output"], True)
    assert data["settings"] == [["model.d_model", "7"], ["model.shape", "2, 3"], ["seed", "0"]]
    assert data["attention"] == [{"title": "first", "data": view.data}]


def test_still_picture_draws_each_curve_in_runs() -> None:
    curves = {"train loss": [(1, 3.0), (2, math.nan), (3, 2.0), (4, 1.0)], "speed <b>": [(1, 5.0)]}
    svg = report_view(title="t", curves=curves, scores=[("BLEU", 41.0, "")]).svg()
    root = ElementTree.fromstring(svg)
    strokes = [node.get("stroke") for node in root.iter("{http://www.w3.org/2000/svg}polyline")]
    assert strokes.count("#4a5fd0") == 3  # two runs around the gap, one of a single point
    assert "speed <b>" in [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ({"attention": [("x", tokens_view([TokenColumn(name="n", tokens=[])]))]}, "attention"),
        ({"samples": [("a", "b")]}, "samples"),
        ({"curves": {"loss": [(math.nan, 1.0)]}}, "curves"),
    ],
)
def test_bad_reports_are_refused(arguments: dict[str, Any], argument: str) -> None:
    with pytest.raises(UsageError) as error:
        report_view(**{"title": "t", "curves": {}, **arguments})
    assert error.value.argument == argument


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [(0, 10, [0, 5, 10]), (-1, 1, [-1, -0.5, 0, 0.5, 1]), (0.0003, 0.0011, [0.0004, 0.0006, 0.0008, 0.001])],
)
def test_ticks_are_round(low: float, high: float, wanted: list[float]) -> None:
    assert _ticks(low, high) == pytest.approx(wanted)


def test_charts_of_the_demo_name_their_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"step": 1, "loss": 2.0, "learning_rate": 0.1, "tokens_per_second": 3.0}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    monkeypatch.setattr(demo, "SENTENCES", ())
    scores = Mock(**{"rows.return_value": []})
    view = demo._report(Mock(), scores, [], tmp_path)
    assert view.data["charts"][-1]["title"] == "target tokens per second"
