"""The attention viewer in a real browser: drawn, hovered and exported values equal the weights."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt
import pytest

from regard.views.attention import AttentionMap, attention_view

ENGLISH = "The animal did not cross the street because it was too wide </s>"
FRENCH = "<start> L' animal n' a pas traversé la rue car elle était trop large"
SOURCE, TARGET = ENGLISH.split(), FRENCH.split()
GOLD = [(1, 0), (2, 1), (3, 3), (10, 8)]
SIXTEEN_BITS = 1.6e-5  # the largest error of packed weights; see views/attention.py

# Read from a copy: reading the viewer's own canvas would change how the browser keeps it.
COPY = """
    const canvas = document.querySelector(".stage-canvas");
    const { width, height } = canvas;
    const copy = Object.assign(document.createElement("canvas"), { width, height })
        .getContext("2d", { willReadFrequently: true });
    copy.drawImage(canvas, 0, 0);
"""


def softmax(scores: npt.NDArray[Any]) -> npt.NDArray[Any]:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


@pytest.fixture(scope="module")
def maps() -> dict[str, AttentionMap]:
    random = np.random.default_rng(7)
    found = {}
    for layer in range(3):
        for kind, rows, columns in (
            ("encoder.{}.self", SOURCE, SOURCE),
            ("decoder.{}.self", TARGET, TARGET),
            ("decoder.{}.cross", TARGET, SOURCE),
        ):
            scores = random.normal(size=(4, len(rows), len(columns))) * 2.5
            if kind == "decoder.{}.self":
                scores = np.where(np.tril(np.ones(scores.shape[1:], dtype=bool)), scores, -np.inf)
            address = kind.format(layer)
            found[address] = AttentionMap(address=address, rows=rows, columns=columns, weights=softmax(scores))
    return found


@pytest.fixture
def saved(maps: dict[str, AttentionMap], tmp_path: Path) -> Path:
    view = attention_view(
        list(maps.values()), title="An animal", note="a note", initial="decoder.2.cross", initial_head=3, gold=GOLD
    )
    return view.save(tmp_path / "look.html")


class Viewer:
    """Actions of a user in the viewer."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.settle()

    def settle(self) -> None:
        self.page.wait_for_selector('.attention[data-ready="true"]')
        self.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def choose(self, group: str, label: str) -> None:
        self.page.locator(f'[data-choice="{group}"] label').filter(has_text=re.compile(rf"^{label}")).click()
        self.settle()

    def tick(self, name: str) -> None:
        self.page.locator(f'[data-tick="{name}"]').click()
        self.settle()

    def slide(self, name: str, value: float) -> None:
        self.page.locator(f'[data-slider="{name}"]').fill(str(value))
        self.settle()

    def press(self, key: str) -> None:
        self.page.keyboard.press(key)
        self.settle()

    def spot(self, down: float, across: float) -> tuple[float, float]:
        """The position of a cell in the window; -1 is a label."""
        box = self.page.locator(".stage-canvas").bounding_box()
        stage = self.page.locator(".stage")
        left, top, cell = (float(stage.get_attribute(f"data-{name}")) for name in ("left", "top", "cell"))
        x = left + (across + 0.5) * cell if across >= 0 else left - 20
        y = top + (down + 0.5) * cell if down >= 0 else top - 10
        return box["x"] + x, box["y"] + y

    def tokens(self) -> list[str]:
        """The query and the key that the readout names."""
        return list(self.page.locator(".readout .token").all_inner_texts())

    def hover(self, down: float, across: float) -> str:
        self.page.mouse.move(*self.spot(down, across))
        self.settle()
        return str(self.page.locator(".readout").inner_text())

    def click(self, down: float, across: float) -> None:
        self.page.mouse.click(*self.spot(down, across))
        self.settle()

    def state(self, name: str) -> str:
        return str(self.page.locator(".attention").get_attribute(f"data-{name}"))

    def export(self, name: str) -> tuple[str, str]:
        with self.page.expect_download() as waiting:
            self.page.locator(f'[data-export="{name}"]').click()
        return waiting.value.suggested_filename, Path(waiting.value.path()).read_text(encoding="utf-8")

    def table(self) -> tuple[list[str], list[str], npt.NDArray[np.float64]]:
        lines = list(csv.reader(io.StringIO(self.export("CSV")[1])))
        return [line[0] for line in lines[1:]], lines[0][1:], np.array([line[1:] for line in lines[1:]], dtype=float)

    def color(self, down: int, across: int) -> list[int]:
        """The color on the canvas in the middle of a cell."""
        box = self.page.locator(".stage-canvas").bounding_box()
        x, y = self.spot(down, across)
        read = f"([x, y]) => {{ {COPY} return Array.from(copy.getImageData(x, y, 1, 1).data).slice(0, 3); }}"
        return list(self.page.evaluate(read, [int(x - box["x"]), int(y - box["y"])]))

    def inked(self) -> int:
        """The number of painted pixels of the canvas."""
        painted = "copy.getImageData(0, 0, width, height).data.filter((value, at) => at % 4 === 3 && value > 0)"
        count = f"() => {{ {COPY} return {painted}.length; }}"
        return int(self.page.evaluate(count))


