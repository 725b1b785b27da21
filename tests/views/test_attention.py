"""Attention maps: errors, packing of weights, contents of the files and of the still picture."""

from __future__ import annotations

import base64
import csv
import json
import zlib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from regard.utils.errors import UsageError
from regard.views import attention
from regard.views.attention import AttentionMap, attention_view, pack
from regard.views.picture import color_table

SVG = "{http://www.w3.org/2000/svg}"


def softmax(scores: npt.NDArray[Any]) -> npt.NDArray[Any]:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def a_map(
    address: str = "encoder.0.self", num_heads: int = 3, num_rows: int = 5, num_columns: int = 7, **change: Any
) -> AttentionMap:
    weights = softmax(np.random.default_rng(11).normal(size=(num_heads, num_rows, num_columns)) * 2)
    values: dict[str, Any] = {
        "address": address,
        "rows": [f"q{index}" for index in range(num_rows)],
        "columns": [f"k{index}" for index in range(num_columns)],
        "weights": weights,
    }
    return AttentionMap(**{**values, **change})


def unpack(text: str, levels: int, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    integers = np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype="<u2" if levels > 255 else "u1")
    return (integers.astype(np.float64) / levels).reshape(shape) ** 2


@pytest.mark.parametrize(("levels", "largest"), [(65535, 1.6e-5), (255, 0.004)])
@given(weights=arrays(np.float64, (2, 3, 5), elements=st.floats(0, 1)))
def test_packing_stays_within_the_stated_error(levels: int, largest: float, weights: npt.NDArray[np.float64]) -> None:
    back = unpack(pack(weights, levels), levels, weights.shape)
    error = np.abs(back - weights)
    assert (error <= np.sqrt(weights) / levels + 0.25 / levels**2 + 1e-15).all()
    assert error.max() < largest


def test_uniform_attention_over_512_tokens_survives_eight_bits() -> None:
    even = np.full((1, 1, 512), 1 / 512)
    back = unpack(pack(even, 255), 255, even.shape)
    assert np.abs(back - even).max() < 2e-4  # linear steps of 1/255 would leave nothing: round(255/512) = 0
    assert back.min() > 0


def test_zero_and_one_are_exact() -> None:
    ends = np.array([[[0.0, 1.0]]])
    for levels in (255, 65535):
        assert (unpack(pack(ends, levels), levels, ends.shape) == ends).all()


def test_view_data_hold_every_layer_with_shared_tokens() -> None:
    maps = [a_map(f"encoder.{layer}.self", num_heads=2 + layer, num_rows=5, num_columns=5) for layer in range(3)]
    maps.append(a_map("decoder.1.cross", num_rows=7, num_columns=5))
    data = attention_view(maps, title="t", note="n", initial="decoder.1.cross", initial_head=2).data
    assert json.loads(json.dumps(data)) == data
    assert data["levels"] == 65535
    assert data["initial"] == {"address": "decoder.1.cross", "head": 2}
    assert [len(axis) for axis in data["axes"]] == [5, 5, 7]  # q0…q4 and k0…k4 once, then q0…q6
    assert [(one["kind"], one["layer"], one["heads"], one["grows"]) for one in data["maps"]] == [
        ("encoder.self", 0, 2, False),
        ("encoder.self", 1, 3, False),
        ("encoder.self", 2, 4, False),
        ("decoder.cross", 1, 3, True),
    ]
    for one, packed in zip(maps, data["maps"], strict=True):
        assert np.abs(unpack(packed["weights"], 65535, one.weights.shape) - one.weights).max() < 1.6e-5


def test_large_views_use_eight_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "SIXTEEN_BIT_LIMIT", 3 * 5 * 7 - 1)
    data = attention_view([a_map()], title="t").data
    assert data["levels"] == 255
    assert np.abs(unpack(data["maps"][0]["weights"], 255, (3, 5, 7)) - a_map().weights).max() < 0.004


def test_an_address_of_another_form_is_its_own_kind() -> None:
    packed = attention_view([a_map("attention")], title="t").data["maps"][0]
    assert (packed["kind"], packed["label"], packed["layer"]) == ("attention", "attention", 0)


