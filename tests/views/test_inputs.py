"""The view of the input of an encoder: its data, its still picture, and errors."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from regard.utils.errors import UsageError
from regard.views.tokens import MAX_NUMBERS, MAX_TOKENS, InputSums, inputs_view


def sums(count: int = 5, width: int = 6, **changes: Any) -> InputSums:
    random = np.random.default_rng(0)
    parts = [random.normal(size=(count, width)).astype(np.float32) for _ in range(3)]
    total = parts[0] + parts[1] + parts[2]
    found = {
        "tokens": ["[CLS]", *(f"<w{n}>" for n in range(count - 2)), "[SEP]"],
        "ids": range(count),
        "segments": [0, *[1] * (count - 1)],
        "token_vectors": parts[0],
        "segment_vectors": parts[1],
        "position_vectors": parts[2],
        "sums": total,
        "normalized": total / 2,
    }
    return InputSums(**{**found, **changes})


def test_the_rows_of_the_figure_add_up() -> None:
    data = inputs_view(sums(), title="a / b").data
    assert [(row["sign"], row["name"]) for row in data["rows"]] == [
        ("", "token"),
        ("+", "segment"),
        ("+", "position"),
        ("=", "sum"),
        ("→", "after LayerNorm"),
    ]
    vectors = {row["name"]: np.array(row["vectors"]) for row in data["rows"]}
    added = vectors["token"] + vectors["segment"] + vectors["position"]
    np.testing.assert_allclose(added, vectors["sum"], atol=2e-3)
    assert data["segments"] == ["A", "B", "B", "B", "B"]
    assert len({row["limit"] for row in data["rows"][:4]}) == 1, "what is added up shares its colours"


def test_long_texts_and_wide_vectors_are_thinned_out() -> None:
    data = inputs_view(sums(MAX_TOKENS + 4, 3 * MAX_NUMBERS), title="long").data
    assert (len(data["tokens"]), data["count"], data["every"]) == (MAX_TOKENS, MAX_TOKENS + 4, 3)
    assert {len(vector) for row in data["rows"] for vector in row["vectors"]} == {MAX_NUMBERS}


def test_the_picture_states_which_numbers_are_drawn() -> None:
    assert "1 in 3 " in inputs_view(sums(5, 128), title="tiny").svg()
    assert "1 in 22 " in inputs_view(sums(5, 1024), title="large").svg()
    assert "1 in " not in inputs_view(sums(5, MAX_NUMBERS), title="small").svg()


def test_the_picture_has_five_strips_per_token() -> None:
    tree = ElementTree.fromstring(inputs_view(sums(14), title="a & b").svg().encode())
    assert sum(1 for _ in tree.iter("{http://www.w3.org/2000/svg}image")) == 5 * 14
    texts = [node.text for node in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == "a & b"
    assert {"E A", "E B", "E 13", "E <w3>", "= sum"} <= set(texts)


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        ({"ids": [1, 2]}, "ids"),
        ({"tokens": [], "ids": [], "segments": []}, "ids"),
        ({"segments": [0]}, "segments"),
        ({"sums": np.zeros((5, 7), dtype=np.float32)}, "token_vectors"),  # they must have the width of the sums
        ({"position_vectors": np.zeros((6, 6), dtype=np.float32)}, "position_vectors"),
        ({"normalized": np.full((5, 6), np.nan, dtype=np.float32)}, "normalized"),
    ],
)
def test_inconsistent_arrays_are_refused(changes: dict[str, Any], argument: str) -> None:
    with pytest.raises(UsageError) as error:
        sums(**changes)
    assert error.value.argument == argument