def last_number(text: str) -> float:
    return float(re.findall(r"\d+\.?\d*", text)[-1])


def test_opens_with_the_given_map_and_head(open_page: Callable[..., Any], saved: Path) -> None:
    viewer = Viewer(open_page(saved))
    assert viewer.page.title() == "An animal"
    assert viewer.page.locator("h1").inner_text() == "An animal"
    assert viewer.page.locator(".note").inner_text() == "a note"
    assert (viewer.state("address"), viewer.state("heads"), viewer.state("mode")) == ("decoder.2.cross", "3", "map")
    assert "gold alignment" in viewer.page.locator(".legend").inner_text()


def test_hovering_shows_the_weight_for_every_kind_layer_and_head(
    open_page: Callable[..., Any], saved: Path, maps: dict[str, AttentionMap]
) -> None:
    viewer = Viewer(open_page(saved))
    kinds = {"Encoder self": "encoder.{}.self", "Decoder self": "decoder.{}.self", "Cross": "decoder.{}.cross"}
    for label, form in kinds.items():
        viewer.choose("kind", label)
        for layer in range(3):
            viewer.choose("layer", str(layer))
            one = maps[form.format(layer)]
            assert viewer.state("address") == one.address
            head, row, column = (layer + len(label)) % 4, 12 - 2 * layer, 3 + 2 * layer
            viewer.page.locator(".heads .tile").nth(head).click()
            viewer.settle()
            said = viewer.hover(row, column)
            assert said.startswith(f"{one.address} · head {head}")
            assert viewer.tokens() == [one.rows[row], one.columns[column]]
            weight = one.weights[head, row, column]
            assert last_number(said) == pytest.approx(weight, abs=6e-5)
            assert viewer.page.locator(".tip").is_visible()


def test_all_heads_are_shown_as_their_mean(
    open_page: Callable[..., Any], saved: Path, maps: dict[str, AttentionMap]
) -> None:
    viewer = Viewer(open_page(saved))
    weights = maps["decoder.2.cross"].weights
    viewer.page.locator(".all-heads").click()
    viewer.settle()
    assert viewer.state("heads") == "0,1,2,3"
    assert last_number(viewer.hover(4, 2)) == pytest.approx(weights[:, 4, 2].mean(), abs=6e-5)
    viewer.page.locator(".heads .tile").nth(1).click()
    viewer.page.locator(".heads .tile").nth(3).click(modifiers=["Shift"])
    viewer.settle()
    assert viewer.state("heads") == "1,3"
    assert last_number(viewer.hover(4, 2)) == pytest.approx(weights[[1, 3], 4, 2].mean(), abs=6e-5)


