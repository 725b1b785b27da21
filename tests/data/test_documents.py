"""Documents and sentences of plain text, and the cache of their ids."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data import corpus as corpus_module
from regard.data.corpus import Corpus
from regard.data.documents import Documents, documents_of, read_documents, split_sentences
from regard.tokenizers.tokenizer import BERT_SPECIAL_TOKENS, Tokenizer
from regard.tokenizers.training import train_tokenizer
from regard.utils.errors import DataError, UsageError

TEXT = "One cat sat here. Two dogs ran.\nThree birds sang.\n\nFour fish swam. Five.\n"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    words = "One two Two Three Four Five Six cat sat here dogs ran birds sang fish swam Title Part text . , !"
    return train_tokenizer([words] * 3, kind="wordpiece", vocab_size=300, special_tokens=BERT_SPECIAL_TOKENS)


def said(found: Documents, tokenizer: Tokenizer) -> list[list[str]]:
    """Documents as lists of sentences."""
    sentences = [tokenizer.decode(found.ids[a:b].tolist()) for a, b in itertools.pairwise(found.sentences)]
    return [sentences[a:b] for a, b in itertools.pairwise(found.documents)]


def read(tmp_path: Path, tokenizer: Tokenizer, text: str, name: str = "a.txt") -> list[list[str]]:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return said(read_documents(Corpus.find([path]), tokenizer, longest=50), tokenizer)


def test_a_blank_line_ends_a_document(tmp_path: Path, tokenizer: Tokenizer) -> None:
    assert read(tmp_path, tokenizer, TEXT) == [
        ["One cat sat here.", "Two dogs ran.", "Three birds sang."],
        ["Four fish swam.", "Five."],
    ]


@pytest.mark.parametrize(("title", "part"), [(" = Title = ", " = = Part = = "), ("# Title", "## Part")])
def test_headings_start_documents(tmp_path: Path, tokenizer: Tokenizer, title: str, part: str) -> None:
    text = f"{title}\n \n{part}\n \nOne cat.\n \nTwo dogs.\n \n{part}\nThree.\n{title}\nFour.\n"
    assert read(tmp_path, tokenizer, text) == [
        ["Title", "Part", "One cat.", "Two dogs."],
        ["Part", "Three."],
        ["Title", "Four."],
    ]


def test_each_file_and_each_line_of_json_is_a_document(tmp_path: Path, tokenizer: Tokenizer) -> None:
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"# Title\nOne cat."))
    (tmp_path / "b.txt").write_text("Two dogs.\n\nThree birds.", encoding="utf-8")
    rows = [{"text": "Four.\n\nFive."}, {"text": "= Title =\nSix."}]
    (tmp_path / "c.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    found = read_documents(Corpus.find([tmp_path]), tokenizer, longest=50)
    assert said(found, tokenizer) == [
        ["Title", "One cat."],
        ["Two dogs."],
        ["Three birds."],
        ["Four.", "Five."],
        ["Title", "Six."],  # the signs around it are unknown to this vocabulary
    ]
    assert found.words == 3 + 4 + 2 + 4


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("He came. She left.", ["He came.", "She left."]),
        ("Mr. Smith met J. S. Bach. They sang.", ["Mr. Smith met J. S. Bach.", "They sang."]),
        ('"Stop!" he said. "Why?" "So."', ['"Stop!" he said.', '"Why?"', '"So."']),
        ("It was I. He knew.", ["It was I.", "He knew."]),
        ("Well... so it is. 3.5 is more.", ["Well... so it is.", "3.5 is more."]),
        ("他说。好！吗？", ["他说。", "好！", "吗？"]),
        ("the end . The start .", ["the end .", "The start ."]),
        ("", []),
        (" . ", ["."]),
    ],
)
def test_sentences(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences


@given(st.text(alphabet="aB .!?\"'(é。", max_size=60))
def test_sentences_lose_nothing(text: str) -> None:
    assert "".join("".join(split_sentences(text)).split()) == "".join(text.split())


def test_a_very_long_sentence_is_split(tokenizer: Tokenizer) -> None:
    found = documents_of(["cat dogs " * 50_000, "One."], tokenizer, longest=7)
    assert np.diff(found.sentences).max() == 7
    assert len(found.ids) == 100_000 + 2
    assert found.documents.tolist() == [0, 14286, 14287]


@given(st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=5), min_size=1, max_size=6), st.floats(0.01, 0.99))
def test_the_end_is_the_validation_split(shape: list[list[int]], share: float) -> None:
    lengths = [length for document in shape for length in document]
    sentences = np.concatenate([[0], np.cumsum(lengths)])
    documents = np.concatenate([[0], np.cumsum([len(document) for document in shape])])
    whole = Documents(np.arange(sentences[-1]), sentences, documents, words=sum(lengths))
    if len(lengths) < 2:
        with pytest.raises(DataError):
            whole.split(fraction=share, max_tokens=1000)
        return
    train, validation = whole.split(fraction=share, max_tokens=1000)
    assert np.concatenate([train.ids, validation.ids]).tolist() == whole.ids.tolist()
    assert [*np.diff(train.sentences), *np.diff(validation.sentences)] == lengths
    assert len(train) + len(validation) - len(whole) in (0, 1)  # one document may have become two
    for part in (train, validation):
        assert part.documents[0] == part.sentences[0] == 0
        assert part.documents[-1] == part.num_sentences > 0
        assert part.sentences[-1] == len(part.ids)


def test_a_wrong_fraction(tokenizer: Tokenizer) -> None:
    with pytest.raises(UsageError) as caught:
        documents_of(["One. Two."], tokenizer, longest=9).split(fraction=1.5, max_tokens=10)
    assert (caught.value.argument, caught.value.value) == ("val_fraction", 1.5)


def test_a_large_corpus_is_cached(tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    path.write_text(TEXT * 40, encoding="utf-8")
    corpus = Corpus.find([path])
    small = read_documents(corpus, tokenizer, longest=5)
    monkeypatch.setattr(corpus_module, "MAX_IN_MEMORY", 100)
    monkeypatch.setattr(corpus_module, "CHUNK_BYTES", 70)  # documents span chunks
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "kept"))
    large = read_documents(corpus, tokenizer, longest=5)
    assert all(isinstance(array, np.memmap) for array in (large.ids, large.sentences, large.documents))
    for name in ("ids", "sentences", "documents"):
        assert getattr(large, name).tolist() == getattr(small, name).tolist()
    assert large.words == small.words
    monkeypatch.setattr("regard.data.documents._encoded", None)  # cached ids are not computed again
    assert read_documents(corpus, tokenizer, longest=5).words == small.words
    names = {path.stem for path in (tmp_path / "kept").rglob("*.*")}
    assert names == {"ids", "sentences", "documents", "words"}


def test_text_without_words(tmp_path: Path, tokenizer: Tokenizer) -> None:
    with pytest.raises(DataError):
        read(tmp_path, tokenizer, " \n\n")
    with pytest.raises(DataError):
        documents_of([" ", ""], tokenizer, longest=9)
    with pytest.raises(UsageError) as caught:
        documents_of(["One."], tokenizer, longest=0)
    assert caught.value.value == 0
