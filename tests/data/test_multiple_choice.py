"""Multiple choice: the table of SWAG and similar ones, and every kind of bad row."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from regard.data.labelled import MultipleChoiceExample, read_endings
from regard.utils.errors import DataError

HEADER = ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label"
ROWS = [
    '0,a,1,,"She opens the piano, slowly.",She,gold,plays a song.,eats it.,swims away.,is a door.,0',
    "1,a,2,,He runs.,He,gold,sleeps at once.,is a tree.,gets tired.,writes rain.,2",
]


def written(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_swag(tmp_path: Path) -> None:
    table = written(tmp_path / "swag.csv", HEADER, *ROWS)
    found = read_endings(table)
    assert found.examples == [
        MultipleChoiceExample(
            "She opens the piano, slowly.",
            ("She plays a song.", "She eats it.", "She swims away.", "She is a door."),
            0,
        ),
        MultipleChoiceExample(
            "He runs.", ("He sleeps at once.", "He is a tree.", "He gets tired.", "He writes rain."), 2
        ),
    ]
    assert found.lines == [2, 3]
    packed = tmp_path / "swag.csv.gz"
    packed.write_bytes(gzip.compress(table.read_bytes()))
    assert read_endings(packed).examples == found.examples


def test_tables_like_it(tmp_path: Path) -> None:
    copa = written(
        tmp_path / "copa.tsv", "Premise\tChoice1\tChoice2\tLabel", "It rained.\tAll was wet.\tAll was dry.\t0"
    )
    assert read_endings(copa).examples == [MultipleChoiceExample("It rained.", ("All was wet.", "All was dry."), 0)]
    record = {
        "ctx_a": "A man sits.",
        "ctx_b": "then he",
        "ctx": "A man sits. then he",
        "endings": ["stands.", "flies."],
    }
    hella = written(tmp_path / "hella.jsonl", json.dumps({**record, "label": 1}), json.dumps({**record, "label": "0"}))
    whole = ("then he stands.", "then he flies.")
    assert read_endings(hella).examples == [
        MultipleChoiceExample("A man sits.", whole, 1),
        MultipleChoiceExample("A man sits.", whole, 0),
    ]


def test_endings_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    names = [f"ending{n}" for n in range(11)]
    table = written(
        tmp_path / "many.tsv", "\t".join(["context", *names[::-1], "label"]), "\t".join(["c", *names[::-1], "10"])
    )
    assert read_endings(table).examples == [MultipleChoiceExample("c", tuple(names), 10)]


def test_without_labels(tmp_path: Path) -> None:
    bare = written(tmp_path / "bare.tsv", "context\tending0\tending1", "a\tb\tc")
    assert read_endings(bare, labelled=False).examples == [MultipleChoiceExample("a", ("b", "c"), None)]
    with pytest.raises(DataError) as caught:
        read_endings(bare)
    assert (caught.value.path, caught.value.argument) == (bare, "label")


@pytest.mark.parametrize(
    "row",
    ["a\tb\tc\t2", "a\tb\tc\t-1", "a\tb\tc\tyes", "a\tb\tc\t", "\tb\tc\t0", "a\t\tc\t0", "a\tb", "a\tb\tc\t0\td", ""],
)
def test_rows_that_cannot_be_used(row: str, tmp_path: Path) -> None:
    table = written(tmp_path / "bad.tsv", "context\tending0\tending1\tlabel", "x\ty\tz\t1", row, "x\ty\tz\t0")
    with pytest.raises(DataError) as caught:
        read_endings(table)
    assert (caught.value.path, caught.value.line) == (table, 3)
    found = read_endings(table, skip_bad_rows=True)
    assert (len(found.examples), [bad.line for bad in found.bad]) == (2, [3])


def test_records_that_cannot_be_used(tmp_path: Path) -> None:
    records = [
        {"context": "a", "endings": ["b", "c"], "label": 0},
        {"context": "a", "endings": ["b"], "label": 0},
        {"context": "a", "endings": "b", "label": 0},
        {"context": "a", "endings": ["b", 3], "label": 0},
        {"context": None, "endings": ["b", "c"], "label": 0},
        {"context": "a", "endings": ["b", "c"], "label": True},
        {"context": "a", "endings": ["b", "c"], "label": None},
        {"context": "a", "endings": ["b", "c"], "label": 1.5},
        {"endings": ["b", "c"], "label": 1},
        {"context": "a", "endings": ["b", "c"]},
        {"context": "a", "endings": ["b", "c", "d"], "label": 2.0},
    ]
    table = written(tmp_path / "bad.jsonl", *map(json.dumps, records))
    found = read_endings(table, skip_bad_rows=True)
    assert [example.label for example in found.examples] == [0, 2]
    assert [bad.line for bad in found.bad] == [*range(2, 11)]


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("context\tending0\tlabel", ["context", "ending0", "label"]),
        ("text\tending0\tending1\tlabel", ["text", "ending0", "ending1", "label"]),
        ("context\tending0\tending1\tending1\tlabel", "ending1"),
        ("context\tcontext\tending0\tending1\tlabel", "context"),
        ("context\tending0\tending2\tlabel", ["ending0", "ending2"]),
        ("context\tending0\tchoice0\tlabel", ["ending0", "choice0"]),
        ("context\tending5\tending6\tlabel", ["ending5", "ending6"]),
    ],
)
def test_headers_that_do_not_fit(header: str, value: str | list[str], tmp_path: Path) -> None:
    table = written(tmp_path / "t.tsv", header, "\t".join("x" for _ in header.split("\t")))
    with pytest.raises(DataError) as caught:
        read_endings(table)
    assert (caught.value.path, caught.value.value) == (table, value)


def test_labels_that_count_from_one(tmp_path: Path) -> None:
    table = written(tmp_path / "copa.tsv", "premise\tchoice1\tchoice2\tlabel", "a\tb\tc\t1", "a\tb\tc\t2")
    with pytest.raises(DataError) as caught:
        read_endings(table, skip_bad_rows=True)
    assert (caught.value.argument, caught.value.value) == ("label", 2)


def test_labels_that_are_hidden(tmp_path: Path) -> None:
    """Test sets have the label -1 if the answer is not public."""
    table = written(tmp_path / "test.tsv", "context\tending0\tending1\tlabel", "a\tb\tc\t-1", "a\tb\tc\t")
    assert read_endings(table, labelled=False).examples == [MultipleChoiceExample("a", ("b", "c"))] * 2
    bad = written(tmp_path / "bad.tsv", "context\tending0\tending1", "a\t\tc")
    with pytest.raises(DataError) as caught:
        read_endings(bad, labelled=False)
    assert caught.value.line == 2


def test_a_list_among_columns(tmp_path: Path) -> None:
    record = {"context": "a", "ending0": ["x", "y", "z"], "ending1": "c", "label": 0}
    with pytest.raises(DataError) as caught:
        read_endings(written(tmp_path / "t.jsonl", json.dumps(record)))
    assert caught.value.line == 1


def test_openings_may_lack(tmp_path: Path) -> None:
    records = [{"sent1": "a", "ending0": "b", "ending1": "c", "label": 0}]
    records.append({**records[0], "sent2": " so "})
    found = read_endings(written(tmp_path / "t.jsonl", *map(json.dumps, records))).examples
    assert [example.endings for example in found] == [("b", "c"), ("so b", "so c")]


def test_first_lines_that_cannot_be_read(tmp_path: Path) -> None:
    good = json.dumps({"context": "a", "endings": ["b", "c"], "label": 0})
    broken = written(tmp_path / "t.jsonl", "{", good)
    assert [bad.line for bad in read_endings(broken, skip_bad_rows=True).bad] == [1]
    header = tmp_path / "t.tsv"
    header.write_bytes(b"context\tending0\tending1\tl\xffabel\na\tb\tc\t0\n")
    with pytest.raises(DataError) as caught:
        read_endings(header)
    assert (caught.value.path, caught.value.line) == (header, 1)
    blank = written(tmp_path / "b.tsv", "", "context\tending0\tending1\tlabel", "a\tb\tc\t0")
    assert len(read_endings(blank).examples) == 1


def test_lines(tmp_path: Path) -> None:
    data = "a\tb\tc\nd\u2028e\tf\tg\th\n"
    (tmp_path / "a.txt").write_text(data, encoding="utf-8")
    found = read_endings("<stdin>", data=data.encode(), labelled=False)
    assert found.examples == read_endings(tmp_path / "a.txt", labelled=False).examples
    assert found.examples == [
        MultipleChoiceExample("a", ("b", "c")),
        MultipleChoiceExample("d\u2028e", ("f", "g", "h")),
    ]
    for bad, line in ((b"a\tb\tc\nd\te\n", 2), (b"a\t\tc\n", 1), (b"", None)):
        with pytest.raises(DataError) as caught:
            read_endings("<stdin>", data=bad, labelled=False)
        assert (str(caught.value.path), caught.value.line) == ("<stdin>", line)


def test_a_header_in_plain_text(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", "context\tending0\tending1", "a\tb\tc")
    assert read_endings(path, labelled=False).examples == [MultipleChoiceExample("a", ("b", "c"))]


def test_files_without_choices(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_bytes(b"")
    for path, line in (
        (written(tmp_path / "a.tsv", "sentence1\tsentence2\tlabel", "a\tb\t1"), None),
        (written(tmp_path / "b.jsonl", "not JSON"), 1),
        (tmp_path / "c.csv", None),
        (written(tmp_path / "d.tsv", "context\tending0\tending1\tlabel"), None),
    ):
        with pytest.raises(DataError) as caught:
            read_endings(path)
        assert (caught.value.path, caught.value.line) == (path, line)
