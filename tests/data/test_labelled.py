"""Labelled texts and pairs: layouts that are recognized, every kind of bad row, and labels of several files."""

from __future__ import annotations

import csv
import functools
import gzip
import io
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.labelled import (
    Labelled,
    LabelledPair,
    read_labelled,
    read_labelled_pairs,
    refuse_unseen,
    require_two_labels,
)
from regard.metrics.labels import label_names
from regard.utils.errors import DataError, MissingColumnError, UsageError

ROWS = [("A fine film .", "good"), ("Dull and long .", "bad"), ("Never again .", "bad"), ("What a day !", "good")]
EXAMPLES = [Labelled(text, (label,)) for text, label in ROWS]


def _write(path: Path, *lines: str, ends: str = "\n") -> Path:
    path.write_bytes("".join(line + ends for line in lines).encode("utf-8"))
    return path


# Layouts --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("a.tsv", [f"{text}\t{label}" for text, label in ROWS]),
        ("a.tsv", [f"{label}\t{text}" for text, label in ROWS]),
        ("SMS", ["Label\tSMS", *(f"{label}\t{text}" for text, label in ROWS)]),
        ("a.txt", ["label\tid\tsentence", *(f"{label}\t{len(text)}\t{text}" for text, label in ROWS)]),
        ("cola.tsv", [f"gj04\t{label}\t{'*' if label == 'bad' else ''}\t{text}" for text, label in ROWS]),
        ("a.csv", ["Text,Label", *(f'"{text}",{label}' for text, label in ROWS)]),
        ("a.csv", [f'{label},"{text}"' for text, label in ROWS]),
        ("a.jsonl", [json.dumps({"id": 1, "text": text, "label": label}) for text, label in ROWS]),
    ],
)
def test_layouts_that_are_recognized(name: str, lines: list[str], tmp_path: Path) -> None:
    reading = read_labelled(_write(tmp_path / name, *lines))
    assert reading.examples == EXAMPLES
    header = name.endswith("jsonl") or "abel" in lines[0]
    first = 2 if header and not name.endswith("jsonl") else 1
    assert reading.lines == list(range(first, first + 4))
    assert any("no header" in remark for remark in reading.remarks) != header, "a guessed layout is reported"


def _columns(remark: str) -> dict[str, str]:
    """The column of the texts and that of the labels in a remark."""
    return dict(re.findall(r"\b(text|label) '?(\w+)", remark))


