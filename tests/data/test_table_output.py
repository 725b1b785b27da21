"""A table with results keeps the user's columns byte for byte."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.inputs import TableInputs, read_text_column
from regard.data.table_output import SourceTable
from regard.utils.errors import UsageError

GERMAN = ('\ufeffid;Text;Größe\r\n1;"ein ""guter"" Film;\r\nwirklich";1,5\r\n2;;ä\r\n\r\n3;böse\r\n4;  ;ü').encode()


def annotate(path: Path, suffix: str = "", column: str | None = None) -> bytes:
    """Add the length of each text to its row; rows without text get no result."""
    inputs = read_text_column(path, column)
    assert isinstance(inputs, TableInputs)
    table = SourceTable.read(path, inputs.header)
    results: dict[int, dict[str, Any]] = {
        line: {"length": len(text), "note": 'a "b"; c'}
        for line, text in zip(inputs.lines, inputs, strict=True)
        if text.strip()
    }
    return table.with_columns(results, suffix or table.suffix)


def test_a_german_spreadsheet_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "de.csv"
    path.write_bytes(GERMAN)
    note = '"a ""b""; c"'
    assert annotate(path).decode() == (
        f'\ufeffid;Text;Größe;length;note\r\n1;"ein ""guter"" Film;\r\nwirklich";1,5;26;{note}\r\n2;;ä;;\r\n\r\n'
        f"3;böse;;4;{note}\r\n4;  ;ü;;"
    )


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.tsv", 'text\tn\n"quoted\t1\nb\t2\n', 'text\tn\tlength\tnote\n"quoted\t1\t7\ta "b"; c\nb\t2\t1\ta "b"; c\n'),
        ("a.csv", "one\ntwo\n", 'one,3,"a ""b""; c"\ntwo,3,"a ""b""; c"\n'),
        ("a.csv", "text,n\rab,1\r", 'text,n,length,note\rab,1,2,"a ""b""; c"\r'),
        ("a.csv", "text,n\nab,1,,\n", 'text,n,length,note\nab,1,2,"a ""b""; c"\n'),
        (
            "a.jsonl",
            '{"text": "ab", "n": 1.50}\n{"text": null }\n',
            '{"text": "ab", "n": 1.50, "length": 2, "note": "a \\"b\\"; c"}\n'
            '{"text": null, "length": null, "note": null}\n',
        ),
    ],
)
def test_every_format_keeps_its_rows(name: str, content: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode())
    assert annotate(path).decode() == expected


def test_a_table_can_be_converted(tmp_path: Path) -> None:
    path = tmp_path / "de.csv"
    path.write_bytes(GERMAN)
    records = [json.loads(line) for line in annotate(path, ".jsonl").decode().splitlines()]
    assert [record["length"] for record in records] == [26, None, 4, None]
    assert records[0]["Text"] == 'ein "guter" Film;\nwirklich'
    lines = annotate(path, ".tsv").decode().splitlines()
    assert lines[:2] == ["id\tText\tGröße\tlength\tnote", '1\tein "guter" Film; wirklich\t1,5\t26\ta "b"; c']
    (tmp_path / "a.jsonl").write_text('{"text": "a", "n": [1]}\n{"text": "b", "m": true}\n', encoding="utf-8")
    rows = list(csv.reader(io.StringIO(annotate(tmp_path / "a.jsonl", ".csv").decode())))
    assert rows == [
        ["text", "n", "m", "length", "note"],
        ["a", "[1]", "", "1", 'a "b"; c'],
        ["b", "", "true", "1", 'a "b"; c'],
    ]


@pytest.mark.parametrize(
    ("name", "content"), [("a.csv", "text,Length\na,1\n"), ("a.jsonl", '{"text": "a", "note": 1}\n')]
)
def test_a_column_is_never_replaced(name: str, content: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        annotate(path)
    assert (caught.value.argument, caught.value.path) == ("prefix", path)
    assert caught.value.value in content


CELLS = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), min_size=1), min_size=2, max_size=3)


@given(st.lists(CELLS, min_size=1, max_size=6), st.sampled_from(",;"), st.sampled_from(["\n", "\r\n"]))
def test_the_first_columns_are_the_original_table(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], delimiter: str, end: str
) -> None:
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL)
    width = max(map(len, rows))
    writer.writerow(["text", *(f"column{n}" for n in range(1, width))])
    writer.writerows([*row, *[""] * (width - len(row))] for row in rows)
    path = tmp_path_factory.mktemp("table") / "t.csv"
    path.write_bytes(stream.getvalue().encode())
    written = annotate(path, column="text").decode()
    before = list(csv.reader(io.StringIO(stream.getvalue(), newline=""), delimiter=delimiter))
    after = list(csv.reader(io.StringIO(written, newline=""), delimiter=delimiter))
    assert [cells[:width] for cells in after] == before
    assert {len(cells) for cells in after} <= {width, width + 2}
