"""The view of the five steps: which numbers are drawn, and inconsistent arrays."""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt
import pytest

from regard.utils.errors import UsageError
from regard.views.steps import MAX_NUMBERS, MAX_TOKENS, AttentionSteps, steps_view

T, S, D, H, DH = 3, 5, 22, 3, 7  # the usual shapes of `some_steps`
Make = Callable[..., AttentionSteps]


def drawn(data: dict[str, Any], part: str, index: int = 0) -> npt.NDArray[np.float64]:
    """The numbers of one matrix, unpacked as the page unpacks them."""
    one = data["parts"][part][index]
    integers = np.frombuffer(zlib.decompress(base64.b64decode(data["numbers"])), dtype="<i2").astype(np.float64)
    rows, columns = one["drawn"]
    numbers = integers[one["start"] : one["start"] + rows * columns] / 32767 * data["scales"][one["kind"]]["peak"]
    return numbers.reshape(rows, columns)


def allowed_error(data: dict[str, Any], part: str) -> float:
    """Half a step of the packing, plus rounding."""
    return float(data["scales"][data["parts"][part][0]["kind"]]["peak"]) / 65534 * 1.0001


def test_small_matrices_are_drawn_whole(some_steps: Make) -> None:
    steps = some_steps()
    data = steps_view(steps, title="t").data
    whole: dict[str, list[npt.NDArray[Any]]] = {
        "inputs": [steps.inputs],
        "memory": [np.asarray(steps.memory)],
        "matrices": [*steps.query_matrices, *steps.key_matrices, *steps.value_matrices],
        "queries": list(steps.queries),
        "keys": list(steps.keys),
        "values": list(steps.values),
        "weights": list(steps.weights),
        "heads": list(steps.heads),
        "output_matrix": [steps.output_matrix],
        "output": [steps.output],
    }
    assert set(data["parts"]) == set(whole)
    for part, arrays in whole.items():
        assert len(data["parts"][part]) == len(arrays)
        for index, array in enumerate(arrays):
            assert data["parts"][part][index]["every"] == [1, 1]
            np.testing.assert_allclose(drawn(data, part, index), array, atol=allowed_error(data, part), rtol=0)


def test_each_matrix_has_its_name_and_true_shape(some_steps: Make) -> None:
    parts = steps_view(some_steps(), title="t").data["parts"]
    assert [one["name"] for one in parts["matrices"][:: H - 1]] == [
        ["W", "Q", "0"],
        ["W", "Q", "2"],
        ["W", "K", "1"],
        ["W", "V", "0"],
        ["W", "V", "2"],
    ]
    assert {tuple(one["shape"]) for one in parts["matrices"]} == {(D, DH)}
    assert (parts["queries"][1]["name"], parts["queries"][1]["shape"]) == (["Q", "", "1"], [T, DH])
    assert (parts["keys"][1]["name"], parts["keys"][1]["shape"]) == (["K", "", "1"], [S, DH])
    assert (parts["inputs"][0]["name"], parts["memory"][0]["name"]) == (["R", "", ""], ["M", "", ""])
    assert parts["output_matrix"][0]["shape"] == [H * DH, D]
    assert steps_view(some_steps(S, S, cross=False), title="t").data["parts"]["inputs"][0]["name"][0] == "X"


def test_wide_matrices_are_sampled_and_never_averaged(some_steps: Make) -> None:
    steps = some_steps(2, 2, d_model=1031, num_heads=2, head_dim=131, cross=False)
    data = steps_view(steps, title="t").data
    for part, array in (
        ("inputs", steps.inputs),
        ("matrices", steps.query_matrices[0]),
        ("queries", steps.queries[0]),
        ("output_matrix", steps.output_matrix),
    ):
        one = data["parts"][part][0]
        assert max(one["every"]) > 1, part
        taken = array[:: one["every"][0], :: one["every"][1]]
        np.testing.assert_allclose(drawn(data, part), taken, atol=allowed_error(data, part), rtol=0)
    assert data["parts"]["inputs"][0]["every"] == [1, 3]  # the smallest that leaves at most 512 of 1031


def test_the_first_tokens_of_a_long_text_are_drawn(some_steps: Make) -> None:
    steps = some_steps(37, 41, cross=True)
    data = steps_view(steps, title="t").data
    assert drawn(data, "queries").shape == (MAX_TOKENS, DH)
    assert drawn(data, "weights").shape == (MAX_TOKENS, MAX_TOKENS)
    np.testing.assert_allclose(drawn(data, "weights"), steps.weights[0, :32, :32], atol=2e-5)
    assert data["parts"]["weights"][0]["shape"] == [37, 41]
    assert len(data["rows"]) == 37, "the page can say how many there are"


@pytest.mark.parametrize("shape", [(40, 40, 1024, 16, 64), (40, 40, 1600, 25, 64), (33, 33, 1024, 32, 128)])
def test_the_page_stays_below_a_megabyte(some_steps: Make, shape: tuple[int, int, int, int, int]) -> None:
    steps = some_steps(*shape, cross=False)
    view = steps_view(steps, title="t")
    count = sum(one["drawn"][0] * one["drawn"][1] for part in view.data["parts"].values() for one in part)
    assert count <= MAX_NUMBERS
    assert len(view.html().encode()) < 1_000_000


def test_matrices_of_one_kind_share_a_scale_without_outliers(some_steps: Make) -> None:
    steps = some_steps()
    loud = steps.queries.copy()
    loud[0, 0, 0] = 1000
    scales = steps_view(replace(steps, queries=loud), title="t").data["scales"]
    assert scales["projected"]["peak"] == 1000
    assert scales["projected"]["limit"] < 10
    assert scales["weights"]["limit"] == scales["weights"]["peak"] == steps.weights.max()
    zero = steps_view(replace(steps, output=np.zeros((T, D))), title="t").data["scales"]["output"]
    assert zero == {"peak": 1, "limit": 1}


def test_numbers_are_lists_without_the_models_matrices(some_steps: Make) -> None:
    numbers = some_steps().numbers()
    assert sorted(numbers) == sorted(
        ["address", "rows", "columns", "inputs", "memory", "queries", "keys", "values", "weights", "heads", "output"]
    )
    assert np.shape(numbers["queries"]) == (H, T, DH)
    assert "memory" not in some_steps(S, S, cross=False).numbers()


@pytest.mark.parametrize("cross", [False, True])
def test_the_still_picture_has_five_numbered_steps(some_steps: Make, cross: bool, tmp_path: Path) -> None:
    steps = some_steps(S, S, cross=cross)
    path = steps_view(steps, title="<five>").save(tmp_path / "steps.svg")
    texts = [node.text or "" for node in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == "<five>"
    assert [text for text in texts if re.fullmatch(r"\d", text)] == ["1", "2", "3", "4", "5"]
    assert f"Q2  {S} × {DH}" in texts
    assert ("M  5 × 22" in texts) is cross


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("queries", np.zeros((H, T + 1, DH))),
        ("memory", np.zeros((S, D - 1))),
        ("output_matrix", np.zeros((D, H * DH))),
        ("heads", np.full((H, T, DH), np.nan)),
        ("weights", np.zeros((T, S))),
        ("queries", np.zeros(T)),
    ],
)
def test_inconsistent_arrays_are_refused(some_steps: Make, argument: str, value: Any) -> None:
    with pytest.raises(UsageError) as error:
        replace(some_steps(), **{argument: value})
    assert error.value.argument == argument


def test_steps_need_tokens(some_steps: Make) -> None:
    with pytest.raises(UsageError):
        replace(some_steps(), rows=())