def test_guessed_columns_are_reported(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.tsv", *(f"{label}\t{text}" for text, label in ROWS))
    [remark] = read_labelled(path).remarks
    assert _columns(remark) == {"text": "2", "label": "1"}
    assert path.name in remark
    assert "--label-column" in remark


@pytest.mark.parametrize("columns", [("words", "mood"), ("WORDS", "Mood"), ("2", "3"), ("words", "3")])
def test_given_columns(columns: tuple[str, str], tmp_path: Path) -> None:
    rows = (f"{number}\t{text}\t{label}" for number, (text, label) in enumerate(ROWS))
    header = [] if columns == ("2", "3") else ["id\twords\tmood"]
    path = _write(tmp_path / "a.tsv", *header, *rows)
    assert read_labelled(path, text_column=columns[0], label_column=columns[1]).examples == EXAMPLES


def test_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.csv", "\ufefftext,label", *(f'"{text}",{label}' for text, label in ROWS), ends="\r\n")
    assert read_labelled(path).examples == EXAMPLES
    packed = tmp_path / "b.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_labelled(packed).examples == EXAMPLES


def test_quotes_commas_and_line_breaks_inside_cells(tmp_path: Path) -> None:
    lines = ["text,label", '"He said ""no"", twice,', 'and left.",bad', "plain,good", '"a\n\nb",bad']
    reading = read_labelled(_write(tmp_path / "a.csv", *lines))
    assert reading.examples == [
        Labelled('He said "no", twice,\nand left.', ("bad",)),
        Labelled("plain", ("good",)),
        Labelled("a\n\nb", ("bad",)),
    ]
    assert reading.lines == [2, 4, 5]


def test_several_labels(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.tsv", "text\tlabels", "x\tsad, long", "y\t", "z\tlong,long")
    reading = read_labelled(path, label_separator=",")
    assert [example.labels for example in reading.examples] == [("sad", "long"), (), ("long",)]
    records = [{"text": "x", "labels": ["sad", "long"]}, {"text": "y", "labels": []}, {"text": "z", "labels": [3]}]
    reading = read_labelled(_write(tmp_path / "a.jsonl", *map(json.dumps, records)))
    assert [example.labels for example in reading.examples] == [("sad", "long"), (), ("3",)]
    with pytest.raises(UsageError) as caught:
        read_labelled(path, label_separator="")
    assert caught.value.argument == "label_separator"


def test_a_text_of_a_hundred_thousand_words(tmp_path: Path) -> None:
    text = "word " * 100_000
    for name, line in (("a.csv", f'"{text}",x'), ("a.tsv", f"{text}\tx")):
        path = _write(tmp_path / name, "text,label" if name == "a.csv" else "text\tlabel", line)
        assert read_labelled(path).examples == [Labelled(text.strip(), ("x",))]


# Bad rows -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("\tgood", "text is empty"),
        ("a text\t", "label is empty"),
        ("", "empty line"),
        ("alone", "1 column"),
        ("a\tgood\tmore", "3 columns"),
        ("a\0b\tgood", "NUL"),
        ("a\t" + "x" * 101, "101 characters"),
    ],
)
def test_bad_rows_of_tables(line: str, hint: str, tmp_path: Path) -> None:
    path = _write(tmp_path / "a.tsv", "text\tlabel", "fine\tgood", line, "also fine\tbad")
    with pytest.raises(DataError) as caught:
        read_labelled(path)
    [row] = caught.value.value
    assert (row.file, row.line) == (str(path), 3)
    assert hint in row.reason
    reading = read_labelled(path, skip_bad_rows=True)
    assert [example.text for example in reading.examples] == ["fine", "also fine"]
    assert reading.bad == [row]
    assert reading.lines == [2, 4]


@pytest.mark.parametrize(("name", "mark"), [("a.tsv", "\t"), ("a.csv", ",")])
def test_a_blank_line_above_the_header(name: str, mark: str, tmp_path: Path) -> None:
    rows = [mark.join((text.replace(",", ""), label)) for text, label in ROWS]
    path = _write(tmp_path / name, "", f"text{mark}label", *rows)
    reading = read_labelled(path)
    assert reading.examples == EXAMPLES
    assert reading.lines == [3, 4, 5, 6]
    first, second = "a b c", "d e"
    path = _write(tmp_path / name, "", mark.join(("premise", "hypothesis", "label")), mark.join((first, second, "x")))
    assert read_labelled_pairs(path).examples == [LabelledPair(first, second, "x")]


