"""The token view: tokens, the words they belong to, and the still picture."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from regard.utils.errors import UsageError
from regard.views.tokens import TokenColumn, tokens_view

TOKENS = [("un", "▁un", 5), ("do", "do", 7), (" it", "▁it", 11)]


def test_data_hold_tokens_and_owners() -> None:
    column = TokenColumn(name="bpe", tokens=TOKENS, derivations=[["▁ u n d o", "▁u n d o", "▁un do"], ["▁it"]])
    data = tokens_view([column], title="t").data["columns"][0]
    assert data["tokens"] == [["un", "▁un", 5], ["do", "do", 7], [" it", "▁it", 11]]
    assert data["owners"] == [0, 0, 1]
    assert data["words"][0][-1] == "▁un do"


@pytest.mark.parametrize("derivations", [None, [], [["▁un do"]], [["a b c d"]], [[]]])
def test_merges_that_do_not_fit_the_tokens_are_not_attached(derivations: list[list[str]] | None) -> None:
    column = TokenColumn(name="bpe", tokens=TOKENS, derivations=derivations)
    assert tokens_view([column]).data["columns"][0]["owners"] == []


def test_still_picture_shows_each_token_with_its_id() -> None:
    hostile = [("</svg>", "x", 1), ("", "<0xE6>", 2), ("\n", "\n", 3), ("שלום", "y", 4), ("w" * 90, "w", 6)]
    svg = tokens_view([TokenColumn(name="<a>", tokens=TOKENS + hostile)], title="<t>").svg()
    texts = [node.text for node in ElementTree.fromstring(svg.encode()).iter("{http://www.w3.org/2000/svg}text")]
    assert texts[:2] == ["<t>", "<a> · 8 tokens"]
    assert texts[2:] == [
        *("un", "5", "do", "7", " it", "11", "</svg>", "1", "<0xE6>", "2", "⏎", "3", "שלום", "4"),
        *("w" * 39 + "…", "6"),
    ]


def test_an_empty_text_has_a_picture() -> None:
    assert "0 tokens" in tokens_view([TokenColumn(name="bpe", tokens=[])]).svg()


def test_bad_columns_are_refused() -> None:
    with pytest.raises(UsageError) as error:
        tokens_view([])
    assert error.value.argument == "columns"
    with pytest.raises(UsageError) as error:
        tokens_view([TokenColumn(name="bpe", tokens=[("a", "a", 1), ("a", 3)])])  # type: ignore[list-item]
    assert error.value.value == ("a", 3)
