"""Sentences with the senses of their words: every layout, and every row that cannot be compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regard.data.senses import find_word, read_senses, synthetic_senses
from regard.data.synthetic.labelled import SENSES, SenseSentence
from regard.utils.errors import DataError, UsageError

ROWS = [
    ("bank", "money", "The bank lent me ten coins."),
    ("bank", "river", "We sat on the bank, near the boats."),
    ("bank", "money", "A bank opened."),
    ("bank", "river", "The muddy bank was steep."),
]


def write(path: Path, *rows: tuple[str, ...], header: str = "", separator: str = "\t") -> Path:
    lines = [header] * bool(header) + [separator.join(row) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_with_a_header_without_one_and_in_any_order(tmp_path: Path) -> None:
    expected = [SenseSentence(text, word, text.index("bank"), sense) for word, sense, text in ROWS]
    assert read_senses(write(tmp_path / "a.tsv", *ROWS)).examples == expected
    assert read_senses(write(tmp_path / "b.txt", *ROWS, header="Word\tSense\tSentence")).examples == expected
    turned = [(text, "x", word, sense) for word, sense, text in ROWS]
    assert read_senses(write(tmp_path / "c.tsv", *turned, header="text\tid\tlemma\tmeaning")).examples == expected
    quoted = [(f'"{text}"', sense, word) for word, sense, text in ROWS]
    found = read_senses(write(tmp_path / "d.csv", *quoted, header="sentence,sense,word", separator=","))
    assert found.examples == expected
    records = [json.dumps(dict(zip(("word", "sense", "sentence"), row, strict=True))) for row in ROWS]
    (tmp_path / "e.jsonl").write_text("\n".join(records), encoding="utf-8")
    assert read_senses(tmp_path / "e.jsonl").examples == expected
    assert found.bad == []


@pytest.mark.parametrize(
    ("row", "hint"),
    [
        (("bank", "money", "The shore was steep."), "not in the sentence"),
        (("bank", "money", "The bankers came."), "not in the sentence"),
        (("bank", "", "A bank."), "the sense is empty"),
        ((" ", "money", "A bank."), "the word is empty"),
        (("bank", "money", " \x1f"), "the sentence is empty"),
        ((*ROWS[0], "more"), "4 columns"),
        (("bank", "money"), "2 columns"),
        ((), "empty line"),
        (("bank", "blood", "The bank was empty."), "means 'blood'"),
        (("spring", "season", "The spring came."), "means 'season'"),
        (ROWS[2], "line 3"),
    ],
)
def test_a_bad_row_is_named_and_can_be_skipped(tmp_path: Path, row: tuple[str, ...], hint: str) -> None:
    path = write(tmp_path / "s.tsv", *ROWS[:3], row, ROWS[3])
    with pytest.raises(DataError) as caught:
        read_senses(path)
    [bad] = caught.value.value
    assert (bad.file, bad.line) == (str(path), 4)
    assert hint in bad.reason
    result = read_senses(path, skip_bad_rows=True)
    assert [example.text for example in result.examples] == [text for _, _, text in ROWS]
    assert result.bad == [bad]


def test_a_word_with_one_sense_is_refused(tmp_path: Path) -> None:
    rows = [("spring", "season", "The spring came."), ("spring", "season", "In spring it rains.")]
    with pytest.raises(DataError) as caught:
        read_senses(write(tmp_path / "s.tsv", *ROWS, *rows))
    assert [row.line for row in caught.value.value] == [5, 6]
    # Without the sense that has one sentence only, the word has one sense only.
    rows.append(("spring", "coil", "A spring of steel."))
    kept = read_senses(write(tmp_path / "s.tsv", *ROWS, *rows), skip_bad_rows=True)
    assert len(kept.examples) == 4
    assert [row.line for row in kept.bad] == [5, 6, 7]
    path = write(tmp_path / "t.tsv", *rows[:2])
    with pytest.raises(DataError) as caught:
        read_senses(path, skip_bad_rows=True)
    assert caught.value.path == path


def test_missing_and_duplicate_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "s.tsv", *ROWS, header="word\tsense\tbody")
    with pytest.raises(DataError) as caught:
        read_senses(path)
    assert (caught.value.argument, caught.value.value) == ("sentence", ["word", "sense", "body"])
    path = write(tmp_path / "s.tsv", *[(*row, "x") for row in ROWS], header="word\tsense\tsentence\tsentence")
    with pytest.raises(DataError) as caught:
        read_senses(path)
    assert (caught.value.argument, caught.value.value) == ("sentence", "sentence")
    path = write(tmp_path / "s.tsv", *[(*row, "x") for row in ROWS], header="word\tsense\ttext\tcontext")
    assert "sentence 'text'" in read_senses(path).remarks[0]
    path = write(tmp_path / "s.tsv", *[(a, b) for a, b, _ in ROWS])
    with pytest.raises(DataError) as caught:
        read_senses(path)
    assert caught.value.value == 2
    path = tmp_path / "s.jsonl"
    path.write_text('{"word": "bank", "gloss": "x", "text": "A bank."}\n', encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_senses(path)
    assert caught.value.argument == "sense"
    records = [dict(zip(("word", "sense", "sentence"), row, strict=True)) for row in ROWS]
    records += [{"word": "bank", "sense": "money"}, {"word": "bank", "sense": 3, "sentence": "A bank."}]
    path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    assert [row.line for row in read_senses(path, skip_bad_rows=True).bad] == [5, 6]


def test_missing_empty_and_undecodable_files(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        read_senses(tmp_path / "none.tsv")
    (tmp_path / "empty.tsv").write_bytes(b"")
    with pytest.raises(DataError):
        read_senses(tmp_path / "empty.tsv")
    (tmp_path / "bytes.tsv").write_bytes(b"bank\tmoney\tA bank \xff.\n")
    with pytest.raises(DataError) as caught:
        read_senses(tmp_path / "bytes.tsv")
    assert caught.value.line == 1


def test_positions_of_a_word(tmp_path: Path) -> None:
    assert find_word("bank", "Bank on the bank.") == 0
    assert find_word("bank", "bankers and a bank") == 14
    assert find_word("c++", "He writes C++ well.") == 10
    assert find_word("bank", "embankment") is None
    reading = read_senses(write(tmp_path / "s.tsv", *ROWS, ("Bank", "money", "A bank is a bank.")))
    assert reading.examples[-1] == SenseSentence("A bank is a bank.", "bank", 2, "money")
    assert reading.remarks[0].startswith("1 sentence ")


def test_m28_the_synthetic_dataset_has_enough_sentences_of_every_sense() -> None:
    found = synthetic_senses()
    for word, senses in SENSES.items():
        for sense in senses:
            assert sum((one.word, one.sense) == (word, sense) for one in found) >= 20
    assert len({one.text for one in found}) == len(found)