def test_many_bad_rows_are_counted(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.tsv", "text\tlabel", *["\tx"] * 7, "a\ty")
    with pytest.raises(DataError) as caught:
        read_labelled(path)
    assert [row.line for row in caught.value.value] == [*range(2, 9)]
    assert str(caught.value).count(f"{path}:") == 5
    with pytest.raises(DataError) as caught:
        read_labelled(_write(tmp_path / "b.tsv", "text\tlabel", "\tx"), skip_bad_rows=True)
    assert caught.value.line == 2


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(b"text\tlabel\nfine\tx\ncaf\xe9\ty\n")
    with pytest.raises(DataError) as caught:
        read_labelled(path)
    assert (caught.value.path, caught.value.line) == (path, 3)


@pytest.mark.parametrize(
    ("record", "hint"),
    [
        ("{", "JSON"),
        ("[1]", "JSON"),
        ('{"text": "a"}', "no key 'label'"),
        ('{"text": 3, "label": "x"}', "'text' is a number"),
        ('{"text": "a", "label": null}', "null"),
        ('{"text": "a", "label": {}}', "object"),
        ('{"text": "a", "label": ""}', "empty"),
        ('{"text": "\\ud83d", "label": "x"}', "surrogate"),
        ('{"text": "a", "label": "\\ud83d"}', "surrogate"),
        ('{"text": "a", "label": ["x", "\\ud83d"]}', "surrogate"),
    ],
)
def test_bad_rows_of_json(record: str, hint: str, tmp_path: Path) -> None:
    path = _write(tmp_path / "a.jsonl", '{"text": "a", "label": true}', record, '{"text": "b", "label": 2}')
    reading = read_labelled(path, skip_bad_rows=True)
    assert [example.labels for example in reading.examples] == [("true",), ("2",)]
    [row] = reading.bad
    assert row.line == 2
    assert hint in row.reason


def test_records_with_other_keys_than_the_first(tmp_path: Path) -> None:
    records = ({"id": 1}, {"text": "a", "label": "x"}, {"Text": "b", "LABEL": "y"}, {"review": "c", "class": "z"})
    reading = read_labelled(_write(tmp_path / "a.jsonl", *map(json.dumps, records)), skip_bad_rows=True)
    assert [(example.text, *example.labels) for example in reading.examples] == [("a", "x"), ("b", "y"), ("c", "z")]
    assert [row.line for row in reading.bad] == [1]
    records = ({"a": "fine", "b": "x"}, {"b": "y", "a": "bad"})
    by_number = read_labelled(
        _write(tmp_path / "b.jsonl", *map(json.dumps, records)), text_column="1", label_column="2"
    )
    assert [example.text for example in by_number.examples] == ["fine", "bad"], "a number means the same key everywhere"


# Whole files ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.jsonl"])
def test_a_missing_label_column_lists_the_existing_ones(name: str, tmp_path: Path) -> None:
    mark = "\t" if name == "a.tsv" else ","
    lines = [mark.join(row) for row in (("text", "stars", "id"), ("x", "5", "1"), ("y", "1", "2"))]
    if name == "a.jsonl":
        lines = [json.dumps({"text": "x", "stars": 5, "id": 1})]
    with pytest.raises(MissingColumnError) as caught:
        read_labelled(_write(tmp_path / name, *lines), label_column="mood")
    error = caught.value
    assert (error.argument, error.value, error.allowed) == ("label_column", "mood", ("text", "stars", "id"))
    assert read_labelled(tmp_path / name, label_column="stars").examples[0] == Labelled("x", ("5",))


def test_json_whose_keys_are_not_known(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.jsonl", '{"text": "a", "stars": 3}')
    with pytest.raises(DataError) as caught:
        read_labelled(path)
    assert (caught.value.argument, caught.value.value) == ("label_column", ["text", "stars"])


def test_numbers_of_missing_columns(tmp_path: Path) -> None:
    for name, lines in (
        ("a.jsonl", ['{"text": "a", "label": "x"}']),
        ("a.tsv", ["text\tlabel", "a\tx"]),
        ("b.tsv", ["a b\tx", "c d\ty"]),
    ):
        path = _write(tmp_path / name, *lines)
        for text, label in (("9", "2"), ("1", "0")):
            with pytest.raises(UsageError) as caught:
                read_labelled(path, text_column=text, label_column=label)
            assert caught.value.value in ("9", "0")
    years = _write(tmp_path / "c.jsonl", '{"text": "a", "2024": "x"}')
    assert read_labelled(years, label_column="2024").examples == [Labelled("a", ("x",))]


def test_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("text,label\ntrès bien,oui\nmal,non\n".encode("latin-1"))
    with pytest.raises(DataError) as caught:
        read_labelled(tmp_path / "a.csv")
    [row] = caught.value.value
    assert row.line == 2
    assert "0xE8" in row.reason


def test_decimal_commas_are_named(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.csv", "first;second;similarity", "a;b;4,5", "c;d;2,0")
    with pytest.raises(DataError) as caught:
        read_labelled_pairs(path, regression=True)
    assert [row.line for row in caught.value.value] == [2, 3]


def test_a_header_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("texte,étiquette\nbien,oui\nmal,non\n".encode("latin-1"))
    with pytest.raises(DataError) as caught:
        read_labelled(path, text_column="texte", label_column="étiquette")
    assert (caught.value.path, caught.value.line) == (path, 1)


def test_headers_of_the_same_name(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.csv", "label,text,label", "1,x,good", "2,y,bad")
    with pytest.raises(DataError) as caught:
        read_labelled(path)
    assert (caught.value.argument, caught.value.value) == ("label_column", "label")
    chosen = read_labelled(path, label_column="3")
    assert chosen.examples == [Labelled("x", ("good",)), Labelled("y", ("bad",))]
    # Two of a name do no harm where neither is wanted.
    path = _write(tmp_path / "b.csv", "id,id,text,label", "1,1,x,good", "2,2,y,bad")
    assert read_labelled(path).examples == chosen.examples


def test_a_header_of_unknown_names_is_not_taken_for_an_example(tmp_path: Path) -> None:
    rows = [f"{text},{label}" for text, label in ROWS]
    path = _write(tmp_path / "a.csv", "Opinion,Stars", *rows)
    for text, label in ((None, None), ("1", "2")):
        with pytest.raises(DataError) as caught:
            read_labelled(path, text_column=text, label_column=label)
        assert (caught.value.line, caught.value.value) == (1, ["Opinion", "Stars"])
    assert read_labelled(path, text_column="Opinion", label_column="stars").examples == EXAMPLES


@pytest.mark.parametrize(
    ("lines", "first"),
    [
        (("text;label", "Fine, really;good", "Bad;bad"), Labelled("Fine, really", ("good",))),
        (("label;text;id", '"good";"So; and\nso";1', "bad;Bad;2"), Labelled("So; and\nso", ("good",))),
        (("text,label", "Fine; really,good", "Bad; so bad,bad"), Labelled("Fine; really", ("good",))),
        (("Fine; or not,good", "Bad; so bad,bad"), Labelled("Fine; or not", ("good",))),
        (('"text";"label"', '"Fine, or not";"good"', '"Bad";"bad"'), Labelled("Fine, or not", ("good",))),
    ],
)
def test_semicolons_separate_cells_where_commas_do_not(lines: tuple[str, ...], first: Labelled, tmp_path: Path) -> None:
    assert read_labelled(_write(tmp_path / "a.csv", *lines)).examples[0] == first


def test_chosen_columns_are_reported(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.csv", "id,review,label", "1,Fine,good", "2,Bad,bad")
    [remark] = read_labelled(path).remarks
    assert _columns(remark) == {"text": "review", "label": "label"}
    assert path.name in remark
    assert read_labelled(_write(tmp_path / "b.csv", "text,label", "Fine,good")).remarks == []
    records = _write(tmp_path / "c.jsonl", '{"review": "Fine", "comment": "so", "label": "good"}')
    [remark] = read_labelled(records).remarks
    assert _columns(remark) == {"text": "review", "label": "label"}
    assert records.name in remark
    assert read_labelled(path, text_column="review", label_column="label").remarks == []
    with pytest.raises(MissingColumnError) as caught:
        read_labelled(path, label_column="lable")
    assert caught.value.hint == "label"


def test_ambiguous_headers(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.csv", "text,mood", "x,good")
    with pytest.raises(DataError) as caught:
        read_labelled(path, text_column="text")
    assert caught.value.argument == "label_column"
    path = _write(tmp_path / "b.csv", "a;b", "c;d;e")
    with pytest.raises(DataError) as caught:
        read_labelled(path)
    assert (caught.value.value, caught.value.hint) == (1, ";")
    path = _write(tmp_path / "c.tsv", *(f"a{number}\tlong text {number}" for number in range(20)))
    with pytest.raises(DataError):
        read_labelled(path)
    path = _write(tmp_path / "d.tsv", "x\tgood", "y\tbad")
    with pytest.raises(UsageError) as missing:
        read_labelled(path, text_column="1", label_column="3")
    assert (missing.value.argument, missing.value.value) == ("label_column", "3")
    with pytest.raises(UsageError) as missing:
        read_labelled(path, label_column="2")
    assert missing.value.argument == "text_column"
    with pytest.raises(UsageError) as missing:
        read_labelled(path, text_column="2", label_column="2")
    assert missing.value.argument == "label_column"


def test_missing_and_empty_files(tmp_path: Path) -> None:
    for path in (tmp_path / "no.csv", tmp_path):
        with pytest.raises(UsageError) as caught:
            read_labelled(path)
        assert caught.value.path == path
    for name in ("a.tsv", "a.csv", "a.jsonl", "a"):
        with pytest.raises(DataError):
            read_labelled(_write(tmp_path / name))


# Pairs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String", '1\t7\t8\tA "b .\tC .'], ('A "b .', "C .", "1")),
        (["index\tsentence1\tsentence2\tlabel", "0\ta b\tc\tnot_entailment"], ("a b", "c", "not_entailment")),
        (["genre\tsentence1\tsentence2\tscore", "m\ta\tb\t3"], ("a", "b", 3.0)),
        (["pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment", "1\ta\tb\t4.5\tNEUTRAL"],
         ("a", "b", "NEUTRAL")),
        (["id\tquestion1\tquestion2\tis_duplicate", "1\ta\tb\t0"], ("a", "b", "0")),
        (["index\tquestion\tsentence\tlabel", "1\ta\tb\tyes"], ("a", "b", "yes")),
        (["premise\thypothesis\tlabel", "a\tb\t2"], ("a", "b", "2")),
        (["a long text\tand another\tyes", "once more text\tand others\tno"], ("a long text", "and another", "yes")),
        (["text1\ttext2\tlabel", "a\tb\t0.25"], ("a", "b", 0.25)),
    ],
)  # fmt: skip
def test_pairs_in_the_formats_of_their_datasets(
    lines: list[str], found: tuple[str, str, str | float], tmp_path: Path
) -> None:
    path = _write(tmp_path / "a.tsv", *lines)
    assert read_labelled_pairs(path, regression=isinstance(found[2], float)).examples[0] == LabelledPair(*found)


def test_a_requested_column_or_kind(tmp_path: Path) -> None:
    head = "sentence_A\tsentence_B\trelatedness_score\tentailment_judgment"
    path = _write(tmp_path / "a.txt", head, "a\tb\t4.5\tNEUTRAL", "c\td\t1\tNEUTRAL")
    numbers = read_labelled_pairs(path, regression=True)
    assert [example.label for example in numbers.examples] == [4.5, 1.0]
    with pytest.raises(DataError) as caught:
        read_labelled_pairs(path, label_column="relatedness_score")
    assert (caught.value.argument, caught.value.hint) == ("regression", "--regression")
    assert [example.label for example in read_labelled_pairs(path).examples] == ["NEUTRAL", "NEUTRAL"]
    with pytest.raises(DataError) as caught:
        read_labelled_pairs(path, label_column="entailment_judgment", regression=True)
    assert (caught.value.path, caught.value.line) == (path, 2)
    with pytest.raises(MissingColumnError) as missing:
        read_labelled_pairs(path, first_column="x")
    assert (missing.value.argument, missing.value.value) == ("first_column", "x")


def test_bad_pairs(tmp_path: Path) -> None:
    lines = ["sentence1\tsentence2\tscore", "a\tb\t1.5", "\tb\t2", "a\t \t2", "a\tb\tnan", "a\tb\t", "a\tb"]
    reading = read_labelled_pairs(_write(tmp_path / "a.tsv", *lines), regression=True, skip_bad_rows=True)
    assert reading.examples == [LabelledPair("a", "b", 1.5)]
    assert [row.line for row in reading.bad] == [3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("record", "missing"),
    [
        ({"premise": "a", "hypothesis": "b"}, "label_column"),
        ({"premise": "a", "label": "x"}, "second_column"),
        ({"sentence_B": "a", "label": "x"}, "first_column"),
        ({"left": "a", "right": "b"}, "first_column"),
    ],
    ids=str,
)
def test_what_is_missing_from_records_of_pairs(record: dict[str, str], missing: str, tmp_path: Path) -> None:
    path = _write(tmp_path / "a.jsonl", json.dumps(record))
    with pytest.raises(DataError) as caught:
        read_labelled_pairs(path)
    assert (caught.value.argument, caught.value.value) == (missing, list(record))


@pytest.mark.parametrize("label", [[], ["x", "y"]])
def test_a_pair_has_one_label(label: list[str], tmp_path: Path) -> None:
    good = {"premise": "a", "hypothesis": "b", "label": ["x"]}
    path = _write(tmp_path / "a.jsonl", json.dumps(good), json.dumps({**good, "label": label}))
    with pytest.raises(DataError) as caught:
        read_labelled_pairs(path)
    assert caught.value.line == 2
    assert read_labelled_pairs(path, skip_bad_rows=True).examples == [LabelledPair("a", "b", "x")]


# Labels of several files ----------------------------------------------------------------------------------


def test_one_class_only() -> None:
    with pytest.raises(DataError) as caught:
        require_two_labels(("ham",), "x.csv", 340)
    assert (caught.value.path, caught.value.value) == (Path("x.csv"), ["ham"])
    require_two_labels(("ham", "spam"), "x.csv", 2)


def test_labels_that_were_not_in_training(tmp_path: Path) -> None:
    path = _write(tmp_path / "dev.tsv", "text\tlabel", "a\tgood", "b\tgoood", "c\tbad", "d\tfine")
    reading = read_labelled(path)
    with pytest.raises(DataError) as caught:
        refuse_unseen(reading, path, ("bad", "good"), lambda example: example.labels)
    assert [row.line for row in caught.value.value] == [3, 5]
    kept = refuse_unseen(reading, path, ("bad", "good"), lambda example: example.labels, skip_bad_rows=True)
    assert [example.text for example in kept.examples] == ["a", "c"]
    assert [row.line for row in kept.bad] == [3, 5]
    with pytest.raises(DataError):
        refuse_unseen(reading, path, ("x", "y"), lambda example: example.labels, skip_bad_rows=True)


@pytest.mark.parametrize("labels", [[], ["good", "bad"]], ids=["none", "two"])
def test_examples_with_other_than_one_label(labels: list[str], tmp_path: Path) -> None:
    records = [{"text": "a", "label": "good"}, {"text": "b", "label": labels}, {"text": "c", "label": ["bad"]}]
    path = _write(tmp_path / "dev.jsonl", *map(json.dumps, records))
    reading = read_labelled(path)
    unseen = functools.partial(refuse_unseen, reading, path, ("bad", "good"), lambda example: example.labels)
    assert len(unseen().examples) == 3
    with pytest.raises(DataError) as caught:
        unseen(single=True)
    assert caught.value.line == 2
    kept = unseen(single=True, skip_bad_rows=True)
    assert [example.text for example in kept.examples] == ["a", "c"]
    assert [row.line for row in kept.bad] == [2]


texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=19).filter(
    lambda text: text.strip() == text
)


@given(st.lists(st.tuples(texts, st.sampled_from(["a", "b", "c,d"])), min_size=1, max_size=7))
def test_any_texts_survive_every_format(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]) -> None:
    folder = tmp_path_factory.mktemp("labelled")
    wanted = [Labelled(text, (label,)) for text, label in rows]
    table = io.StringIO(newline="")
    csv.writer(table).writerows([("text", "label"), *rows])
    (folder / "a.csv").write_text(table.getvalue(), encoding="utf-8", newline="")
    _write(folder / "a.tsv", "text\tlabel", *("\t".join(row) for row in rows))
    _write(folder / "a.jsonl", *(json.dumps({"text": text, "label": label}) for text, label in rows))
    for name in ("a.csv", "a.tsv", "a.jsonl"):
        assert read_labelled(folder / name).examples == wanted


@pytest.mark.parametrize(
    ("name", "count", "labels"),
    [("sst2/train.tsv", 6920, "0 1"), ("sms_spam/SMSSpamCollection", 5574, "ham spam"),
     ("glue/CoLA/dev.tsv", 1043, "0 1")],
)  # fmt: skip
def test_real_labelled_texts(name: str, count: int, labels: str, real_data: Path) -> None:
    reading = read_labelled(real_data / name)
    assert len(reading.examples) == count
    assert " ".join(label_names(label for example in reading.examples for label in example.labels)) == labels


@pytest.mark.parametrize(
    ("name", "count", "kind"),
    [("glue/MRPC/dev.tsv", 408, str), ("glue/RTE/dev.tsv", 277, str), ("glue/STS-B/dev.tsv", 1500, float),
     ("sick/SICK_trial.txt", 500, str)],
)  # fmt: skip
def test_real_labelled_pairs(name: str, count: int, kind: type, real_data: Path) -> None:
    reading = read_labelled_pairs(real_data / name, regression=kind is float)
    assert len(reading.examples) == count
    assert {type(example.label) for example in reading.examples} == {kind}
