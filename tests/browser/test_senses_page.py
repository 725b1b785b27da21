"""The senses view in a real browser: words, layers, points, and the nearest sentences of a point."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.views.studies import STATIC, LayerSenses, Senses, WordSenses, senses_view


def make_word(word: str, senses: tuple[str, ...], per_sense: int = 4) -> WordSenses:
    random = np.random.default_rng(len(word))
    count = per_sense * len(senses)
    meant = tuple(sense for sense in senses for _ in range(per_sense))
    texts = tuple(f"🙂 <b>The</b> {word} number {n} & more." for n in range(count))

    def layer(name: str, accuracy: float) -> LayerSenses:
        nearest = np.array([[(n + step) % count for step in range(1, 6)] for n in range(count)])
        return LayerSenses(
            name=name,
            accuracy=accuracy,
            cosines=np.eye(len(senses)),
            within=0.8,
            across=0.25,
            max_distance=0.0,
            positions=np.zeros((count, 2)) if name == STATIC else random.normal(size=(count, 2)),
            nearest=nearest,
            similarities=np.tile(np.linspace(0.9, 0.5, 5), (count, 1)),
        )

    layers = (layer(STATIC, 0.5), layer("0", 0.4), layer("1", 0.75), layer("2", 0.95))
    return WordSenses(word, senses, texts, meant, tuple(t.index(word) for t in texts), 0.5, layers)


@pytest.mark.parametrize("dark", [False, True])
def test_m31_words_layers_and_neighbors(open_page: Callable[..., Any], tmp_path: Path, dark: bool) -> None:
    senses = Senses((make_word("bank", ("money", "river")), make_word("spring", ("season", "water", "coil"))))
    page = open_page(senses_view(senses, title="Same word").save(tmp_path / "s.html"), dark=dark)
    points = page.locator("circle.point")
    assert points.count() == 8
    assert page.locator("figure.chart path.curve").count() == 3, "neighbors, static vector, majority"
    numbers = re.findall(r"[\d.]*\d", page.locator(".numbers").inner_text())
    assert numbers == ["2", "95.0", "50.0", "0.800", "0.250"], "the best layer: its scores, then its cosines"
    assert page.locator(".map .entry").all_text_contents() == ["money 4", "river 4"]
    points.first.hover(force=True)
    told = page.locator(".sentence-details")
    assert told.locator(".sentence bdi").inner_text() == senses.words[0].texts[0]
    assert told.locator(".sentence b").inner_text() == "bank"
    rows = told.locator("ol.nearest li")
    assert rows.count() == 5
    assert "number 1" in rows.first.inner_text() and "0.900" in rows.first.inner_text()
    assert told.locator("li.differs").count() == 2, "numbers 4 and 5 are of the other sense"
    points.first.click(force=True)
    page.mouse.move(2, 2)
    assert "number 0" in told.inner_text(), "a click pins the sentence"
    assert page.locator(".map line.cursor-line").count() == 5
    page.locator('[data-slider="layer"]').fill("0")
    assert re.findall(r"[\d.]*\d", page.locator(".numbers").inner_text())[:2] == ["50.0", "50.0"]
    assert len({(p.get_attribute("cx"), p.get_attribute("cy")) for p in points.all()}) == 1
    page.locator('[data-choice="word"] label').nth(1).click()
    page.locator("circle.point").nth(11).wait_for(state="attached")  # the page redraws in its own time
    assert page.locator("circle.point").count() == 12
    assert page.locator(".sentence-details .sentence").count() == 0