def test_arrow_keys_move_through_heads_layers_and_cells(
    open_page: Callable[..., Any], saved: Path, maps: dict[str, AttentionMap]
) -> None:
    viewer = Viewer(open_page(saved))
    viewer.page.locator(".stage").focus()
    viewer.press("ArrowLeft")
    assert viewer.state("heads") == "2"
    viewer.press("ArrowRight")
    viewer.press("ArrowRight")
    assert viewer.state("heads") == "0,1,2,3"  # past the last head comes the mean of all
    viewer.press("ArrowRight")
    assert viewer.state("heads") == "0"
    viewer.press("ArrowDown")
    assert viewer.state("address") == "decoder.1.cross"
    viewer.press("ArrowUp")
    viewer.press("ArrowUp")
    assert viewer.state("address") == "decoder.2.cross"
    for _ in range(3):
        viewer.press("Shift+ArrowDown")
    viewer.press("Shift+ArrowRight")
    said = viewer.page.locator(".readout").inner_text()
    assert viewer.tokens() == ["animal", "animal"]  # the first press enters at the first cell
    assert last_number(said) == pytest.approx(maps["decoder.2.cross"].weights[0, 2, 1], abs=6e-5)
    viewer.press("v")
    assert viewer.state("mode") == "lines"


def test_exports_equal_the_numbers(open_page: Callable[..., Any], saved: Path, maps: dict[str, AttentionMap]) -> None:
    viewer = Viewer(open_page(saved))
    weights = maps["decoder.2.cross"].weights
    name, _ = viewer.export("CSV")
    assert name == "decoder.2.cross.head-3.csv"
    rows, columns, numbers = viewer.table()
    assert (rows, columns) == (TARGET, SOURCE)
    assert np.abs(numbers - weights[3]).max() < SIXTEEN_BITS

    content = json.loads(viewer.export("JSON")[1])
    assert (content["queries"], content["keys"], content["heads"]) == (TARGET, SOURCE, [3])
    assert np.abs(np.array(content["weights"]) - weights[3]).max() <= content["max_error"]

    viewer.tick("transpose")
    rows, columns, numbers = viewer.table()
    assert (rows, columns) == (SOURCE, TARGET)
    assert np.abs(numbers - weights[3].T).max() < SIXTEEN_BITS


def test_exported_picture_equals_the_one_made_in_python(
    open_page: Callable[..., Any], saved: Path, maps: dict[str, AttentionMap]
) -> None:
    viewer = Viewer(open_page(saved))
    name, text = viewer.export("SVG")
    assert name == "decoder.2.cross.head-3.svg"

    def cells(svg: str) -> list[tuple[int, ...]]:
        nodes = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}rect")
        fills = [node.get("fill", "") for node in nodes if node.get("rx") == "3"]
        return [tuple(bytes.fromhex(fill[1:])) for fill in fills if fill.startswith("#")]

    still = attention_view(list(maps.values()), title="t", initial="decoder.2.cross", initial_head=3).svg()
    ours, theirs = np.array(cells(still)), np.array(cells(text))
    assert ours.shape == theirs.shape == (len(TARGET) * len(SOURCE), 3)
    assert np.abs(ours - theirs).max() <= 3  # a packed weight may fall on the neighboring one of 256 colors
    assert text.count("key →") == 1

    viewer.choose("mode", "Lines")
    paths = list(ElementTree.fromstring(viewer.export("SVG")[1]).iter("{http://www.w3.org/2000/svg}path"))
    assert len(GOLD) < len(paths) <= len(TARGET) * len(SOURCE) + len(GOLD)


def test_transposed_axes_transpose_the_hovered_cell(open_page: Callable[..., Any], saved: Path) -> None:
    viewer = Viewer(open_page(saved))
    before = viewer.hover(10, 6)
    assert viewer.tokens() == ["elle", "street"]
    viewer.tick("transpose")
    assert viewer.hover(6, 10) == before


def test_gray_map_is_white_where_the_weight_is_high(
    open_page: Callable[..., Any], saved: Path, maps: dict[str, AttentionMap]
) -> None:
    viewer = Viewer(open_page(saved))
    viewer.choose("palette", "Gray")
    assert "white = high" in viewer.page.locator(".legend").inner_text()
    viewer.page.mouse.move(1, 1)
    viewer.settle()
    weights = maps["decoder.2.cross"].weights[3]
    highest = tuple(int(at) for at in np.unravel_index(weights.argmax(), weights.shape))
    for row, column in ((0, 4), (7, 9), highest):
        assert viewer.color(row, column) == pytest.approx([255 * weights[row, column] / weights.max()] * 3, abs=1.1)


