"""The text column of a table: recognized, in order, with line breaks and empty texts, or refused by name."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from regard.data.inputs import read_text_column, read_text_pairs
from regard.utils.errors import DataError, MissingColumnError, UsageError


@pytest.mark.parametrize(
    ("name", "content", "texts"),
    [
        ("a.csv", 'id,comment,label\n1,"one, two",x\n2,"a\nb",y\n', ["one, two", "a\nb"]),
        ("b.tsv", "text\tlabel\none\tx\n\ty\n", ["one", ""]),
        ("c.tsv", "no header\nbut one column\n", ["no header", "but one column"]),
        ("d.jsonl", '{"Text": "one"}\n{"label": 3, "text": "two"}\n', ["one", "two"]),
        ("e.csv", "\ufefftext\none\n", ["one"]),
        ("f.csv", "\n\nid,text\n1,one\n\n2,two\n", ["one", "", "two"]),
        ("g.tsv", " \ntext\none\n", ["one"]),
        ("h.tsv", "\none\ntwo\n", ["", "one", "two"]),
    ],
)
def test_texts_of_tables(tmp_path: Path, name: str, content: str, texts: list[str]) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert read_text_column(tmp_path / name) == texts


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("a.csv", "stars,words\n1,fine\n", None),
        ("b.jsonl", '{"words": "fine"}\n', None),
        ("c.jsonl", '{"text": 3}\n', 1),
        ("d.tsv", "", None),
        ("e.csv", "text,label\n", None),
        ("f.csv", "text,text\na,b\n", None),
        ("g.csv", "text,label\nfine, really,good\n", 2),
    ],
)
def test_tables_without_texts(tmp_path: Path, name: str, content: str, line: int | None) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_text_column(tmp_path / name)
    assert (caught.value.path, caught.value.line) == (tmp_path / name, line)


@pytest.mark.parametrize(
    ("name", "content", "column", "texts"),
    [
        ("a.csv", "who,What\nI,fine\n", "what", ["fine"]),
        ("b.csv", "who,what\nI,fine\n", "2", ["what", "fine"]),
        ("c.csv", "label,what\ngood,fine\n", "2", ["fine"]),
        ("d.tsv", "I\tfine\nyou\tawful\n", "2", ["fine", "awful"]),
        ("e.jsonl", '{"who": "I", "What": "fine"}\n{"what": "awful"}\n', "what", ["fine", "awful"]),
        ("f.csv", "text;1\nfine;2\n", "1", ["2"]),
    ],
)
def test_a_requested_column(tmp_path: Path, name: str, content: str, column: str, texts: list[str]) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert read_text_column(tmp_path / name, column) == texts


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.csv", "who,what\nI,fine\n"), ("b.jsonl", '{"who": "I", "what": "fine"}\n'), ("c.tsv", "who\twhat\nI\tx\n")],
)
def test_a_missing_column(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(MissingColumnError) as caught:
        read_text_column(tmp_path / name, "Wat")
    error = caught.value
    assert (error.argument, error.value, error.allowed, error.hint) == ("text_column", "Wat", ("who", "what"), "what")
    with pytest.raises(MissingColumnError) as caught:
        read_text_column(tmp_path / name, "3")
    assert caught.value.value == "3"
    with pytest.raises(MissingColumnError) as caught:
        read_text_pairs(tmp_path / name, first_column="who", second_column="Reply")
    assert (caught.value.argument, caught.value.value) == ("second_column", "Reply")
    for columns in (("who", "WHO"), ("who", "1"), ("1", "1")):
        with pytest.raises(UsageError):
            read_text_pairs(tmp_path / name, first_column=columns[0], second_column=columns[1])
    assert read_text_pairs(tmp_path / name, first_column="What", second_column="WHO")[0][1] == "I"


def test_unreadable_headers(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("\n", encoding="utf-8")
    with pytest.raises(DataError):
        read_text_column(tmp_path / "a.csv", "text")
    (tmp_path / "b.csv").write_bytes(b"t\xffxt,label\nfine,good\n")
    with pytest.raises(DataError) as caught:
        read_text_column(tmp_path / "b.csv", "text")
    assert caught.value.line == 1


def test_hints_name_only_flags_that_exist(tmp_path: Path) -> None:
    for name, read in (("a.tsv", read_text_column), ("b.tsv", read_text_pairs)):
        (tmp_path / name).write_bytes(b"one\ttwo\n\xff\tthree\n" if read is read_text_pairs else b"one\n\xff\n")
        with pytest.raises(DataError) as caught:
            read(tmp_path / name)
        assert caught.value.line == 2
        assert "--skip-bad-rows" not in str(caught.value)


PAIRS = [("a b", "c, d"), ('e "f"', "g\nh")]


@pytest.mark.parametrize(
    ("name", "content", "pairs"),
    [
        ("a.tsv", "a b\tc, d\n", PAIRS[:1]),
        ("b.tsv", "id\tsentence1\tsentence2\tlabel\n1\ta b\tc, d\tx\n2\te\tf\n", [PAIRS[0], ("e", "f")]),
        ("c.tsv", "\n#1 String\t#2 String\na b\tc, d\n\n", PAIRS[:1]),
        ("d.csv", 'Hypothesis,premise\n"c, d",a b\n"g\nh","e ""f"""\n', PAIRS),
        ("e.csv", 'a b,"c, d"\n"e ""f""","g\nh"\n\n', PAIRS),
        ("f.jsonl", '{"Question1": "a b", "question2": "c, d"}\n{"text1": "e \\"f\\"", "text2": "g\\nh"}\n', PAIRS),
        ("g.txt", "\ufeffa b\tc, d\r\nfirst\tsecond\r\n", [PAIRS[0], ("first", "second")]),
        ("h.txt", "first\tsecond\na b\tc, d\n", [("first", "second"), PAIRS[0]]),
    ],
)
def test_pairs_of_tables(tmp_path: Path, name: str, content: str, pairs: list[tuple[str, str]]) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode())
    assert read_text_pairs(path) == pairs
    assert read_text_pairs(name, content.encode()) == pairs, "as bytes that came from somewhere"
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(content.encode()))
    assert read_text_pairs(packed) == pairs


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("a.tsv", "a\tb\nalone\nc\td\n", 2),
        ("b.tsv", "a\tb\n\nc\td\n", 2),
        ("c.tsv", "a\tb\nc\td\te\n", 2),
        ("d.csv", "premise,hypothesis\na,\n", 2),
        ("e.csv", 'premise,hypothesis\n"a\nb",c\nd\n', 4),
        ("f.csv", "one,two,three\na,b,c\n", None),
        ("g.csv", "premise,hypothesis,premise\na,b,c\n", None),
        ("h.jsonl", '{"premise": "a"}\n', None),
        ("i.jsonl", '{"premise": "a", "hypothesis": 3}\n', 1),
        ("j.jsonl", '{"premise": "\\ud83d", "hypothesis": "b"}\n', 1),
        ("k.jsonl", "[]\n", 1),
        ("l.txt", "a b\n", None),
        ("m.txt", " \tb\n", 1),
        ("n.txt", "a\tb\tc\n", None),
        ("o.txt", "", None),
        ("p.tsv", "premise\thypothesis\n", None),
        ("q.jsonl", '{"premise": "a", "hypothesis": "b"}\n{"premise": "a"}\n', 2),
    ],
)
def test_tables_without_pairs(tmp_path: Path, name: str, content: str, line: int | None) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_text_pairs(tmp_path / name)
    assert (caught.value.path, caught.value.line) == (tmp_path / name, line)
