"""The training report and the token view in a real browser."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.views.attention import AttentionMap, attention_view
from regard.views.report import report_view
from regard.views.tokens import TokenColumn, tokens_view
from regard.views.view import View


def attention(title: str) -> View:
    weights = np.full((2, 3, 5), 0.2)
    return attention_view(
        [AttentionMap(address="decoder.0.cross", rows=list("abc"), columns=list("vwxyz"), weights=weights)], title=title
    )


@pytest.fixture
def report(tmp_path: Path) -> Path:
    steps = range(10, 2001, 10)
    noise = np.random.default_rng(3).normal(size=len(steps)) * 0.3
    curves = {
        "train loss": [(step, 1 + 6 * math.exp(-step / 400) + extra) for step, extra in zip(steps, noise, strict=True)],
        "validation loss": [(500, 3.25), (1000, math.nan), (1500, 1.5)],
        "learning rate": [(step, 0.001 * step / 2000) for step in steps],
        "drift": [(1, -1.0), (2, 0.0)],
        "nothing": [(1, math.nan)],
    }
    samples = [
        ("The cat sleeps.", "Le chat dort.", "Le chat dort."),
        ("<b>It</b> is wide.", "Elle est large.", "Il est très large."),
    ]
    return report_view(
        title="A run <script>",
        summary="short",
        curves=curves,
        samples=samples * 6,
        scores=[("BLEU", 41.25, "nrefs:1|case:mixed")],
        settings={"model": {"d_model": 7}},
        notes=["device: cpu (no accelerator found)"],
        attention=[("one", attention("first sentence")), ("two " * 30, attention("second sentence"))],
    ).save(tmp_path / "report.html")


def test_report_shows_every_part(open_page: Callable[..., Any], report: Path) -> None:
    page = open_page(report)
    assert page.locator("h1").inner_text() == "A run <script>"
    assert page.locator("section[data-section] > .section-title").all_inner_texts() == [
        *("Curves", "Samples", "Attention", "Automatic choices", "Settings")
    ]
    assert page.locator(".score").inner_text().split("\n") == ["BLEU", "41.25", "nrefs:1|case:mixed"]
    assert page.locator(".notes li").all_inner_texts() == ["device: cpu (no accelerator found)"]
    assert page.locator(".setting").inner_text().split() == ["model.d_model", "7"]


def test_hovering_a_curve_shows_its_value(open_page: Callable[..., Any], report: Path) -> None:
    page = open_page(report)
    loss = page.locator('[data-chart="loss"]')
    assert "validation loss 1.5" in loss.locator(".chart-legend").inner_text().replace("\n", " ")
    box = loss.locator("svg").bounding_box()
    page.mouse.move(box["x"] + 50, box["y"] + 80)
    said = loss.locator(".chart-legend").inner_text().replace("\n", " ")
    assert loss.locator(".axis-caption").text_content() == "step 10"
    assert "validation loss 3.25" in said  # the nearest point of the sparser curve
    assert loss.locator(".cursor-line").count() == 1
    page.mouse.move(1, 1)
    assert loss.locator(".axis-caption").text_content() == "step"
    assert loss.locator(".cursor-line").count() == 0


def test_the_legend_of_a_single_curve_shows_only_its_value(open_page: Callable[..., Any], report: Path) -> None:
    page = open_page(report)
    alone = page.locator('[data-chart="learning rate"]')
    assert alone.locator(".chart-legend").inner_text().split() == ["last", "0.001"]
    box = alone.locator("svg").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 80)
    assert float(alone.locator(".chart-legend").inner_text()) == pytest.approx(0.0005, rel=0.2)


def test_axes_start_at_a_labelled_round_number(open_page: Callable[..., Any], report: Path) -> None:
    loss = open_page(report).locator('[data-chart="loss"]')
    lines = [float(line.get_attribute("y1")) for line in loss.locator(".grid-line").all()]
    lowest = max(
        float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", str(loss.locator(".curve").first.get_attribute("d")))
    )
    assert "0" in loss.locator(".axis-text").all_text_contents()
    assert max(lines) >= lowest  # no part of the curve lies below the lowest line


def test_logarithmic_axis_is_offered_where_it_makes_sense(open_page: Callable[..., Any], report: Path) -> None:
    page = open_page(report)
    loss = page.locator('[data-chart="loss"]')
    before = loss.locator("path.curve").last.get_attribute("d")
    loss.locator('[data-tick="log"]').click()
    assert loss.locator("path.curve").last.get_attribute("d") != before
    loss.locator('[data-tick="smooth"]').click()
    assert loss.locator("path.faint").count() == 0
    assert page.locator('[data-chart="drift"] [data-tick="log"]').count() == 0  # it has values that are not positive
    assert page.locator('[data-chart="learning rate"] [data-tick="smooth"]').count() == 0  # it is not noisy
    empty = page.locator('[data-chart="nothing"] svg')
    assert (empty.locator("path").count(), empty.locator(".axis-text").count()) == (0, 1), "a message instead of curves"


def test_samples_mark_the_words_that_differ(open_page: Callable[..., Any], report: Path) -> None:
    page = open_page(report)
    rows = page.locator(".samples tbody tr")
    assert rows.count() == 8
    assert rows.nth(0).locator("mark").count() == 0
    assert rows.nth(1).locator("mark").all_inner_texts() == ["Il", "très"]
    assert rows.nth(1).locator("td").first.inner_text() == "<b>It</b> is wide."
    page.get_by_role("button", name="Show all 12").click()
    assert rows.count() == 12


def test_samples_without_references_are_not_compared(open_page: Callable[..., Any], tmp_path: Path) -> None:
    samples = [("The cat sleeps.", "", "Le chat dort."), ("It is wide.", "", "Elle est large.")]
    page = open_page(report_view(title="t", curves={}, samples=samples).save(tmp_path / "plain.html"))
    assert page.locator(".samples th").all_inner_texts() == ["Source", "Output"]
    assert page.locator(".samples td").all_inner_texts() == [sample[at] for sample in samples for at in (0, 2)]
    assert page.locator(".samples caption, .samples .mark, .samples mark").count() == 0


def test_continuations_are_shown_beside_the_true_text_without_scores(
    open_page: Callable[..., Any], tmp_path: Path
) -> None:
    names = ("Prompt", "True continuation", "Generated continuation")
    samples = [("To be,", "or not to be", "or to sleep"), ("Once upon", "a time", "a time")]
    view = report_view(title="t", curves={}, samples=samples, sample_names=names, compared=False)
    page = open_page(view.save(tmp_path / "continuations.html"))
    assert page.locator(".samples th").all_inner_texts() == list(names)
    assert page.locator(".samples td").all_inner_texts() == [part for sample in samples for part in sample]
    assert page.locator(".samples caption, .samples .mark, .samples mark").count() == 0


def test_attention_of_each_sentence_opens_in_the_same_viewer(open_page: Callable[..., Any], report: Path) -> None:
    page = open_page(report)
    assert page.locator(".attention:visible h3").first.inner_text() == "first sentence"
    page.locator('[data-choice="sentence"] label').nth(1).click()
    assert page.locator(".attention:visible").count() == 1
    assert page.locator(".attention:visible h3").first.inner_text() == "second sentence"
    page.locator(".attention:visible .tile").nth(1).click()
    assert page.locator(".attention:visible").get_attribute("data-heads") == "1"


@pytest.mark.parametrize(("width", "dark"), [(340, False), (800, True), (1600, False)])
def test_report_fits_the_window(open_page: Callable[..., Any], report: Path, width: int, dark: bool) -> None:
    page = open_page(report, width=width, dark=dark)
    page.locator('.attention[data-ready="true"]').wait_for()
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_an_empty_report_is_still_a_page(open_page: Callable[..., Any], tmp_path: Path) -> None:
    page = open_page(report_view(title="empty", curves={}).save(tmp_path / "empty.html"))
    assert page.locator("section").count() == 0


TEXT = "undo it,\nשלום <b>日</b>"
TOKENS = [
    ("un", "▁un", 5),
    ("do", "do", 7),
    (" it", "▁it", 11),
    (",\n", ",\n", 13),
    ("שלום", "שלום", 17),
    (" <b>", "<b>", 19),
    ("日", "<0xE6>", 23),
    ("", "<0x97>", 29),
    ("</b>", "</b>", 31),
]


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    merges = [
        ["▁ u n d o", "▁u n d o", "▁un d o", "▁un do"],
        ["▁it"],
        [",\n"],
        ["שלום"],
        ["<b>"],
        ["<0xE6> <0x97>"],
        ["</b>"],
    ]
    columns = [
        TokenColumn(name="bpe", tokens=TOKENS, derivations=merges),
        TokenColumn(name="characters", tokens=[(character, character, ord(character)) for character in TEXT]),
    ]
    return tokens_view(columns, title="undo").save(tmp_path / "tokens.html")


def test_spans_are_the_tokens_and_join_to_the_text(open_page: Callable[..., Any], tokens: Path) -> None:
    page = open_page(tokens)
    for place, count in enumerate((len(TOKENS), len(TEXT))):
        column = page.locator(".token-column").nth(place)
        spans = column.locator(".token-span")
        assert spans.count() == count
        assert "".join(spans.all_text_contents()) == TEXT
        colors = spans.evaluate_all("(spans) => spans.map((span) => getComputedStyle(span).backgroundColor)")
        assert all(one != other for one, other in itertools.pairwise(colors))
    assert page.locator("b").count() == 0  # the text's own markup stays text


def test_hovering_shows_token_and_id(open_page: Callable[..., Any], tokens: Path) -> None:
    page = open_page(tokens)
    column = page.locator(".token-column").first
    column.locator(".token-span").nth(2).hover()
    assert column.locator(".token-report").inner_text() == "▁it has id 11, token 3 of 9, covering it"
    column.locator(".token-span").nth(7).hover()
    assert column.locator(".token-report").inner_text() == "<0x97> has id 29, token 8 of 9"


def test_a_click_shows_the_merges_of_a_word(open_page: Callable[..., Any], tokens: Path) -> None:
    page = open_page(tokens)
    column = page.locator(".token-column").first
    column.locator(".token-span").nth(1).click()
    assert column.locator(".merges h3").inner_text() == "3 merges, first to last"
    assert column.locator(".merges .made").all_inner_texts() == ["▁u", "▁un", "do"]
    assert column.locator(".same-word").all_text_contents() == ["un", "do"]
    column.locator(".token-span").nth(1).press("Enter")
    assert column.locator(".merges li").count() == 0


def test_ids_can_be_shown_without_changing_the_text(open_page: Callable[..., Any], tokens: Path) -> None:
    page = open_page(tokens, dark=True, width=340)
    page.locator('[data-tick="ids"]').click()
    label = page.locator(".token-span").first.evaluate("(span) => getComputedStyle(span, '::after').content")
    assert label == '"5"'
    assert "".join(page.locator(".token-column").first.locator(".token-span").all_text_contents()) == TEXT
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 340