def test_threshold_hides_weak_cells(open_page: Callable[..., Any], saved: Path, maps: dict[str, AttentionMap]) -> None:
    viewer = Viewer(open_page(saved))
    viewer.choose("palette", "Gray")
    viewer.slide("threshold", 0.1)
    text = viewer.export("SVG")[1]
    nodes = ElementTree.fromstring(text).iter("{http://www.w3.org/2000/svg}rect")
    fills = [node.get("fill") for node in nodes if node.get("rx") == "3"]
    weak = (maps["decoder.2.cross"].weights[3] < 0.1).ravel()
    assert {fill for fill, hidden in zip(fills, weak, strict=True) if hidden} == {"#000000"}
    assert all(fill != "#000000" for fill, hidden in zip(fills, weak, strict=True) if not hidden)


def test_a_clicked_token_stays_pinned_in_every_view(
    open_page: Callable[..., Any], saved: Path, maps: dict[str, AttentionMap]
) -> None:
    viewer = Viewer(open_page(saved))
    weights = maps["decoder.2.cross"].weights[3, 10]
    viewer.click(10, -1)
    viewer.page.mouse.move(1, 1)
    viewer.settle()
    details = viewer.page.locator(".details")
    assert details.locator("h2").inner_text().startswith("elle")
    shown = [float(text) for text in details.locator(".bars b").all_inner_texts()]
    assert shown == pytest.approx(np.sort(weights)[::-1][: len(shown)], abs=6e-5)
    viewer.choose("mode", "Lines")
    assert viewer.tokens() == ["elle", SOURCE[int(weights.argmax())]]
    paths = list(ElementTree.fromstring(viewer.export("SVG")[1]).iter("{http://www.w3.org/2000/svg}path"))
    assert len(paths) <= len(SOURCE) + 1  # its own lines and its gold link
    viewer.page.locator(".unpin").click()
    viewer.settle()
    assert details.locator("h2").inner_text() == "Strongest links"


def test_the_strongest_links_are_listed_while_nothing_is_hovered(
    open_page: Callable[..., Any], saved: Path, maps: dict[str, AttentionMap]
) -> None:
    viewer = Viewer(open_page(saved))

    def listed() -> list[tuple[str, float]]:
        lines = viewer.page.locator(".details .link")
        names, numbers = lines.locator(".pair").all_inner_texts(), lines.locator("b").all_inner_texts()
        return [(name, float(number)) for name, number in zip(names, numbers, strict=True)]

    def expected(matrix: npt.NDArray[Any]) -> list[tuple[str, Any]]:
        best = np.argsort(matrix, axis=None)[::-1][:6]
        places = [np.unravel_index(at, matrix.shape) for at in best]
        return [
            (f"{TARGET[row]} → {SOURCE[column]}", pytest.approx(matrix[row, column], abs=6e-5))
            for row, column in places
        ]

    weights = maps["decoder.2.cross"].weights
    assert listed() == expected(weights[3])
    viewer.page.locator(".all-heads").click()
    viewer.slide("step", 2)
    assert listed() == expected(weights.mean(axis=0)[:2])  # rows that are not decoded yet have no links


