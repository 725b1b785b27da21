"""Tagged sentences: CoNLL columns and CoNLL-U, and every kind of line that cannot be used."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from regard.data.tagged import Tagged, marks_entities, read_tagged
from regard.utils.errors import DataError, UsageError

PARIS = Tagged(("Paris", "is", "big"), ("B-loc", "O", "O"))


def _write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="")
    return path


@pytest.mark.parametrize(
    "text",
    [
        "Paris B-loc\nis O\nbig O\n\nYes O\n",
        "Paris\tB-loc\nis\tO\nbig\tO\n\t\nYes\tO",
        "-DOCSTART- -X- O\n\nParis NNP B-loc\nis VBZ O\nbig JJ O\n\n\n\nYes UH O\n\n",
        "\ufeffParis B-loc\r\nis O\r\nbig O\r\n\r\nYes O\r\n",
    ],
)
def test_columns(text: str, tmp_path: Path) -> None:
    reading = read_tagged(_write(tmp_path / "a.conll", text))
    assert reading.examples == [PARIS, Tagged(("Yes",), ("O",))]
    assert reading.bad == []


def test_words_with_marks_that_mean_something_elsewhere(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.conll", '#hashtag O\n" O\n\n# O\n')
    assert [example.words for example in read_tagged(path).examples] == [("#hashtag", '"'), ("#",)]


def test_another_column(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.conll", "Paris NNP B-loc\nis VBZ O\n")
    assert read_tagged(path, tag_column="2").examples == [Tagged(("Paris", "is"), ("NNP", "VBZ"))]
    for wrong in ("1", "4", "upos"):
        with pytest.raises(UsageError) as caught:
            read_tagged(path, tag_column=wrong)
        assert (caught.value.argument, caught.value.value, caught.value.allowed) == ("tag_column", wrong, (2, 3))


def test_a_ragged_line_makes_its_sentence_a_bad_row(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.conll", "Yes O\n\nParis B-loc\nis\nbig O or\n\nNo O\nno O\n")
    with pytest.raises(DataError) as caught:
        read_tagged(path)
    assert [row.line for row in caught.value.value] == [4, 5]
    reading = read_tagged(path, skip_bad_rows=True)
    assert [example.words for example in reading.examples] == [("Yes",), ("No", "no")]
    assert reading.lines == [1, 7]


def test_an_empty_word_or_tag(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.conll", "a\tO\n\n\tO\n\nb\t\n\nc\tO\n")
    reading = read_tagged(path, skip_bad_rows=True)
    assert [example.words for example in reading.examples] == [("a",), ("c",)]
    assert [row.line for row in reading.bad] == [3, 5]


def test_entities_that_do_not_begin_with_b(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.conll", "a B-x\nb I-x\n\nc O\nd I-x\n\ne B-x\nf I-y\n\ng O\n")
    with pytest.raises(DataError) as caught:
        read_tagged(path)
    assert [row.line for row in caught.value.value] == [5, 8]
    assert len(read_tagged(path, skip_bad_rows=True).examples) == 2
    repaired = read_tagged(path, repair_tags=True)
    assert [example.tags for example in repaired.examples] == [("B-x", "I-x"), ("O", "B-x"), ("B-x", "B-y"), ("O",)]
    path = _write(tmp_path / "b.conll", "a I-x\n\nb B-x\n\nc E-x\n")
    assert [row.line for row in read_tagged(path, skip_bad_rows=True).bad] == [1, 5]


def test_iob1_is_recognized_and_written_as_iob2(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.conll", "a I-x\nb I-x\nc B-x\nd O\n\ne O\nf I-y\n")
    reading = read_tagged(path)
    assert [example.tags for example in reading.examples] == [("B-x", "I-x", "B-x", "O"), ("O", "B-y")]
    assert "IOB1" in reading.remarks[0]


def test_parts_of_speech_have_no_scheme_to_break(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.conll", "a I-x\nb NOUN\n")
    assert read_tagged(path).examples == [Tagged(("a", "b"), ("I-x", "NOUN"))]
    assert marks_entities(["O", "B-x"])
    assert not marks_entities(["O"])
    assert not marks_entities(["O", "NOUN"])


def test_entities_without_a_type(tmp_path: Path) -> None:
    """As in NCBI-disease: O, B and I alone. Parts of speech of one letter have no O, or others beside these."""
    path = _write(tmp_path / "a.conll", "a B\nb I\nc O\n\nd O\ne I\n")
    reading = read_tagged(path, skip_bad_rows=True)
    assert reading.remarks[0].endswith(": B, I, O")
    assert [row.line for row in reading.bad] == [6]
    assert read_tagged(path, repair_tags=True).examples[1].tags == ("O", "B")
    assert marks_entities({"O", "B", "I"})
    for others in (["B", "I"], ["O"], ["O", "B", "V"]):
        assert not marks_entities(others)


def _entities_with(tag: str) -> str:
    """Ten sentences in IOB2, and a last one whose only word has another tag."""
    return "Ann B-per\nLee I-per\nis O\nold O\n\n" * 10 + f"Tom {tag}\n"


@pytest.mark.parametrize("tag", ["b-per", "B", "B_per", "per", "U-per"])
def test_a_mistyped_tag_does_not_disable_the_scheme(tag: str, tmp_path: Path) -> None:
    path = _write(tmp_path / "a.conll", _entities_with(tag) + "\nOslo I-loc\n")
    with pytest.raises(DataError) as caught:
        read_tagged(path)
    assert [row.line for row in caught.value.value] == [51, 53], "the scheme holds"
    reading = read_tagged(path, skip_bad_rows=True)
    assert len(reading.examples) == 10
    assert reading.remarks[0].endswith("entities: loc, per")


def test_mistyped_tags_in_iob1(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.conll", _entities_with("i-per").replace("B-", "I-"))
    reading = read_tagged(path, skip_bad_rows=True)
    assert [row.line for row in reading.bad] == [51]
    assert {example.tags for example in reading.examples} == {("B-per", "I-per", "O", "O")}
    assert "IOB1" in reading.remarks[0]


def test_remarks_on_tags(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.conll", "a NOUN\nb VERB\n")
    assert "NOUN, VERB" in read_tagged(path).remarks[0]
    path = _write(tmp_path / "b.conll", "a B-x\nb O\nc NOUN\n")
    assert "2 of 3" in read_tagged(path).remarks[0]
    path = _write(tmp_path / "c.conll", "a O\nb O\n")
    assert "no entities" in read_tagged(path).remarks[0]


def test_an_empty_cell_in_the_column_of_tags(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.conll", "a\tNN\tO\n\nb\t\tO\n\nc\tVB\t\n\nd\tNN\tO\n")
    reading = read_tagged(path, tag_column="2", skip_bad_rows=True)
    assert [example.tags for example in reading.examples] == [("NN",), ("VB",), ("NN",)]
    assert [row.line for row in reading.bad] == [3]
    assert [row.line for row in read_tagged(path, skip_bad_rows=True).bad] == [5]


CONLLU = """# text = don't go
1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tdo\tdo\tAUX\tVB\t_\t3\taux\t_\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_
3\tgo\tgo\tVERB\tVB\t_\t0\troot\t_\t_
3.1\tthere\tthere\tADV\tRB\t_\t_\t_\t_\t_

