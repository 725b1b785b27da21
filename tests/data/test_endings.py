"""Endings to choose from: SWAG's table and those like it, and every way in which a row can be wrong."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from regard.data.endings import Choice, names_endings, read_ending_lines, read_endings
from regard.errors import DataError

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
    assert names_endings(table)
    found = read_endings(table)
    assert found.examples == [
        Choice(
            "She opens the piano, slowly.",
            ("She plays a song.", "She eats it.", "She swims away.", "She is a door."),
            0,
        ),
        Choice("He runs.", ("He sleeps at once.", "He is a tree.", "He gets tired.", "He writes rain."), 2),
    ]
    assert found.lines == [2, 3]
    packed = tmp_path / "swag.csv.gz"
    packed.write_bytes(gzip.compress(table.read_bytes()))
    assert read_endings(packed).examples == found.examples


def test_tables_like_it(tmp_path: Path) -> None:
    copa = written(
        tmp_path / "copa.tsv", "Premise\tChoice1\tChoice2\tLabel", "It rained.\tAll was wet.\tAll was dry.\t0"
    )
    assert read_endings(copa).examples == [Choice("It rained.", ("All was wet.", "All was dry."), 0)]
    record = {
        "ctx_a": "A man sits.",
        "ctx_b": "then he",
        "ctx": "A man sits. then he",
        "endings": ["stands.", "flies."],
    }
    hella = written(tmp_path / "hella.jsonl", json.dumps({**record, "label": 1}), json.dumps({**record, "label": "0"}))
    whole = ("then he stands.", "then he flies.")
    assert read_endings(hella).examples == [Choice("A man sits.", whole, 1), Choice("A man sits.", whole, 0)]


def test_endings_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    names = [f"ending{n}" for n in range(11)]
    table = written(
        tmp_path / "many.tsv", "\t".join(["context", *names[::-1], "label"]), "\t".join(["c", *names[::-1], "10"])
    )
    assert read_endings(table).examples == [Choice("c", tuple(names), 10)]


def test_without_labels(tmp_path: Path) -> None:
    bare = written(tmp_path / "bare.tsv", "context\tending0\tending1", "a\tb\tc")
    assert read_endings(bare, labelled=False).examples == [Choice("a", ("b", "c"), None)]
    with pytest.raises(DataError, match="no column 'label' says which ending is right; its columns are: context"):
        read_endings(bare)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("a\tb\tc\t2", "the label '2' is no number of an ending: these are 0 to 1"),
        ("a\tb\tc\t-1", "the label '-1' is no number of an ending"),
        ("a\tb\tc\tyes", "the label 'yes' is no number of an ending"),
        ("a\tb\tc\t", "the label is empty"),
        ("\tb\tc\t0", "the column 'context' is empty"),
        ("a\t\tc\t0", "the column 'ending0' is empty"),
        ("a\tb", "the column 'ending1' is empty"),
        ("a\tb\tc\t0\td", "5 columns where the header has 4"),
        ("", "empty line"),
    ],
)
def test_rows_that_cannot_be_used(row: str, reason: str, tmp_path: Path) -> None:
    table = written(tmp_path / "bad.tsv", "context\tending0\tending1\tlabel", "x\ty\tz\t1", row, "x\ty\tz\t0")
    with pytest.raises(DataError, match=f"bad.tsv:3: .*{reason}"):
        read_endings(table)
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
    assert [one.right for one in found.examples] == [0, 2]
    assert [bad.reason for bad in found.bad] == [
        "there are no two endings to choose from",
        "'endings' is a text, not a list",
        "'endings' is a number, not a text",
        "'context' is null, not a text",
        "the label is true or false, not the number of an ending",
        "the label is null, not the number of an ending",
        "the label '1.5' is no number of an ending: these are 0 to 1",
        "no key 'context'; its keys are: endings, label",
        "no key 'label'; its keys are: context, endings",
    ]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("context\tending0\tlabel", "do not name a beginning and its endings"),
        ("text\tending0\tending1\tlabel", "do not name a beginning and its endings"),
        ("context\tending0\tending1\tending1\tlabel", "2 columns are called 'ending1'"),
        ("context\tcontext\tending0\tending1\tlabel", "2 columns are called 'context'"),
        ("context\tending0\tending2\tlabel", "not numbered one after the other: ending0, ending2"),
        ("context\tending0\tchoice0\tlabel", "not numbered one after the other"),
        ("context\tending5\tending6\tlabel", "not numbered one after the other"),
    ],
)
def test_headers_that_do_not_fit(header: str, message: str, tmp_path: Path) -> None:
    table = written(tmp_path / "t.tsv", header, "\t".join("x" for _ in header.split("\t")))
    with pytest.raises(DataError, match=message):
        read_endings(table)


def test_labels_that_count_from_one(tmp_path: Path) -> None:
    table = written(tmp_path / "copa.tsv", "premise\tchoice1\tchoice2\tlabel", "a\tb\tc\t1", "a\tb\tc\t2")
    with pytest.raises(DataError, match="seem to count from 1, to 2"):
        read_endings(table, skip_bad_rows=True)


def test_labels_that_are_hidden(tmp_path: Path) -> None:
    """Test sets write -1 where the answer is secret; nobody who asks for answers needs it."""
    table = written(tmp_path / "test.tsv", "context\tending0\tending1\tlabel", "a\tb\tc\t-1", "a\tb\tc\t")
    assert read_endings(table, labelled=False).examples == [Choice("a", ("b", "c"))] * 2
    bad = written(tmp_path / "bad.tsv", "context\tending0\tending1", "a\t\tc")
    with pytest.raises(DataError, match=r"Correct them, or take them out of the file\."):
        read_endings(bad, labelled=False)


def test_a_list_among_columns(tmp_path: Path) -> None:
    record = {"context": "a", "ending0": ["x", "y", "z"], "ending1": "c", "label": 0}
    with pytest.raises(DataError, match="'ending0' is a list, not a text"):
        read_endings(written(tmp_path / "t.jsonl", json.dumps(record)))


def test_openings_may_lack(tmp_path: Path) -> None:
    records = [{"sent1": "a", "ending0": "b", "ending1": "c", "label": 0}]
    records.append({**records[0], "sent2": " so "})
    found = read_endings(written(tmp_path / "t.jsonl", *map(json.dumps, records))).examples
    assert [one.endings for one in found] == [("b", "c"), ("so b", "so c")]


def test_first_lines_that_cannot_be_read(tmp_path: Path) -> None:
    good = json.dumps({"context": "a", "endings": ["b", "c"], "label": 0})
    broken = written(tmp_path / "t.jsonl", "{", good)
    assert names_endings(broken)
    assert [bad.line for bad in read_endings(broken, skip_bad_rows=True).bad] == [1]
    header = tmp_path / "t.tsv"
    header.write_bytes(b"context\tending0\tending1\tl\xffabel\na\tb\tc\t0\n")
    with pytest.raises(DataError, match=r"t.tsv:1: .*This row should name the columns"):
        read_endings(header)
    blank = written(tmp_path / "b.tsv", "", "context\tending0\tending1\tlabel", "a\tb\tc\t0")
    assert names_endings(blank)
    assert len(read_endings(blank).examples) == 1


def test_lines(tmp_path: Path) -> None:
    found = read_ending_lines("<stdin>", "a\tb\tc\nd\u2028e\tf\tg\th\n".encode())
    assert found.examples == [Choice("a", ("b", "c")), Choice("d\u2028e", ("f", "g", "h"))]
    with pytest.raises(DataError, match="<stdin>:2: 2 texts; a beginning and two endings"):
        read_ending_lines("<stdin>", b"a\tb\tc\nd\te\n")
    with pytest.raises(DataError, match="<stdin>:1: a text is empty"):
        read_ending_lines("<stdin>", b"a\t\tc\n")
    with pytest.raises(DataError, match="no choices found"):
        read_ending_lines("<stdin>", b"")


def test_what_is_no_table_of_endings(tmp_path: Path) -> None:
    assert not names_endings(written(tmp_path / "a.tsv", "sentence1\tsentence2\tlabel", "a\tb\t1"))
    assert not names_endings(written(tmp_path / "b.jsonl", "not JSON"))
    (tmp_path / "c.csv").write_bytes(b"")
    assert not names_endings(tmp_path / "c.csv")
    with pytest.raises(DataError, match="no choices found"):
        read_endings(written(tmp_path / "d.tsv", "context\tending0\tending1\tlabel"))