def test_the_strongest_links_of_several_heads_name_their_head(
    open_page: Callable[..., Any], saved: Path, maps: dict[str, AttentionMap]
) -> None:
    viewer = Viewer(open_page(saved))
    viewer.choose("mode", "Lines")
    weights = maps["decoder.2.cross"].weights

    def listed() -> list[tuple[str, str, float]]:
        pairs, heads, numbers = (
            viewer.page.locator(f".details .link {part}").all_inner_texts() for part in (".pair", ".head-name", "b")
        )
        return list(zip(pairs, heads, map(float, numbers), strict=True))

    def expected(heads: list[int], rows: int) -> list[tuple[str, str, Any]]:
        chosen = weights[heads, :rows]
        places = [np.unravel_index(at, chosen.shape) for at in np.argsort(chosen, axis=None)[::-1][:6]]
        return [
            (
                f"{TARGET[row]} → {SOURCE[column]}",
                f"head {heads[head]}",
                pytest.approx(chosen[head, row, column], abs=7e-5),
            )
            for head, row, column in places
        ]

    viewer.page.locator(".all-heads").click()
    viewer.settle()
    assert listed() == expected([0, 1, 2, 3], len(TARGET))
    viewer.page.locator(".heads .tile").nth(1).click()
    viewer.page.locator(".heads .tile").nth(3).click(modifiers=["Shift"])
    viewer.slide("step", 5)
    assert listed() == expected([1, 3], 5)


def test_word_start_marks_are_shown_as_dots_on_the_axes_only(open_page: Callable[..., Any], tmp_path: Path) -> None:
    tokens = ["▁un", "do", "▁", "·"]
    weights = softmax(np.random.default_rng(5).normal(size=(2, 4, 4)))
    one = AttentionMap(address="encoder.0.self", rows=tokens, columns=tokens, weights=weights)
    viewer = Viewer(open_page(attention_view([one], title="t").save(tmp_path / "tokens.html")))
    viewer.hover(0, 1)
    assert viewer.tokens() == ["·un", "do"]
    viewer.hover(2, 3)
    assert viewer.tokens() == ["▁", "·"]
    assert "· starts a word" in viewer.page.locator(".legend").inner_text()
    assert viewer.table()[:2] == (tokens, tokens)


def test_controls_without_effect_are_hidden(open_page: Callable[..., Any], saved: Path) -> None:
    viewer = Viewer(open_page(saved))
    layer = viewer.page.locator('[data-choice="layer"] input').first
    numbers = viewer.page.locator('[data-tick="numbers"]')
    threshold, everything = viewer.page.locator('[data-slider="threshold"]'), viewer.page.locator(".all-heads")
    assert everything.inner_text() == "Mean of all heads"
    viewer.choose("mode", "Lines")
    assert everything.inner_text() == "All heads"
    assert (layer.is_enabled(), numbers.is_visible(), threshold.is_visible()) == (True, False, True)
    viewer.choose("mode", "Overview")
    assert (layer.is_enabled(), numbers.is_visible(), threshold.is_visible()) == (False, False, False)
    viewer.choose("mode", "Heat map")
    assert (layer.is_enabled(), numbers.is_visible(), threshold.is_visible()) == (True, True, True)


def test_lines_are_centered_in_their_frame(open_page: Callable[..., Any], saved: Path) -> None:
    viewer = Viewer(open_page(saved))
    viewer.choose("mode", "Lines")
    frame, text = viewer.page.locator(".frame").bounding_box(), viewer.export("SVG")[1]
    width = float(ElementTree.fromstring(text).get("width", "0"))
    starts = [float(found) for found in re.findall(r'<path d="M([\d.]+) ', text)]
    ends = [float(found) for found in re.findall(r'<path d="[^"]* ([\d.]+) [\d.]+"', text)]
    assert width <= frame["width"]
    assert min(starts) == pytest.approx(width - max(ends), abs=2)


def test_labels_are_smaller_in_a_narrow_window(open_page: Callable[..., Any], saved: Path) -> None:
    viewer = Viewer(open_page(saved, width=360))
    texts = ElementTree.fromstring(viewer.export("SVG")[1]).iter("{http://www.w3.org/2000/svg}text")
    labels = [str(node.text) for node in texts if node.get("font-size") == "11"]
    assert sorted(labels) == sorted(SOURCE + TARGET)