# a comment alone

1\tNew York\tNew York\tPROPN\tNNP\t_\t0\troot\t_\t_
"""


def test_conllu(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.conllu", CONLLU)
    assert read_tagged(path).examples == [
        Tagged(("do", "n't", "go"), ("AUX", "PART", "VERB")),
        Tagged(("New York",), ("PROPN",)),
    ]
    assert read_tagged(path, tag_column="deprel").examples[0].tags == ("aux", "advmod", "root")
    packed = tmp_path / "b.conllu.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_tagged(packed).examples == read_tagged(path).examples
    with pytest.raises(UsageError) as caught:
        read_tagged(path, tag_column="upso")
    assert (caught.value.value, caught.value.hint) == ("upso", "upos")


@pytest.mark.parametrize(
    "line",
    [
        "2\tx\tx\tNOUN",
        "2 x x NOUN NN _ 1 dep _ _",
        "two\tx\tx\tNOUN\tNN\t_\t1\tdep\t_\t_",
        "2\tx\tx\t\tNN\t_\t1\tdep\t_\t_",
    ],
)
def test_bad_lines_of_conllu(line: str, tmp_path: Path) -> None:
    path = _write(tmp_path / "a.conllu", f"{CONLLU}\n1\ta\ta\tNOUN\tNN\t_\t0\troot\t_\t_\n{line}\n")
    with pytest.raises(DataError) as caught:
        read_tagged(path)
    assert (caught.value.path, caught.value.line) == (path, 13)
    reading = read_tagged(path, skip_bad_rows=True)
    assert len(reading.examples) == 2
    assert [row.line for row in reading.bad] == [13]


def test_files_that_are_something_else(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        read_tagged(_write(tmp_path / "a.txt", "Hello\nWorld\n"))
    for name in ("a.conll", "a.conllu"):
        with pytest.raises(DataError):
            read_tagged(_write(tmp_path / name, "\n\n"))
    with pytest.raises(UsageError):
        read_tagged(tmp_path / "no.conll")
    path = tmp_path / "b.conll"
    path.write_bytes(b"a O\nb\xff O\n\nc O\n")
    assert [row.line for row in read_tagged(path, skip_bad_rows=True).bad] == [2]


@pytest.mark.parametrize(
    ("name", "sentences", "kinds"),
    [("wnut17/wnut17train.conll", 3394, 13), ("wnut17/emerging.dev.conll", 1009, 13),
     ("ud_ewt/en_ewt-ud-dev.conllu.gz", 2001, 17)],
)  # fmt: skip
def test_real_tagged_sentences(name: str, sentences: int, kinds: int, real_data: Path) -> None:
    reading = read_tagged(real_data / name)
    assert len(reading.examples) == sentences
    assert len({tag for example in reading.examples for tag in example.tags}) == kinds
