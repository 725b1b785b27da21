"""Sentences with the senses of their words: every layout, and every row that cannot be compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regard.data.senses import find_word, read_senses, world_senses
from regard.data.world.senses import SENSES, SenseSentence
from regard.errors import DataError, RegardError

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


def said(path: Path) -> str:
    with pytest.raises(RegardError) as error:
        read_senses(path)
    return str(error.value)


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
    ("row", "reason"),
    [
        (("bank", "money", "The shore was steep."), "the word 'bank' is not in the sentence 'The shore was steep.'"),
        (("bank", "money", "The bankers came."), "the word 'bank' is not in the sentence"),
        (("bank", "", "A bank."), "the sense is empty"),
        ((" ", "money", "A bank."), "the word is empty"),
        (("bank", "money", " \t"), "columns where most rows have"),
        (("bank", "money"), "2 columns, 3 needed"),
        (("", "", ""), "empty line"),
        (("bank", "blood", "The bank was empty."), "the only sentence in which 'bank' means 'blood'"),
        (("spring", "season", "The spring came."), "the only sentence in which 'spring' means 'season'"),
        (ROWS[2], "the same sentence with 'bank' as in line 3"),
    ],
)  # fmt: skip
def test_a_bad_row_is_named_and_can_be_left_out(tmp_path: Path, row: tuple[str, ...], reason: str) -> None:
    path = tmp_path / "s.tsv"
    if reason.startswith("columns where"):
        row, reason = (*ROWS[0], "more"), "4 columns where most rows have 3"
    write(path, *ROWS, row)
    message = said(path)
    assert "1 of 5 rows cannot be used" in message
    assert f"{path}:5: {reason}" in message
    kept = read_senses(path, skip_bad_rows=True)
    assert [one.text for one in kept.examples] == [text for _, _, text in ROWS]
    assert len(kept.bad) == 1


def test_a_word_of_one_sense_has_nothing_to_tell_apart(tmp_path: Path) -> None:
    rows = [("spring", "season", "The spring came."), ("spring", "season", "In spring it rains.")]
    message = said(write(tmp_path / "s.tsv", *ROWS, *rows))
    assert "2 of 6 rows cannot be used" in message
    assert "s.tsv:5: 'spring' has one sense that can be compared, 'season'" in message
    # A sense that falls out because it is alone takes its word along.
    rows.append(("spring", "coil", "A spring of steel."))
    kept = read_senses(write(tmp_path / "s.tsv", *ROWS, *rows), skip_bad_rows=True)
    assert len(kept.examples) == 4
    assert [row.line for row in kept.bad] == [5, 6, 7]
    lonely = write(tmp_path / "t.tsv", *rows[:2])
    with pytest.raises(DataError, match="no sentences of words with two senses"):
        read_senses(lonely, skip_bad_rows=True)


def test_columns_that_are_missing_or_there_twice_are_listed(tmp_path: Path) -> None:
    message = said(write(tmp_path / "s.tsv", *ROWS, header="word\tsense\tbody"))
    assert "no column 'sentence'; its columns are: word, sense, body" in message
    message = said(write(tmp_path / "s.tsv", *[(*row, "x") for row in ROWS], header="word\tsense\ttext\tsentence"))
    assert "2 columns could be the sentence: 'text', 'sentence'" in message
    message = said(write(tmp_path / "s.tsv", *[(a, b) for a, b, _ in ROWS]))
    assert "has 2 columns ('bank'); three are needed, word, sense, sentence, separated by tabs" in message
    (tmp_path / "s.jsonl").write_text('{"word": "bank", "gloss": "x", "text": "A bank."}\n', encoding="utf-8")
    assert "no column 'sense'; its columns are: word, gloss, text" in said(tmp_path / "s.jsonl")
    records = [dict(zip(("word", "sense", "sentence"), row, strict=True)) for row in ROWS]
    records += [{"word": "bank", "sense": "money"}, {"word": "bank", "sense": 3, "sentence": "A bank."}]
    (tmp_path / "s.jsonl").write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    message = said(tmp_path / "s.jsonl")
    assert "s.jsonl:5: no key 'sentence'; its keys are: word, sense" in message
    assert "s.jsonl:6: 'sense' is a number, not a text" in message


def test_files_that_are_none(tmp_path: Path) -> None:
    assert "does not exist" in said(tmp_path / "none.tsv")
    (tmp_path / "empty.tsv").write_bytes(b"")
    assert "no sentences of words with two senses" in said(tmp_path / "empty.tsv")
    (tmp_path / "bytes.tsv").write_bytes(b"bank\tmoney\tA bank \xff.\n")
    assert "bytes.tsv:1: not valid UTF-8" in said(tmp_path / "bytes.tsv")


def test_where_a_word_stands(tmp_path: Path) -> None:
    assert find_word("bank", "Bank on the bank.") == 0
    assert find_word("bank", "bankers and a bank") == 14
    assert find_word("c++", "He writes C++ well.") == 10
    assert find_word("bank", "embankment") is None
    reading = read_senses(write(tmp_path / "s.tsv", *ROWS, ("Bank", "money", "A bank is a bank.")))
    assert reading.examples[-1] == SenseSentence("A bank is a bank.", "bank", 2, "money")
    assert reading.remarks == ["1 sentence with their word more than once: the first counts"]


def test_m28_the_world_has_enough_sentences_of_every_sense() -> None:
    found = world_senses()
    for word, senses in SENSES.items():
        for sense in senses:
            assert sum((one.word, one.sense) == (word, sense) for one in found) >= 20
    assert len({one.text for one in found}) == len(found)
