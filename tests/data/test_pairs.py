"""Reading pairs: every format, every kind of bad row, and unusable files."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.files import BadRow
from regard.data.pairs import Pair, read_pairs
from regard.utils.errors import DataError, MissingColumnError, UsageError

PAIRS = [
    Pair("The cat sleeps.", "Le chat dort."),
    Pair('She said "no".', "Elle a dit « non »."),
    Pair("Summer", "L'été"),
]
PairWriter = Callable[[Path, list[Pair]], list[Path]]


def _tsv(folder: Path, pairs: list[Pair]) -> list[Path]:
    path = folder / "pairs.tsv"
    path.write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in pairs), encoding="utf-8")
    return [path]


def _csv(folder: Path, pairs: list[Pair]) -> list[Path]:
    path = folder / "pairs.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows((pair.source, pair.target) for pair in pairs)
    return [path]


def _jsonl(folder: Path, pairs: list[Pair]) -> list[Path]:
    path = folder / "pairs.jsonl"
    rows = (json.dumps({"target": pair.target, "source": pair.source}) + "\n" for pair in pairs)
    path.write_text("".join(rows), encoding="utf-8")
    return [path]


def _aligned(folder: Path, pairs: list[Pair]) -> list[Path]:
    paths = [folder / "text.en", folder / "text.fr"]
    for path, side in zip(paths, ("source", "target"), strict=True):
        lines = "".join(getattr(pair, side) + "\n" for pair in pairs)
        path.write_text(lines, encoding="utf-8")
    return paths


WRITERS: list[PairWriter] = [_tsv, _csv, _jsonl, _aligned]


def _compress(paths: list[Path]) -> list[Path]:
    packed = []
    for path in paths:
        other = path.with_name(path.name + ".gz")
        other.write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
        packed.append(other)
    return packed


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("packed", [False, True])
def test_every_format_plain_and_compressed(write: PairWriter, packed: bool, tmp_path: Path) -> None:
    paths = write(tmp_path, PAIRS)
    paths = _compress(paths) if packed else paths
    reading = read_pairs(paths)
    assert reading.examples == PAIRS
    assert reading.bad == []
    assert read_pairs([str(path) for path in paths]).examples == PAIRS


@pytest.mark.parametrize("write", WRITERS)
def test_byte_order_mark_windows_line_ends_and_no_last_line_end(write: PairWriter, tmp_path: Path) -> None:
    paths = write(tmp_path, PAIRS)
    for path in paths:
        data = path.read_bytes().replace(b"\r\n", b"\n")
        path.write_bytes(b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n").removesuffix(b"\r\n"))
    assert read_pairs(paths).examples == PAIRS


def test_one_path_need_not_be_in_a_list(tmp_path: Path) -> None:
    [path] = _tsv(tmp_path, PAIRS)
    assert read_pairs(path).examples == read_pairs(str(path)).examples == PAIRS


@pytest.mark.parametrize("write", WRITERS)
def test_m138_both_directions(write: PairWriter, tmp_path: Path) -> None:
    swapped = [pair.reversed() for pair in PAIRS]
    paths = write(tmp_path, PAIRS)
    assert [pair.reversed() for pair in read_pairs(paths).examples] == swapped
    if len(paths) == 2:
        assert read_pairs(paths[::-1]).examples == swapped
    if paths[0].suffix == ".jsonl":
        assert read_pairs(paths, columns=("target", "source")).examples == swapped


@pytest.mark.parametrize("suffix", [".tsv", ".csv"])
@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ("id|source|target", None),
        ("id|SRC|Tgt", None),
        ("Target|x|Source", None),
        ("id|en|fr", ("en", "fr")),
        ("id|EN|FR", ("en", "fr")),
        ("source|target|fr|en", ("en", "fr")),
    ],
)
def test_headers(suffix: str, header: str, columns: tuple[str, str] | None, tmp_path: Path) -> None:
    separator = "\t" if suffix == ".tsv" else ","
    names = header.split("|")
    sides = {"source": "a", "src": "a", "en": "a", "target": "b", "tgt": "b", "fr": "b"}
    if columns:
        sides = {"en": "a", "fr": "b"}
    cells = [sides.get(name.lower(), "other") for name in names]
    path = tmp_path / f"table{suffix}"
    path.write_text(f"{separator.join(names)}\n{separator.join(cells)}\n", encoding="utf-8")
    assert read_pairs([path], columns=columns).examples == [Pair("a", "b")]


def test_without_a_known_header_the_first_two_columns_are_read(tmp_path: Path) -> None:
    path = tmp_path / "table.tsv"
    path.write_text("english\tfrench\tnote\na\tb\tc\n", encoding="utf-8")
    assert read_pairs([path]).examples == [Pair("english", "french"), Pair("a", "b")]


@pytest.mark.parametrize(("suffix", "separator"), [(".tsv", "\t"), (".csv", ",")])
def test_a_row_with_extra_columns_is_a_bad_row(suffix: str, separator: str, tmp_path: Path) -> None:
    path = tmp_path / f"table{suffix}"
    for header in ("", "source|target\n"):
        text = f"{header}a|b\nc|d|e\nf|g\n".replace("|", separator)
        path.write_text(text, encoding="utf-8")
        line = 3 if header else 2
        with pytest.raises(DataError) as caught:
            read_pairs(path)
        assert (caught.value.path, caught.value.line) == (path, line)
        reading = read_pairs(path, skip_bad_rows=True)
        assert reading.examples == [Pair("a", "b"), Pair("f", "g")]
        assert [row.line for row in reading.bad] == [line]
        assert reading.remarks == []


@pytest.mark.parametrize(("suffix", "separator"), [(".tsv", "\t"), (".csv", ",")])
def test_empty_cells_at_the_end_of_a_row_are_no_columns(suffix: str, separator: str, tmp_path: Path) -> None:
    path = tmp_path / f"table{suffix}"
    path.write_text("a|b||\nc|d\n".replace("|", separator), encoding="utf-8")
    reading = read_pairs(path)
    assert (reading.examples, reading.remarks) == ([Pair("a", "b"), Pair("c", "d")], [])


@pytest.mark.parametrize(("suffix", "separator"), [(".tsv", "\t"), (".csv", ",")])
def test_a_table_of_three_columns_reports_which_are_read_and_the_flag(
    suffix: str, separator: str, tmp_path: Path
) -> None:
    path = tmp_path / f"table{suffix}"
    path.write_text("a|b|by x\nc|d|by y\ne|f|by z|1\ng|h\n".replace("|", separator), encoding="utf-8")
    reading = read_pairs(path, skip_bad_rows=True)
    assert reading.examples == [Pair("a", "b"), Pair("c", "d"), Pair("g", "h")]
    assert [row.line for row in reading.bad] == [3]
    [remark] = reading.remarks
    assert re.findall(r"\b(?:source|target) (\d)", remark) == ["1", "2"]
    assert path.name in remark
    assert "--columns" in remark


@pytest.mark.parametrize(("suffix", "separator"), [(".tsv", "\t"), (".csv", ",")])
def test_columns_by_their_numbers(suffix: str, separator: str, tmp_path: Path) -> None:
    path = tmp_path / f"table{suffix}"
    path.write_text("1|a|b\n2|c|d\n".replace("|", separator), encoding="utf-8")
    reading = read_pairs(path, columns=("3", "2"))
    assert (reading.examples, reading.remarks) == ([Pair("b", "a"), Pair("d", "c")], [])
    for columns in (("2", "4"), ("0", "2")):
        with pytest.raises(MissingColumnError) as caught:
            read_pairs(path, columns=columns)
        assert (caught.value.argument, caught.value.allowed) == ("columns", ("1", "2", "3"))
    path.write_text("id|source|target\n1|a|b\n".replace("|", separator), encoding="utf-8")
    assert read_pairs(path, columns=("2", "3")).examples == [Pair("a", "b")], "a header is no pair"
    path.write_text("3|2\na|b\n".replace("|", separator), encoding="utf-8")
    assert read_pairs(path, columns=("2", "3")).examples == [Pair("b", "a")], "names come first"


def test_json_keys(tmp_path: Path) -> None:
    path = tmp_path / "table.jsonl"
    path.write_text('{"src": "a", "tgt": "b", "en": "c", "fr": "d"}\n', encoding="utf-8")
    assert read_pairs([path]).examples == [Pair("a", "b")]
    assert read_pairs([path], columns=("fr", "en")).examples == [Pair("d", "c")]


def test_only_line_feeds_end_a_line(tmp_path: Path) -> None:
    pair = Pair("one\u2028two\x85three\x0bfour", "a\x0cb\x1cc")
    for write in (_tsv, _jsonl, _aligned):
        assert read_pairs(write(tmp_path, [pair, *PAIRS])).examples == [pair, *PAIRS]


def test_quoted_csv_keeps_line_numbers(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text('source,target\n"two\nlines, here","say ""x"""\n,b\n"a\n\n",""\n', encoding="utf-8")
    reading = read_pairs([path], skip_bad_rows=True)
    assert reading.examples == [Pair("two\nlines, here", 'say "x"')]
    assert [row.line for row in reading.bad] == [4, 5]


