"""The five steps of an attention in a real browser: in order, with their shapes, every number readable."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.views.steps import AttentionSteps, steps_view

WORDS = ["Thinking", "<b>Machines</b>"]


@pytest.fixture(scope="module")
def steps(some_steps: Callable[..., AttentionSteps]) -> AttentionSteps:
    """Steps with the shapes of the original Transformer: 8 heads of 64."""
    return some_steps(2, 2, 512, 8, 64, cross=False, rows=WORDS, columns=WORDS, remarks={4: "A remark."})


@pytest.fixture
def saved(steps: AttentionSteps, tmp_path: Path) -> Path:
    return steps_view(steps, title="Thinking Machines", note="a note").save(tmp_path / "steps.html")


def ready(page: Any) -> Any:
    page.wait_for_selector('.attention-steps[data-ready="true"]')
    return page


def hover(page: Any, name: str, rows: int, columns: int, row: int, column: int) -> str:
    """Point at a cell and return the text of its tooltip."""
    cells = page.locator(f'.cells[data-name="{name}"]')
    cells.scroll_into_view_if_needed()
    box = cells.bounding_box()
    page.mouse.move(box["x"] + (column + 0.5) / columns * box["width"], box["y"] + (row + 0.5) / rows * box["height"])
    return str(page.locator(".steps-tip").inner_text()).replace("\n", " ")


def number(said: str) -> float:
    return float(re.findall(r"[−-]?\d+\.\d+", said)[-1].replace("−", "-"))


def test_m99_five_numbered_steps_in_order(open_page: Callable[..., Any], saved: Path) -> None:
    page = ready(open_page(saved))
    assert page.locator("h1").inner_text() == "Thinking Machines"
    shape = re.findall(r"\d+", page.locator("header + .note").inner_text())[-3:]
    assert shape == ["512", "8", "64"], "d_model, heads, d_k"
    items = page.locator(".five > li")
    assert items.locator(".number").all_inner_texts() == ["1", "2", "3", "4", "5"]
    tops = [box["y"] for box in (items.nth(at).bounding_box() for at in range(5))]
    assert tops == sorted(tops)
    titles = [text.split("\n")[-1] for text in items.locator("h2").all_inner_texts()]
    assert titles[0] == "The sentence"
    assert titles[1] == "Each token becomes a vector: X"
    assert titles[2].startswith("Split into 8 heads: multiply X")
    assert titles[3].startswith("Attention in each head")
    assert "WO" in titles[4]
    assert items.nth(0).locator(".word").all_inner_texts() == WORDS
    assert items.nth(2).locator(".head-card").count() == items.nth(3).locator(".head-card").count() == 8
    assert "A remark." in items.nth(3).inner_text()


def test_m99_every_matrix_shows_its_shape(open_page: Callable[..., Any], saved: Path) -> None:
    page = ready(open_page(saved))
    captions = [
        [" ".join(text.split()) for text in page.locator(f'[data-step="{at}"] figcaption').all_inner_texts()]
        for at in range(1, 6)
    ]
    assert captions[0] == []
    assert captions[1] == ["X 2 × 512"]
    assert captions[2] == [f"W{letter}{head} 512 × 64" for head in range(8) for letter in "QKV"]
    assert captions[3] == [
        text for h in range(8) for text in (*(f"{x}{h} 2 × 64" for x in "QKV"), f"A{h} 2 × 2", f"Z{h} 2 × 64")
    ]
    assert captions[4] == ["Z0 … Z7 2 × 512", "WO 512 × 512", "Z 2 × 512"]
    ordinals = re.findall(r"(\d+)(?:st|nd|rd|th)\b", page.locator('[data-step="3"]').inner_text())
    assert ordinals == ["8", "2"], "which rows and which columns are drawn"


def test_hovering_a_cell_shows_its_number(open_page: Callable[..., Any], saved: Path, steps: AttentionSteps) -> None:
    page = ready(open_page(saved))
    for name, array, row, column in (
        ("X", steps.inputs, 1, 300),
        ("Q3", steps.queries[3], 1, 17),
        ("V7", steps.values[7], 0, 63),
        ("Z0", steps.heads[0], 1, 0),
        ("Z", steps.output, 0, 511),
    ):
        said = hover(page, name, *array.shape, row, column)
        assert said.startswith(name) and f"{WORDS[row]}, column {column} " in said
        assert number(said) == pytest.approx(array[row, column], abs=2e-4)
    said = hover(page, "A5", 2, 2, 1, 0)
    assert f"{WORDS[1]} → {WORDS[0]}" in said
    assert number(said) == pytest.approx(steps.weights[5, 1, 0], abs=5e-5)
    page.mouse.move(2, 2)
    assert page.locator(".steps-tip").is_hidden()


def test_sampled_and_joined_matrices_show_the_true_row_and_column(
    open_page: Callable[..., Any], saved: Path, steps: AttentionSteps
) -> None:
    page = ready(open_page(saved))
    said = hover(page, "W^K6", 64, 32, 5, 9)  # every 8th row and every 2nd column
    assert "row 40, column 18 " in said
    assert number(said) == pytest.approx(steps.key_matrices[6, 40, 18], abs=2e-4)
    said = hover(page, "joined heads", 2, 512, 1, 3 * 64 + 21)
    assert said.startswith("Z3") and ", column 21 " in said
    assert number(said) == pytest.approx(steps.heads[3, 1, 21], abs=2e-4)


def test_arrow_keys_move_between_cells(open_page: Callable[..., Any], saved: Path, steps: AttentionSteps) -> None:
    page = ready(open_page(saved))
    page.locator('.cells[data-name="K1"]').focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft"):
        page.keyboard.press(key)
    said = page.locator(".steps-tip").inner_text().replace("\n", " ")
    assert f"{WORDS[1]}, column 1 " in said
    assert number(said) == pytest.approx(steps.keys[1, 1, 1], abs=2e-4)
    page.keyboard.press("Tab")
    assert page.locator(".steps-tip").is_hidden()


def test_colors_show_the_sign(open_page: Callable[..., Any], saved: Path, steps: AttentionSteps) -> None:
    """Positive values are blue, negative ones red; a dark theme has darker colors."""
    read = """(name) => {
        const canvas = document.querySelector(`.cells[data-name="${name}"] canvas`);
        const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
        copy.drawImage(canvas, 0, 0);
        return Array.from(copy.getImageData(0, 0, canvas.width, canvas.height).data);
    }"""
    page = ready(open_page(saved))
    pixels = np.array(page.evaluate(read, "Q3")).reshape(2, 64, 4).astype(int)
    clear = np.abs(steps.queries[3]) > 0.5
    assert clear.sum() > 40
    assert ((pixels[..., 2] > pixels[..., 0]) == (steps.queries[3] > 0))[clear].all()
    page.emulate_media(color_scheme="dark")
    is_darker = f"""([name, total]) => {{
        const pixels = ({read})(name);
        return pixels.reduce((sum, value, at) => sum + (at % 4 < 3 ? value : 0), 0) < total;
    }}"""
    page.wait_for_function(is_darker, arg=["Q3", int(pixels[..., :3].sum())])


@pytest.mark.parametrize(("width", "dark"), [(340, False), (420, True), (1280, True), (1600, False)])
def test_the_page_fits_the_window(open_page: Callable[..., Any], saved: Path, width: int, dark: bool) -> None:
    page = ready(open_page(saved, width=width, dark=dark))
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    boxes = [page.locator(where).bounding_box() for where in ('.cells[data-name="joined heads"]', ".bands")]
    assert boxes[0]["width"] == boxes[1]["width"] >= 512  # each head's name stands under its own columns


def test_cross_attention_and_truncated_texts_are_labelled(
    open_page: Callable[..., Any], some_steps: Callable[..., AttentionSteps], tmp_path: Path
) -> None:
    words, memory = [f"▁word{i}" for i in range(5)], [f"m{i}" for i in range(40)]
    view = steps_view(some_steps(5, 40, 66, 3, 22, rows=words, columns=memory), title="long")
    page = ready(open_page(view.save(tmp_path / "long.html")))
    first = page.locator('[data-step="1"]')
    assert first.locator(".word").all_inner_texts()[:6] == [f"·word{i}" for i in range(5)] + ["m0"]
    assert first.locator(".words").last.locator(".word").count() == 32
    assert "32 of 40" in first.inner_text()
    assert page.locator('[data-step="2"] h2').inner_text().endswith("R, the output of the layer below")
    captions = [" ".join(text.split()) for text in page.locator('[data-step="2"] figcaption').all_inner_texts()]
    assert captions == ["R 5 × 66", "M 40 × 66"]
    formula = " ".join(page.locator(".formula").inner_text().split())
    assert formula == "R × WQi = Qi M × WKi = Ki M × WVi = Vi"
    assert "word4, column 65" in hover(page, "R", 5, 66, 4, 65)
    assert "m31, column 0" in hover(page, "K2", 32, 22, 31, 0)