def test_lines_of_the_hovered_token(open_page: Callable[..., Any], saved: Path, maps: dict[str, AttentionMap]) -> None:
    viewer = Viewer(open_page(saved))
    viewer.choose("mode", "Lines")
    viewer.page.locator(".all-heads").click()
    viewer.settle()
    everything = viewer.inked()
    box = viewer.page.locator(".stage-canvas").bounding_box()
    stage = viewer.page.locator(".stage")
    top, pitch = (float(stage.get_attribute(f"data-{name}")) for name in ("top", "cell"))
    viewer.page.mouse.move(box["x"] + 200, box["y"] + top + 2.5 * pitch)
    viewer.settle()
    weights = maps["decoder.2.cross"].weights.mean(axis=0)[2]
    said = viewer.page.locator(".readout").inner_text()
    assert viewer.tokens() == ["animal", SOURCE[int(weights.argmax())]]
    assert last_number(said) == pytest.approx(weights.max(), abs=6e-5)
    assert viewer.inked() < everything


def test_decoding_is_played_row_by_row(open_page: Callable[..., Any], saved: Path) -> None:
    viewer = Viewer(open_page(saved))
    viewer.slide("step", 4)
    rows, columns, numbers = viewer.table()
    assert (rows, columns) == (TARGET[:4], SOURCE)
    assert numbers.shape == (4, len(SOURCE))
    assert viewer.page.locator(".chip.now").inner_text() == "n'"
    assert "attends" not in viewer.hover(5, 2)  # a row that is not there yet
    viewer.choose("kind", "Decoder self")
    assert viewer.table()[0] == TARGET[:4]
    viewer.choose("kind", "Encoder self")
    assert not viewer.page.locator(".steps").is_visible()  # the encoder reads everything at once
    viewer.choose("kind", "Cross")
    viewer.slide("step", 12)
    viewer.page.locator(".play").click()
    viewer.page.wait_for_function("() => document.querySelector('[data-slider=step]').value === '14'")
    assert viewer.page.locator(".chip.now").count() == 0
    viewer.page.locator(".play").click()  # from the beginning, and pause
    assert viewer.page.locator(".chip.now").inner_text() == "<start>"
    viewer.page.locator(".play").click()
    assert not viewer.page.locator(".play.playing").count()


def test_a_click_in_the_overview_opens_that_head(open_page: Callable[..., Any], saved: Path) -> None:
    viewer = Viewer(open_page(saved))
    viewer.choose("mode", "Overview")
    assert viewer.page.locator(".overview .tile").count() == 12
    viewer.page.locator('.overview-row[data-address="decoder.1.cross"] .tile').nth(2).click()
    viewer.settle()
    assert (viewer.state("address"), viewer.state("heads"), viewer.state("mode")) == ("decoder.1.cross", "2", "map")


def test_dark_scheme_is_dark(open_page: Callable[..., Any], saved: Path) -> None:
    def brightness(page: Any, name: str) -> float:
        color = page.evaluate("(name) => getComputedStyle(document.body)[name]", name)
        return float(np.mean([float(part) for part in re.findall(r"[\d.]+", color)[:3]]))

    light, dark = open_page(saved), open_page(saved, dark=True)
    assert brightness(light, "backgroundColor") > 200 > 80 > brightness(light, "color")
    assert brightness(dark, "backgroundColor") < 60 < 200 < brightness(dark, "color")
    viewer = Viewer(dark)
    dark_cell = viewer.color(0, 4)
    viewer.page.emulate_media(color_scheme="light")
    viewer.settle()
    assert sum(viewer.color(0, 4)) > sum(dark_cell) + 300  # a weak weight looks like the paper