def test_a_quote_that_is_never_closed(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text('a,b\n"c,d\ne,f\n', encoding="utf-8")
    reading = read_pairs([path], skip_bad_rows=True)
    assert reading.examples == [Pair("a", "b")]
    [row] = reading.bad
    assert row.line == 2
    assert "line 3" in row.reason


# Bad rows, the same in every format -----------------------------------------------------------------------

BAD_PAIRS = {
    "source is empty": Pair("", "x"),
    "target is empty": Pair("x", " "),
    "empty line": Pair("", ""),
    "target contains a NUL": Pair("x", "y\0z"),
    "source has 100,000 characters": Pair("x" * 100_000, "y"),
}


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("hint", BAD_PAIRS)
def test_bad_rows_are_named_or_skipped(write: PairWriter, hint: str, tmp_path: Path) -> None:
    paths = write(tmp_path, [*PAIRS, BAD_PAIRS[hint], *PAIRS])
    guilty = paths[-1] if hint.startswith("target") else paths[0]
    with pytest.raises(DataError) as caught:
        read_pairs(paths)
    assert (caught.value.path, caught.value.line) == (guilty, 4)
    reading = read_pairs(paths, skip_bad_rows=True)
    assert reading.examples == PAIRS + PAIRS
    [row] = reading.bad
    assert (row.file, row.line) == (str(guilty), 4)
    assert hint in row.reason


@pytest.mark.parametrize("write", WRITERS)
def test_blank_lines_are_bad_rows(write: PairWriter, tmp_path: Path) -> None:
    paths = write(tmp_path, PAIRS)
    for path in paths:
        path.write_bytes(path.read_bytes().replace(b"\r\n", b"\n").replace(b"\n", b"\n\n", 1))
    reading = read_pairs(paths, skip_bad_rows=True)
    assert reading.examples == PAIRS
    assert [(row.line, row.reason) for row in reading.bad] == [(2, "empty line")]


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("side", ["source", "target"])
def test_invalid_utf8_names_line_and_byte(write: PairWriter, side: str, tmp_path: Path) -> None:
    pair = Pair("bad", "y") if side == "source" else Pair("y", "bad")
    paths = write(tmp_path, [PAIRS[0], pair, PAIRS[2]])
    guilty = paths[-1] if side == "target" else paths[0]
    data = guilty.read_bytes()
    guilty.write_bytes(data.replace(b"bad", b"b\xe9d"))
    offset = data.index(b"bad") + 1
    reading = read_pairs(paths, skip_bad_rows=True)
    assert reading.examples == [PAIRS[0], PAIRS[2]]
    assert reading.bad == [BadRow(str(guilty), 2, f"not valid UTF-8 (byte 0xE9 at byte offset {offset})")]
    with pytest.raises(DataError) as caught:
        read_pairs(paths)
    assert (caught.value.path, caught.value.line) == (guilty, 2)


def test_invalid_utf8_inside_a_quoted_field(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(b'a,b\n"c\n\xff",d\ne,f\n')
    reading = read_pairs([path], skip_bad_rows=True)
    assert reading.examples == [Pair("a", "b"), Pair("e", "f")]
    assert [row.line for row in reading.bad] == [2]
    assert "byte offset 7" in reading.bad[0].reason


def test_the_first_five_bad_rows_are_listed_and_all_are_counted(tmp_path: Path) -> None:
    [path] = _tsv(tmp_path, [*PAIRS, *[Pair("x", "")] * 13])
    with pytest.raises(DataError) as caught:
        read_pairs([path])
    assert str(caught.value).count(f"{path}:") == 5
    assert len(caught.value.value) == 13


def test_missing_cells(tmp_path: Path) -> None:
    for name, separator in (("table.tsv", "\t"), ("table.csv", ",")):
        path = tmp_path / name
        path.write_text(f"a{separator}b\nc\n", encoding="utf-8")
        reading = read_pairs([path], skip_bad_rows=True)
        assert [row.line for row in reading.bad] == [2]
        path.write_text(f"id{separator}src{separator}tgt\n1{separator}b\n2{separator}x{separator}y\n")
        reading = read_pairs([path], skip_bad_rows=True)
        assert reading.examples == [Pair("x", "y")]
        assert [row.line for row in reading.bad] == [2]


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("{'source': 1}", "JSON"),
        ('{"source": "a", "target"', "JSON"),
        ('["a", "b"]', "a list"),
        ("3.5", "a number"),
        ('{"source": "a"}', "'target'"),
        ('{"source": "a", "target": 7}', "a number"),
        ('{"source": null, "target": "b"}', "null"),
        ('{"source": ["a"], "target": "b"}', "a list"),
        ('{"source": true, "target": "b"}', "true or false"),
        ('{"source": "\\ud83d", "target": "b"}', "surrogate"),
        ("[" * 100_000, "JSON"),
    ],
    ids=range(11),
)
def test_bad_json_rows(line: str, hint: str, tmp_path: Path) -> None:
    path = tmp_path / "table.jsonl"
    path.write_text('{"source": "a", "target": "\\ud83d\\ude00"}\n' + line + "\n", encoding="utf-8")
    reading = read_pairs([path], skip_bad_rows=True)
    assert reading.examples == [Pair("a", "😀")]
    [row] = reading.bad
    assert row.line == 2
    assert hint in row.reason


