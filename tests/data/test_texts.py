"""The text column of a table: recognised, in order, with line breaks and empty texts, or refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.data.texts import read_text_column
from regard.errors import DataError


@pytest.mark.parametrize(
    ("name", "content", "texts"),
    [
        ("a.csv", 'id,comment,label\n1,"one, two",x\n2,"a\nb",y\n', ["one, two", "a\nb"]),
        ("b.tsv", "text\tlabel\none\tx\n\ty\n", ["one", ""]),
        ("c.tsv", "no header\nbut one column\n", ["no header", "but one column"]),
        ("d.jsonl", '{"Text": "one"}\n{"label": 3, "text": "two"}\n', ["one", "two"]),
        ("e.csv", "\ufefftext\none\n", ["one"]),
    ],
)
def test_texts_of_tables(tmp_path: Path, name: str, content: str, texts: list[str]) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert read_text_column(tmp_path / name) == texts


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "stars,words\n1,fine\n", r"which of its columns \(stars, words\) holds the texts"),
        ("b.jsonl", '{"words": "fine"}\n', r"b.jsonl:1: .*text"),
        ("c.jsonl", '{"text": 3}\n', r"c.jsonl:1: "),
        ("d.tsv", "", "d.tsv"),
        ("e.csv", "text,label\n", "holds no texts"),
    ],
)
def test_tables_without_texts(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_text_column(tmp_path / name)