def test_a_fully_masked_row_is_allowed() -> None:
    weights = a_map().weights.copy()
    weights[1, 2] = 0
    assert a_map(weights=weights).weights[1, 2].sum() == 0


def changed(place: Any, value: float) -> npt.NDArray[Any]:
    weights = a_map().weights.copy()
    weights[place] = value
    return weights


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"weights": np.zeros((5, 7))}, "weights"),  # no heads
        ({"weights": np.zeros((0, 5, 7))}, "weights"),
        ({"rows": ["a"]}, "rows"),
        ({"columns": []}, "columns"),
        ({"rows": [1, 2, 3, 4, 5]}, "rows"),  # ids instead of tokens
        ({"weights": np.zeros((3, 5, 7), dtype=int)}, "weights"),
        ({"weights": changed((0, 0, 0), np.nan)}, "weights"),
        ({"weights": changed((0, 0, 0), -0.5)}, "weights"),
        ({"weights": a_map().weights * 9}, "weights"),  # scores instead of weights
        ({"weights": changed((2, 3), 0.5)}, "weights"),  # a row that sums to 3.5
        (  # queries and keys exchanged
            {"weights": a_map().weights.swapaxes(1, 2), "rows": list("abcdefg"), "columns": list("abcde")},
            "weights",
        ),
        ({"address": ""}, "address"),
    ],
)
def test_bad_maps_are_refused(change: dict[str, Any], argument: str) -> None:
    with pytest.raises(UsageError) as error:
        a_map(**change)
    assert error.value.argument == argument


@pytest.mark.parametrize(
    ("arguments", "argument", "value"),
    [
        ({"maps": []}, "maps", None),
        ({"maps": [a_map(), a_map()]}, "maps", "encoder.0.self"),
        ({"initial": "encoder.1.self"}, "attention address", "encoder.1.self"),
        ({"initial_head": 3}, "initial_head", 3),
        ({"initial_head": -1}, "initial_head", -1),
        ({"gold": [(0, 0), (5, 0)]}, "gold", (5, 0)),
        ({"gold": [(0, -1)]}, "gold", (0, -1)),
    ],
)
def test_bad_views_are_refused(arguments: dict[str, Any], argument: str, value: object) -> None:
    with pytest.raises(UsageError) as error:
        attention_view(**{"maps": [a_map()], "title": "t", **arguments})
    assert (error.value.argument, error.value.value) == (argument, value)


def test_gold_links_are_shown_on_cross_attention() -> None:
    maps = [a_map("encoder.0.self", num_rows=2, num_columns=2), a_map("decoder.0.cross")]
    view = attention_view(maps, title="t", gold=[(4, 6)])  # outside the encoder's map, inside the other
    assert [one["gold"] for one in view.data["maps"]] == [False, True]
    assert view.svg().count(attention.GOLD_COLOR) == 0  # the first state shows the encoder
    assert attention_view(maps, title="t", gold=[(4, 6)], initial="decoder.0.cross").svg().count("gold alignment") == 1


def cells_of(svg: str) -> list[ElementTree.Element]:
    return [node for node in ElementTree.fromstring(svg).iter(f"{SVG}rect") if node.get("rx") == "3"]