def test_a_csv_field_above_the_limit_of_the_parser(tmp_path: Path) -> None:
    paths = _csv(tmp_path, [PAIRS[0], Pair("x" * 200_000, "y"), PAIRS[2]])
    reading = read_pairs(paths, skip_bad_rows=True)
    assert reading.examples == [PAIRS[0], PAIRS[2]]
    assert [row.line for row in reading.bad] == [2]


# What is wrong with whole files ---------------------------------------------------------------------------


@pytest.mark.parametrize("skip", [False, True])
def test_m138_line_counts_that_differ(skip: bool, tmp_path: Path) -> None:
    paths = _aligned(tmp_path, PAIRS)
    paths[0].write_text("one\ntwo\nthree\nfour\nfive\n", encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_pairs(paths, skip_bad_rows=skip)
    assert (caught.value.path, caught.value.line, caught.value.value) == (paths[0], 4, (5, 3))
    with pytest.raises(DataError) as caught:
        read_pairs(paths[::-1], skip_bad_rows=skip)
    assert (caught.value.path, caught.value.line, caught.value.value) == (paths[0], 4, (3, 5))


@pytest.mark.parametrize("name", ["table.tsv", "table.csv", "table.jsonl"])
def test_a_missing_column_lists_the_existing_ones(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if name.endswith("jsonl"):
        path.write_text('{"en": "a", "de": "b"}\n', encoding="utf-8")
    else:
        path.write_text("en,de\na,b\n".replace(",", "\t" if name.endswith("tsv") else ","), encoding="utf-8")
    with pytest.raises(MissingColumnError) as caught:
        read_pairs([path], columns=("en", "fr"), skip_bad_rows=True)
    assert (caught.value.value, caught.value.allowed) == ("fr", ("en", "de"))


def test_json_without_the_usual_keys(tmp_path: Path) -> None:
    path = tmp_path / "table.jsonl"
    path.write_text('{"en": "a", "de": "b"}\n', encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_pairs([path])
    assert (caught.value.argument, caught.value.value) == ("columns", ["en", "de"])


def test_tables_with_one_column(tmp_path: Path) -> None:
    path = tmp_path / "table.tsv"
    path.write_text("a b\nc d\n", encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_pairs([path], skip_bad_rows=True)
    assert (caught.value.path, caught.value.value) == (path, 1)
    path = tmp_path / "table.csv"
    path.write_text("a;b\nc;d;e\n", encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_pairs([path])
    assert caught.value.hint == ";"


def test_cells_between_semicolons(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text('source;target\nYes, sir.;"Oui; oui."\nNo.;Non.\n', encoding="utf-8")
    assert read_pairs([path]).examples == [Pair("Yes, sir.", "Oui; oui."), Pair("No.", "Non.")]


def test_an_undecodable_header_can_be_printed(tmp_path: Path) -> None:
    path = tmp_path / "table.tsv"
    path.write_bytes(b"fran\xe7ais\tenglish\na\tb\n")
    with pytest.raises(DataError) as caught:
        read_pairs([path], columns=("français", "english"))
    assert caught.value.line == 1
    str(caught.value).encode("utf-8")


def test_a_damaged_header_row_is_not_taken_for_data(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text('"en"x,fr\na,b\n', encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_pairs([path], columns=("en", "fr"), skip_bad_rows=True)
    assert caught.value.line == 1


@pytest.mark.parametrize("cut", [5, 20, -9, -1])
def test_corrupt_gzip(cut: int, tmp_path: Path) -> None:
    [path] = _compress(_tsv(tmp_path, PAIRS * 50))
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(DataError) as caught:
        read_pairs([path], skip_bad_rows=True)
    assert caught.value.path == path
    path.write_text("a\tb\n", encoding="utf-8")
    with pytest.raises(DataError):
        read_pairs([path])


def test_gzip_with_altered_bytes(tmp_path: Path) -> None:
    [path] = _compress(_tsv(tmp_path, PAIRS * 50))
    data = bytearray(path.read_bytes())
    for place in range(12, len(data) - 8, 7):
        altered = data.copy()
        altered[place] ^= 0xFF
        path.write_bytes(altered)
        with pytest.raises(DataError):
            read_pairs([path])


@pytest.mark.parametrize("name", ["pairs.txt", "pairs", "pairs.tsv.zip", "pairs.xlsx", "tsv"])
def test_an_unknown_suffix_lists_the_known(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text("a\tb\n", encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        read_pairs([path])
    assert (caught.value.path, caught.value.allowed) == (path, (".tsv", ".csv", ".jsonl"))


def test_wrong_numbers_and_kinds_of_files(tmp_path: Path) -> None:
    table = _tsv(tmp_path, PAIRS)
    texts = _aligned(tmp_path, PAIRS)
    for paths in ([], [*table, *texts]):
        with pytest.raises(UsageError) as caught:
            read_pairs(paths)
        assert (caught.value.argument, caught.value.value) == ("data", len(paths))
    with pytest.raises(UsageError) as caught:
        read_pairs([table[0], texts[1]])
    assert caught.value.path == table[0]
    with pytest.raises(UsageError) as caught:
        read_pairs(texts, columns=("en", "fr"))
    assert caught.value.argument == "columns"
    for columns in (("1", "1"), ("en", "en")):
        with pytest.raises(UsageError) as caught:
            read_pairs(table, columns=columns)
        assert caught.value.argument == "columns"


def test_missing_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "folder.tsv").mkdir()
    for names in (["no.tsv"], ["no.csv.gz"], ["no.en", "no.fr"], ["."], ["folder.tsv"]):
        with pytest.raises(UsageError) as caught:
            read_pairs([tmp_path / name for name in names])
        assert caught.value.path == tmp_path / names[0]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads every file")
def test_an_unreadable_file(tmp_path: Path) -> None:
    [path] = _tsv(tmp_path, PAIRS)
    path.chmod(0)
    with pytest.raises(UsageError):
        read_pairs([path])


@pytest.mark.parametrize("name", ["empty.tsv", "empty.csv", "empty.jsonl", "empty.tsv.gz"])
def test_no_rows_at_all(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(b"") if name.endswith("gz") else b"")
    with pytest.raises(DataError):
        read_pairs([path])
    with pytest.raises(DataError):
        read_pairs([path], columns=("en", "fr"))
    empty = tmp_path / "empty.txt"
    empty.write_bytes(b"")
    with pytest.raises(DataError):
        read_pairs([empty, empty])


def test_a_header_alone_and_nothing_but_bad_rows(tmp_path: Path) -> None:
    path = tmp_path / "table.tsv"
    path.write_text("source\ttarget\n", encoding="utf-8")
    with pytest.raises(DataError):
        read_pairs([path])
    path.write_text("source\ttarget\nx\t\n\ty\n", encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_pairs([path], skip_bad_rows=True)
    assert (caught.value.path, caught.value.line) == (path, 2)
    path.write_text("\n\n\n", encoding="utf-8")
    with pytest.raises(DataError):
        read_pairs([path])


def test_utf16_is_recognized(tmp_path: Path) -> None:
    path = tmp_path / "table.tsv"
    path.write_text("a\tb\n", encoding="utf-16")
    with pytest.raises(DataError) as caught:
        read_pairs([path])
    assert caught.value.value == "utf-16"


# Lines and writing ----------------------------------------------------------------------------------------


def test_line_ends_of_old_macintoshes(tmp_path: Path) -> None:
    path = tmp_path / "old.tsv"
    path.write_bytes(b"one\tun\rtwo\tdeux\r")
    assert read_pairs([path]).examples == [Pair("one", "un"), Pair("two", "deux")]
    path.write_bytes(b"one\tun\rtw\xff\tdeux\rthree\ttrois\r")
    reading = read_pairs([path], skip_bad_rows=True)
    assert reading.examples == [Pair("one", "un"), Pair("three", "trois")]
    assert [row.line for row in reading.bad] == [2]
    path.write_bytes(b"a\rb\tc\n")
    assert read_pairs([path]).examples == [Pair("a\rb", "c")], "beside line feeds a carriage return is just a character"


def test_checksums_are_those_of_the_files_on_disk(tmp_path: Path) -> None:
    [path] = _compress(_tsv(tmp_path, PAIRS))
    assert read_pairs([path]).checksums == {str(path): hashlib.sha256(path.read_bytes()).hexdigest()}


sides = st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=17).filter(
    lambda text: text.strip() == text
)


@settings(deadline=None)
@given(st.lists(st.builds(Pair, sides, sides), min_size=1, max_size=7))
def test_any_pairs_survive_every_format(tmp_path_factory: pytest.TempPathFactory, pairs: list[Pair]) -> None:
    folder = tmp_path_factory.mktemp("pairs")
    # Without the header, a first pair such as ("source", "target") would be one.
    assert read_pairs(_tsv(folder, [Pair("source", "target"), *pairs])).examples == pairs
    table = io.StringIO(newline="")
    csv.writer(table).writerows([("source", "target"), *((pair.source, pair.target) for pair in pairs)])
    (folder / "written.csv").write_text(table.getvalue(), encoding="utf-8", newline="")
    assert read_pairs([folder / "written.csv"]).examples == pairs
    assert read_pairs(_jsonl(folder, pairs)).examples == pairs
    if not any(pair.source.startswith("\ufeff") or pair.target.startswith("\ufeff") for pair in pairs):
        assert read_pairs(_aligned(folder, pairs)).examples == pairs


@pytest.mark.parametrize("suffix", ["tsv", "csv"])
def test_a_blank_line_above_the_header(tmp_path: Path, suffix: str) -> None:
    cells = [["target", "source"], ["Le chat dort.", "The cat sleeps."]]
    path = tmp_path / f"pairs.{suffix}"
    path.write_text("\n" + "".join(("\t" if suffix == "tsv" else ",").join(row) + "\n" for row in cells), "utf-8")
    assert read_pairs([path]).examples == [PAIRS[0]]
