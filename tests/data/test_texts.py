"""The text column of a table: recognised, in order, with line breaks and empty texts, or refused by name."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from regard.data.texts import read_text_column, read_text_pairs
from regard.errors import DataError, MissingColumnError


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
    ("name", "content", "message"),
    [
        ("a.csv", "stars,words\n1,fine\n", r"which of its columns \(stars, words\) holds the texts"),
        ("b.jsonl", '{"words": "fine"}\n', r"b.jsonl:1: .*text"),
        ("c.jsonl", '{"text": 3}\n', r"c.jsonl:1: "),
        ("d.tsv", "", "d.tsv"),
        ("e.csv", "text,label\n", "holds no texts"),
        ("f.csv", "text,text\na,b\n", "2 columns are called 'text'"),
    ],
)
def test_tables_without_texts(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_text_column(tmp_path / name)


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
def test_a_column_that_was_asked_for(tmp_path: Path, name: str, content: str, column: str, texts: list[str]) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert read_text_column(tmp_path / name, column) == texts


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.csv", "who,what\nI,fine\n"), ("b.jsonl", '{"who": "I", "what": "fine"}\n'), ("c.tsv", "who\twhat\nI\tx\n")],
)
def test_a_column_that_is_not_there(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(MissingColumnError, match=r"no column 'Wat'; .*: who, what\. Did you mean 'what'\?"):
        read_text_column(tmp_path / name, "Wat")
    with pytest.raises(MissingColumnError, match=r"no column '3'; its columns are: who, what"):
        read_text_column(tmp_path / name, "3")
    with pytest.raises(MissingColumnError, match=r"no column 'Reply'"):
        read_text_pairs(tmp_path / name, columns=("who", "Reply"))
    assert read_text_pairs(tmp_path / name, columns=("What", "WHO"))[0][1] == "I"


def test_files_with_nothing_to_name_say_what_is_wrong_with_them(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("\n", encoding="utf-8")
    with pytest.raises(DataError, match="holds no texts"):
        read_text_column(tmp_path / "a.csv", "text")
    (tmp_path / "b.csv").write_bytes(b"t\xffxt,label\nfine,good\n")
    with pytest.raises(DataError, match="not valid UTF-8"):
        read_text_column(tmp_path / "b.csv", "text")


def test_advice_names_no_flag_that_is_not_there(tmp_path: Path) -> None:
    for name, read in (("a.tsv", read_text_column), ("b.tsv", read_text_pairs)):
        (tmp_path / name).write_bytes(b"one\ttwo\n\xff\tthree\n" if read is read_text_pairs else b"one\n\xff\n")
        with pytest.raises(DataError, match=r"1 of 2 (.|\n)*:2: not valid UTF-8 (.|\n)*Correct them") as caught:
            read(tmp_path / name)
        assert "--skip-bad-rows" not in str(caught.value)


PAIRS = [("a b", "c, d"), ('e "f"', "g\nh")]


@pytest.mark.parametrize(
    ("name", "content", "pairs"),
    [
        ("a.tsv", "a b\tc, d\n", PAIRS[:1]),
        ("b.tsv", "id\tsentence1\tsentence2\tlabel\n1\ta b\tc, d\tx\n2\te\tf\n", [PAIRS[0], ("e", "f")]),
        ("c.tsv", "\n#1 String\t#2 String\n\n", None),
        ("d.csv", 'Hypothesis,premise\n"c, d",a b\n"g\nh","e ""f"""\n', PAIRS),
        ("e.csv", 'a b,"c, d"\n"e ""f""","g\nh"\n\n', PAIRS),
        ("f.jsonl", '{"Question1": "a b", "question2": "c, d"}\n{"text1": "e \\"f\\"", "text2": "g\\nh"}\n', PAIRS),
        ("g.txt", "\ufeffa b\tc, d\r\nfirst\tsecond\r\n", [PAIRS[0], ("first", "second")]),
        ("h.txt", "first\tsecond\na b\tc, d\n", [("first", "second"), PAIRS[0]]),
    ],
)
def test_pairs_of_tables(tmp_path: Path, name: str, content: str, pairs: list[tuple[str, str]] | None) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode())
    if pairs is None:
        with pytest.raises(DataError, match=rf"{name}:1: empty line"):
            read_text_pairs(path)
        return
    assert read_text_pairs(path) == pairs
    assert read_text_pairs(name, content.encode()) == pairs, "as bytes that came from somewhere"
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(content.encode()))
    assert read_text_pairs(packed) == pairs


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", "a\tb\nalone\nc\td\n", r"1 of 3 pairs cannot be used:\n.*a\.tsv:2: 1 column, 2 needed"),
        ("b.tsv", "a\tb\n\nc\td\n", r"b\.tsv:2: empty line"),
        ("c.tsv", "a\tb\nc\td\te\n", r"c\.tsv:2: 3 columns where most rows have 2"),
        ("d.csv", "premise,hypothesis\na,\n", r"d\.csv:2: the second text is empty"),
        ("e.csv", 'premise,hypothesis\n"a\nb",c\nd\n', r"e\.csv:4: 1 column, 2 needed"),
        ("f.csv", "one,two,three\na,b,c\n", r"which of its columns \(one, two, three\) hold the two texts"),
        ("g.csv", "premise,hypothesis,premise\na,b,c\n", "2 columns are called 'premise'"),
        ("h.jsonl", '{"premise": "a"}\n', r"h\.jsonl:1: no key 'hypothesis'; its keys are: premise"),
        ("i.jsonl", '{"premise": "a", "hypothesis": 3}\n', r"i\.jsonl:1: 'hypothesis' is a number, not a text"),
        ("j.jsonl", '{"premise": "\\ud83d", "hypothesis": "b"}\n', r"j\.jsonl:1: 'premise' holds half"),
        ("k.jsonl", "[]\n", r"k\.jsonl:1: not a JSON object"),
        ("l.txt", "a b\n", r"l\.txt:1: 1 column, 2 needed"),
        ("m.txt", " \tb\n", r"m\.txt:1: the first text is empty"),
        ("n.txt", "a\tb\tc\n", r"n\.txt:1: 3 columns"),
        ("o.txt", "", "holds no pairs"),
        ("p.tsv", "premise\thypothesis\n", "holds no pairs"),
    ],
)
def test_tables_without_pairs(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_text_pairs(tmp_path / name)