@pytest.mark.parametrize("head", [None, 1])
def test_still_picture_has_a_cell_of_the_right_color_for_every_weight(head: int | None) -> None:
    one = a_map()
    svg = attention_view([one], title="t", initial_head=head).svg()
    matrix = one.weights.mean(axis=0) if head is None else one.weights[head]
    table = color_table()
    wanted = ["#" + bytes(table[round(w / matrix.max() * 255)]).hex() for w in matrix.ravel().tolist()]
    assert [cell.get("fill") for cell in cells_of(svg)] == wanted
    texts = [node.text for node in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    assert texts.index("key →") < texts.index("query →")
    tokens = [text for text in texts if text in {*one.columns, *one.rows}]
    assert tokens == [*one.columns, *one.rows]
    assert ("encoder.0.self · head 1" in texts) == (head == 1)
    assert f"{matrix.max():.2f}" in texts


def test_still_picture_of_many_tokens_is_one_image_with_thinned_labels() -> None:
    root = ElementTree.fromstring(attention_view([a_map(num_rows=211, num_columns=199)], title="t").svg())
    assert len(list(root.iter(f"{SVG}image"))) == 2  # the map and the scale
    assert len(list(root.iter(f"{SVG}text"))) < 211


def test_still_picture_of_hostile_tokens_is_well_formed() -> None:
    hostile = ["<img src=x onerror=alert(1)>", "</svg>", "&amp;", "\x00\ud800", "]]>", "'\"", "שלום"]
    svg = attention_view([a_map(num_rows=7, rows=hostile)], title="<b>").svg()
    texts = [node.text for node in ElementTree.fromstring(svg.encode()).iter(f"{SVG}text")]
    assert "</svg>" in texts
    assert "&amp;" in texts
    assert "<b>" in texts


def test_color_table_contains_its_stops() -> None:
    table = color_table(["#000000", "#ff8000"])
    assert table[0].tolist() == [0, 0, 0]
    assert table[255].tolist() == [255, 128, 0]
    assert table[51].tolist() == [51, 26, 0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_saved_numbers_are_exact_and_labeled(tmp_path: Path, dtype: type) -> None:
    tokens = ['say "hi"', "a,b", "</s>", "\n", "é"]
    one = a_map(rows=tokens, weights=a_map().weights.astype(dtype))

    view = attention_view([one], title="t")
    array = np.load(view.save(tmp_path / "w.npy"), allow_pickle=False)
    assert array.dtype == dtype
    assert (array == one.weights).all()
    labels = json.loads((tmp_path / "w.tokens.json").read_text(encoding="utf-8"))
    assert labels == {"address": one.address, "rows": tokens, "columns": list(one.columns)}

    content = json.loads(view.save(tmp_path / "w.json").read_text(encoding="utf-8"))
    assert (np.array(content["weights"], dtype=dtype) == one.weights).all()
    assert content["rows"] == tokens

    with view.save(tmp_path / "w.csv").open(encoding="utf-8", newline="") as stream:
        lines = list(csv.reader(stream))
    assert lines[0] == ["head", "query", *one.columns]
    assert [line[:2] for line in lines[1:]] == [[str(head), token] for head in range(3) for token in tokens]
    numbers = np.array([line[2:] for line in lines[1:]], dtype=np.float64).astype(dtype).reshape(3, 5, 7)
    assert (numbers == one.weights).all()


def test_a_view_saves_the_weights_of_its_initial_map(tmp_path: Path) -> None:
    maps = [a_map(), a_map("decoder.1.cross", num_heads=2, num_rows=3)]
    view = attention_view(maps, title="t", initial="decoder.1.cross")
    assert np.array_equal(np.load(view.save(tmp_path / "w.npy")), maps[1].weights)
    assert json.loads((tmp_path / "w.tokens.json").read_text(encoding="utf-8"))["address"] == "decoder.1.cross"
    assert json.loads(view.save(tmp_path / "w.json").read_text(encoding="utf-8")) == maps[1].numbers()
    assert len(view.save(tmp_path / "w.csv").read_text(encoding="utf-8").splitlines()) == 1 + 2 * 3
    assert [m["address"] for m in view.numbers()["attention"]] == ["encoder.0.self", "decoder.1.cross"]


def test_weights_are_not_saved_in_other_formats(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        attention_view([a_map()], title="t").save(tmp_path / "w.pickle")
    assert error.value.value == ".pickle"
    assert {".csv", ".json", ".npy"} <= set(error.value.allowed or ())


def test_the_mark_that_begins_a_word_is_a_dot_in_the_picture() -> None:
    tokens = ["▁un", "do", "▁", "a▁b", "·"]
    svg = attention_view([a_map(num_columns=5, rows=tokens, columns=tokens)], title="t").svg()
    texts = [node.text for node in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    assert texts.count("·un") == texts.count("do") == texts.count("▁") == texts.count("a▁b") == 2
    assert "▁un" not in texts


def test_still_picture_of_a_layer_with_one_head_names_that_head() -> None:
    one = AttentionMap(address="decoder.0.cross", rows=["a"], columns=["b"], weights=np.ones((1, 1, 1)))
    svg = attention_view([one], title="t").svg()
    assert "decoder.0.cross · head 0" in svg
