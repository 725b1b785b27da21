"""`regard embed`: where texts come from, what is written, and what is refused."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard as library
from regard.checkpoint.folder import own_tensors, write_model
from regard.models.bert import make_bert
from regard.models.bert_settings import BertConfig, HeadConfig
from regard.tasks.embed import Embedder
from regard.text.tokenizer import Symbols
from regard.text.training import train_tokenizer

TEXTS = ["The cat sleeps.", "The cats sleep.", 'It rains, "a lot", on the hill.']


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    symbols = Symbols(pad="[PAD]", unknown="[UNK]", start="[CLS]", end="[SEP]")
    tokenizer = train_tokenizer(TEXTS * 2, kind="wordpiece", vocab_size=83, symbols=symbols)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=tokenizer.vocab_size, layers=2, width=14, hidden=22, heads=2, head_width=7, context=41
    )
    head = HeadConfig(kind="sequence", labels=("dry", "wet"))
    embedder = Embedder(make_bert(config, head), tokenizer, head=head)
    folder = tmp_path_factory.mktemp("models") / "bert"
    contents = embedder.contents()
    write_model(folder, config=contents.config, tensors=own_tensors(embedder.model), texts=contents.texts)
    return folder


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_bytes("﻿".encode() + "\r\n".join(TEXTS).encode() + b"\r\n")
    return path


@pytest.fixture(scope="module")
def expected(bert: Path) -> Any:
    return library.load(bert).embed(TEXTS)


def test_a_file_to_an_array(regard: Any, bert: Path, texts: Path, expected: Any, tmp_path: Path) -> None:
    said = regard("embed", bert, texts, "--out", tmp_path / "vectors.npy")
    assert said == (0, f"{tmp_path / 'vectors.npy'}\n", "")
    found = np.load(tmp_path / "vectors.npy")
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-6)
    again = regard("embed", bert, texts, "--out", tmp_path / "vectors.npy")
    assert again.code == 2
    assert "--force" in again.err
    assert regard("embed", bert, texts, "--out", tmp_path / "vectors.npy", "--force").code == 0


def test_a_table_and_lines_of_json(regard: Any, bert: Path, texts: Path, expected: Any, tmp_path: Path) -> None:
    assert regard("embed", bert, texts, "--out", tmp_path / "v.csv").code == 0
    with (tmp_path / "v.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["text", *map(str, range(14))]
    assert [row[0] for row in rows] == TEXTS
    np.testing.assert_allclose(np.array([row[1:] for row in rows], dtype=np.float32), expected, atol=1e-6)
    assert regard("embed", bert, texts, "--out", tmp_path / "v.jsonl").code == 0
    lines = [json.loads(line) for line in (tmp_path / "v.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["text"] for line in lines] == TEXTS
    np.testing.assert_allclose([line["vector"] for line in lines], expected, atol=1e-6)


@pytest.mark.parametrize("way", ["arguments", "stdin", "dash"])
def test_texts_from_elsewhere_come_to_stdout(regard: Any, bert: Path, expected: Any, way: str) -> None:
    given = {"arguments": TEXTS, "stdin": [], "dash": ["-"]}[way]
    said = regard("embed", bert, *given, stdin="\n".join(TEXTS).encode())
    assert said.code == 0
    lines = [json.loads(line) for line in said.out.splitlines()]
    assert [line["text"] for line in lines] == TEXTS
    np.testing.assert_allclose([line["vector"] for line in lines], expected, atol=1e-6)


def test_pooling_and_length(regard: Any, bert: Path) -> None:
    said = regard("embed", bert, TEXTS[0], "--pooling", "max", "--no-normalise", "--max-tokens", 4)
    vector = json.loads(said.out)["vector"]
    plain = library.load(bert).embed(TEXTS[0], pooling="max", normalise=False, max_tokens=4)
    np.testing.assert_allclose(vector, plain, atol=1e-6)
    assert "cut off after 4 tokens" in said.err


def test_similarity(regard: Any, bert: Path, texts: Path, expected: Any, tmp_path: Path) -> None:
    cosines = expected @ expected.T
    two = regard("embed", bert, *TEXTS[:2], "--similarity")
    assert two.out == f"{cosines[0, 1]:.4f}\n"
    table = regard("embed", bert, texts, "--similarity")
    assert np.allclose(np.loadtxt(io.StringIO(table.out)), cosines, atol=1e-3)
    one = regard("embed", bert, texts, "--similarity", "--with", TEXTS[2], "--json")
    assert json.loads(one.out)["others"] == [TEXTS[2]]
    np.testing.assert_allclose(json.loads(one.out)["similarity"], cosines[:, 2:], atol=1e-5)
    for name in ("s.npy", "s.csv", "s.jsonl"):
        assert regard("embed", bert, texts, "--similarity", "--out", tmp_path / name).code == 0
    np.testing.assert_allclose(np.load(tmp_path / "s.npy"), cosines, atol=1e-5)
    assert (tmp_path / "s.csv").read_text(encoding="utf-8").startswith("text,The cat sleeps.,The cats sleep.,")
    assert len(json.loads((tmp_path / "s.jsonl").read_text(encoding="utf-8").splitlines()[0])["similarity"]) == 3


def test_a_vector_for_every_token(regard: Any, bert: Path, tmp_path: Path) -> None:
    said = regard("embed", bert, TEXTS[0], "--tokens")
    found = json.loads(said.out)
    assert found["tokens"][0] == "[CLS]"
    assert "".join(found["pieces"]) == TEXTS[0].replace(" ", "")
    np.testing.assert_allclose(found["vectors"], library.load(bert).tokens(TEXTS[0]).vectors, atol=1e-6)
    assert regard("embed", bert, TEXTS[0], "--tokens", "--out", tmp_path / "t.jsonl").code == 0


def test_a_line_of_100_000_words_is_cut_and_an_empty_one_named(regard: Any, bert: Path, tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("cat\n\n" + "cat " * 100_000 + "\n", encoding="utf-8")
    said = regard("embed", bert, path, "--out", tmp_path / "v.npy")
    assert said.code == 0
    assert "1 of 3 texts cut off after 41 tokens: text 3 (" in said.err
    assert "1 of 3 texts without words" in said.err
    assert np.load(tmp_path / "v.npy").shape == (3, 14)


def test_what_is_refused(regard: Any, bert: Path, model: Path, tmp_path: Path) -> None:
    empty, latin = tmp_path / "empty.txt", tmp_path / "latin.txt"
    empty.touch()
    latin.write_bytes(b"caf\xe9\n")
    for code, message, *arguments in (
        (1, "empty.txt is empty", empty),
        (1, "<stdin> is empty", "-"),
        (1, "latin.txt:1: not UTF-8", latin),
        (2, "there is no file nowhere.txt", "nowhere.txt"),
        (2, "is a folder; give a file", tmp_path),
        (2, "must end in .npy or .csv or .jsonl", "a", "--out", tmp_path / "v.txt"),
        (2, "must end in .jsonl", "a", "--tokens", "--out", tmp_path / "v.npy"),
        (2, "ask for one at a time", "a", "--tokens", "--similarity"),
        (2, "give --similarity, too", "a", "--with", "b"),
        (2, "no --no-normalise", "a", "--similarity", "--no-normalise"),
        (2, "leave out --pooling", "a", "--tokens", "--pooling", "cls"),
        (2, "max_tokens must be at least 3", "a", "--max-tokens", 1),
    ):
        said = regard("embed", bert, *arguments)
        assert said.code == code, (arguments, said.err)
        assert message in said.err
    wrong = regard("embed", model, "a")
    assert wrong.code == 2
    assert "Here it takes a BERT" in wrong.err
    assert not list(tmp_path.glob("*.tmp"))


def test_m165_a_bert_does_not_write(regard: Any, bert: Path) -> None:
    said = regard("generate", bert, "The cat")
    assert said.code == 2
    assert "cannot write one word by word" in said.err
    assert "`regard classify`" in said.err
    assert regard("translate", bert, "The cat").code == 2


def test_a_bert_is_looked_at_and_its_pieces_shown(regard: Any, bert: Path, tmp_path: Path) -> None:
    said = regard("look", bert, TEXTS[0], "--json")
    attention = json.loads(said.out)["attention"]
    assert {one["address"] for one in attention} == {"encoder.0.self", "encoder.1.self"}
    assert attention[0]["rows"][0] == "[CLS]"
    assert regard("look", bert, TEXTS[0], "--out", tmp_path / "look.html").code == 0
    assert regard("look", bert, TEXTS[0], "--ranks", "--force").code == 2
    assert json.loads(regard("tokens", bert, TEXTS[0], "--json").out)["kind"] == "wordpiece"