@pytest.mark.parametrize("width", [340, 700, 1600])
def test_nothing_is_wider_than_the_window(open_page: Callable[..., Any], saved: Path, width: int) -> None:
    viewer = Viewer(open_page(saved, width=width))
    for mode in ("Heat map", "Lines", "Overview"):
        viewer.choose("mode", mode)
        assert viewer.page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_hostile_tokens_stay_text(open_page: Callable[..., Any], tmp_path: Path) -> None:
    hostile = [
        "<img src=x onerror=document.title='taken'>",
        "</script><script>document.title='taken'</script>",
        "<!--",
        "\"'>",
        "שלום",
        "\u202eesrever",
        "🙂",
        "\x00\x1b",
        "\ud800",
        "",
        " ",
        "=1+1",
    ]
    weights = softmax(np.random.default_rng(5).normal(size=(2, 12, 12)))
    one = AttentionMap(address="decoder.0.self", rows=hostile, columns=hostile, weights=weights)
    view = attention_view([one], title=hostile[1], note=hostile[0])
    viewer = Viewer(open_page(view.save(tmp_path / "h.html")))
    assert viewer.page.title() == hostile[1]
    said = viewer.hover(0, 1)
    assert f"{hostile[0]} attends to {hostile[1]}" in said
    viewer.click(1, 1)
    viewer.choose("mode", "Lines")
    ElementTree.fromstring(viewer.export("SVG")[1].encode())
    rows, _, numbers = viewer.table()
    assert [row for row in rows if row != "\ufffd"] == [token for token in hostile if token != "\ud800"]
    assert np.abs(numbers - weights.mean(axis=0)).max() < SIXTEEN_BITS
    assert viewer.page.locator("img").count() == 0
    assert viewer.page.title() == hostile[1]


def test_one_token_and_one_head(open_page: Callable[..., Any], tmp_path: Path) -> None:
    one = AttentionMap(address="alone", rows=["a"], columns=["b"], weights=np.ones((1, 1, 1)))
    viewer = Viewer(open_page(attention_view([one], title="t").save(tmp_path / "one.html")))
    assert last_number(viewer.hover(0, 0)) == 1
    for mode in ("Lines", "Overview", "Heat map"):
        viewer.choose("mode", mode)
        assert not viewer.page.locator(".all-heads").is_visible()
        assert not viewer.page.locator('[data-tick="several"]').is_visible()
    assert viewer.export("CSV")[0] == "alone.head-0.csv"


def test_the_notebook_frame_is_drawn(
    open_page: Callable[..., Any], saved: Path, maps: dict[str, AttentionMap], tmp_path: Path
) -> None:
    view = attention_view([maps["encoder.0.self"]], title="in a notebook")
    page_path = tmp_path / "notebook.html"
    page_path.write_text(f"<!doctype html><body>{view._repr_html_()}</body>", encoding="utf-8")
    frame = open_page(page_path).frame_locator("iframe")
    frame.locator('.attention[data-ready="true"]').wait_for()
    assert frame.locator("h1").inner_text() == "in a notebook"


@pytest.mark.parametrize(("width", "heads", "tokens"), [(760, 3, 14), (760, 12, 80), (1000, 12, 80), (1240, 3, 14)])
def test_the_notebook_frame_shows_whole_panels(
    open_page: Callable[..., Any], tmp_path: Path, width: int, heads: int, tokens: int
) -> None:
    words = [f"word{index}" for index in range(tokens)]
    weights = np.full((heads, tokens, tokens), 1 / tokens)
    maps = [
        AttentionMap(address=f"decoder.{layer}.self", rows=words, columns=words, weights=weights) for layer in range(12)
    ]
    cell = attention_view(maps, title="A sentence that is long enough to fill the line", note="a note")._repr_html_()
    page_path = tmp_path / "notebook.html"
    page_path.write_text(f'<!doctype html><meta charset="utf-8"><body style="margin:0">{cell}</body>', encoding="utf-8")
    page = open_page(page_path, width=width, height=1100)
    page.frame_locator("iframe").locator('.attention[data-ready="true"]').wait_for()
    viewer = page.frames[1]
    for mode in ("Lines", "Overview", "Heat map"):
        viewer.locator('[data-choice="mode"] label').filter(has_text=mode).click()
        viewer.locator(f'.attention[data-mode="{mode.split()[-1].lower()}"][data-ready="true"]').wait_for()
        assert viewer.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        assert viewer.evaluate("() => document.documentElement.scrollHeight <= innerHeight")
        boxes = [panel.bounding_box() for panel in viewer.locator(".panel:visible").all()]
        assert len(boxes) == (2 if mode == "Overview" else 6)
        for one, other in itertools.combinations(boxes, 2):  # no panel covers another
            assert (
                one["x"] + one["width"] <= other["x"]
                or other["x"] + other["width"] <= one["x"]
                or one["y"] + one["height"] <= other["y"]
                or other["y"] + other["height"] <= one["y"]
            )


def test_only_the_visible_part_of_512_tokens_and_144_heads_is_drawn(
    open_page: Callable[..., Any], tmp_path: Path
) -> None:
    """benchmarks/bench_viewer.py measures the time."""
    random = np.random.default_rng(13)
    tokens = [f"token{index}" for index in range(512)]
    scores = random.normal(size=(12, 512, 512)).astype(np.float32) * 2
    scores[:, np.arange(1, 512), np.arange(511)] += 9
    weights = softmax(scores)
    maps = [
        AttentionMap(
            address=f"encoder.{layer}.self", rows=tokens, columns=tokens, weights=np.roll(weights, layer, axis=0)
        )
        for layer in range(12)
    ]
    path = attention_view(maps, title="large").save(tmp_path / "large.html")
    viewer = Viewer(open_page(path))
    viewer.choose("layer", "8")
    viewer.page.locator(".stage").focus()
    viewer.press("ArrowRight")
    assert viewer.state("heads") == "0"
    said = viewer.hover(300, 299)
    assert viewer.tokens() == ["token300", "token299"]
    assert last_number(said) == pytest.approx(maps[8].weights[0, 300, 299], abs=0.0045)
    viewer.choose("mode", "Lines")
    assert "the strongest" in viewer.page.locator(".legend").inner_text()
    viewer.page.locator(".stage").evaluate("(stage) => { stage.scrollTop = 6000; }")
    viewer.settle()
    viewer.choose("mode", "Heat map")
    for _ in range(8):
        viewer.page.get_by_role("button", name="Zoom in").click()
    viewer.settle()
    viewer.page.locator(".stage").evaluate("(stage) => { stage.scrollTop = 4000; stage.scrollLeft = 3000; }")
    viewer.settle()
    canvas = viewer.page.locator(".stage-canvas").bounding_box()
    assert max(canvas["width"], canvas["height"]) < 1300  # only the window is drawn, not 512 cells of 14 pixels


def test_modules_work_as_files_under_a_strict_policy(browser: Any, saved: Path) -> None:
    """As a server would serve them: no inline script, no inline style, imports between files."""
    import regard.views

    folder = Path(str(regard.views.__file__)).parent
    data = re.search(r'id="data">(.*?)</script>', saved.read_text(encoding="utf-8"))
    assert data is not None
    start = (
        'import { render } from "./attention.js";'
        "\n"
        'render(document.getElementById("view"), await (await fetch("data.json")).json());'
    )
    sheets = '<link rel="stylesheet" href="theme.css"><link rel="stylesheet" href="attention.css">'
    body = '<main id="view"></main><script type="module" src="start.js"></script>'
    document = f'<!doctype html><meta charset="utf-8">{sheets}{body}'
    types = {".js": "text/javascript", ".css": "text/css"}
    complaints: list[str] = []

    def serve(route: Any) -> None:
        name = route.request.url.rsplit("/", 1)[1]
        if name == "":
            headers = {"Content-Security-Policy": "default-src 'self'; img-src 'self' data: blob:"}
            route.fulfill(body=document, content_type="text/html", headers=headers)
        elif name == "data.json":
            route.fulfill(body=data[1], content_type="application/json")
        elif name == "start.js":
            route.fulfill(body=start, content_type="text/javascript")
        elif (folder / name).is_file():
            route.fulfill(body=(folder / name).read_text(encoding="utf-8"), content_type=types[Path(name).suffix])
        else:
            route.fulfill(status=204)  # the icon that every browser asks for

    context = browser.new_context()
    try:
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.route("**/*", serve)
        page.goto("http://studio.test/")
        viewer = Viewer(page)
        viewer.choose("mode", "Lines")
        assert viewer.state("address") == "decoder.2.cross"
    finally:
        context.close()
    assert complaints == []
