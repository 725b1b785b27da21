"""`regard embed`: its inputs, its outputs and its errors."""

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
from regard.models.bert.config import BertConfig
from regard.models.bert.model import build
from regard.models.heads import HeadConfig
from regard.tasks.classify.predictor import Classifier
from regard.tokenizers.tokenizer import SpecialTokens
from regard.tokenizers.training import train_tokenizer

TEXTS = ["The cat sleeps.", "The cats sleep.", 'It rains, "a lot", on the hill.']


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    special_tokens = SpecialTokens(pad="[PAD]", unknown="[UNK]", start="[CLS]", end="[SEP]")
    tokenizer = train_tokenizer(TEXTS * 2, kind="wordpiece", vocab_size=83, special_tokens=special_tokens)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=tokenizer.vocab_size, num_layers=2, d_model=14, d_ff=22, num_heads=2, head_dim=7, context_length=41
    )
    head = HeadConfig(kind="sequence_classification", labels=("dry", "wet"))
    folder = tmp_path_factory.mktemp("models") / "bert"
    Classifier(build(config, head), tokenizer, head=head).save(folder)
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
    done = regard("embed", bert, texts, "--out", tmp_path / "vectors.npy")
    assert done == (0, f"{tmp_path / 'vectors.npy'}\n", "")
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
def test_vectors_of_arguments_and_stdin_are_printed(regard: Any, bert: Path, expected: Any, way: str) -> None:
    given = {"arguments": TEXTS, "stdin": [], "dash": ["-"]}[way]
    done = regard("embed", bert, *given, stdin="\n".join(TEXTS).encode())
    assert done.code == 0
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert [line["text"] for line in lines] == TEXTS
    np.testing.assert_allclose([line["vector"] for line in lines], expected, atol=1e-6)


def test_pooling_and_length(regard: Any, bert: Path) -> None:
    done = regard("embed", bert, TEXTS[0], "--pooling", "max", "--normalize", "false", "--max-seq-len", 4)
    vector = json.loads(done.out)["vector"]
    plain = library.load(bert).embed(TEXTS[0], pooling="max", normalize=False, max_seq_len=4)
    np.testing.assert_allclose(vector, plain, atol=1e-6)
    assert "4" in done.err


def test_similarity(regard: Any, bert: Path, texts: Path, expected: Any, tmp_path: Path) -> None:
    cosines = expected @ expected.T
    two = regard("embed", bert, TEXTS[0], "--similarity", "--similar-to", TEXTS[1])
    assert two.out == f"{cosines[0, 1]:.4f}\n"
    table = regard("embed", bert, texts, "--similarity")
    assert np.allclose(np.loadtxt(io.StringIO(table.out)), cosines, atol=1e-3)
    other = tmp_path / "others.txt"
    other.write_text(f"{TEXTS[2]}\n{TEXTS[0]}\n", encoding="utf-8")
    one = regard("embed", bert, texts, "--similarity", "--similar-to", other, "--json")
    found = [json.loads(line) for line in one.out.splitlines()]
    assert [line["text"] for line in found] == TEXTS
    np.testing.assert_allclose([line["similarity"] for line in found], cosines[:, [2, 0]], atol=1e-5)
    for name in ("s.npy", "s.csv", "s.jsonl"):
        assert regard("embed", bert, texts, "--similarity", "--out", tmp_path / name).code == 0
    np.testing.assert_allclose(np.load(tmp_path / "s.npy"), cosines, atol=1e-5)
    assert (tmp_path / "s.csv").read_text(encoding="utf-8").startswith("text,The cat sleeps.,The cats sleep.,")
    assert len(json.loads((tmp_path / "s.jsonl").read_text(encoding="utf-8").splitlines()[0])["similarity"]) == 3


def test_all_lines_of_stdin_are_compared(regard: Any, bert: Path) -> None:
    done = regard("embed", bert, "--similarity", "--json", stdin="\n".join(TEXTS * 100).encode())
    assert [len(json.loads(line)["similarity"]) for line in done.out.splitlines()] == [300] * 300


def test_a_vector_for_every_token(regard: Any, bert: Path, tmp_path: Path) -> None:
    done = regard("embed", bert, TEXTS[0], "--tokens")
    found = json.loads(done.out)
    assert found["tokens"][0] == "[CLS]"
    assert "".join(found["token_texts"]) == TEXTS[0].replace(" ", "")
    np.testing.assert_allclose(found["vectors"], library.load(bert).tokens(TEXTS[0]).vectors, atol=1e-6)
    for name in ("t.jsonl", "t.csv"):
        assert regard("embed", bert, TEXTS[0], "--tokens", "--layer", 0, "--out", tmp_path / name).code == 0
    assert len((tmp_path / "t.csv").read_text(encoding="utf-8").splitlines()) == 1 + len(found["tokens"])


def test_a_line_of_100_000_words_is_truncated_and_an_empty_one_named(regard: Any, bert: Path, tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("cat\n\n" + "cat " * 100_000 + "\n", encoding="utf-8")
    done = regard("embed", bert, path, "--out", tmp_path / "v.npy")
    assert done.code == 0
    assert "41" in done.err and len(done.err.splitlines()) == 2, "one text is truncated, one is empty"
    assert np.load(tmp_path / "v.npy").shape == (3, 14)


def test_what_is_refused(regard: Any, bert: Path, tmp_path: Path) -> None:
    empty, latin = tmp_path / "empty.txt", tmp_path / "latin.txt"
    empty.touch()
    latin.write_bytes(b"caf\xe9\n")
    for code, name, *arguments in (
        (1, "empty.txt", empty),
        (1, "latin.txt:1", latin),
        (2, "nowhere.txt", "nowhere.txt"),
        (2, str(tmp_path), tmp_path),
        (2, "--out", "a", "--out", tmp_path / "v.txt"),
        (2, ".npy", "a", "--tokens", "--out", tmp_path / "v.npy"),
        (2, "--similarity", "a", "--tokens", "--similarity"),
        (2, "--similarity", "a", "--similar-to", "b"),
        (2, "--tokens", "a", "--layer", 1),
        (2, "layer", "a", "--tokens", "--layer", 7),
        (2, "max_seq_len", "a", "--max-seq-len", 1),
    ):
        done = regard("embed", bert, *arguments)
        assert done.code == code, (arguments, done.err)
        assert name in done.err and done.err.count("\n") < 4
    assert not list(tmp_path.glob("v.*"))


def test_evaluation_on_pairs_with_numbers(regard: Any, bert: Path, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    rows = [(TEXTS[0], TEXTS[1], 4.5), (TEXTS[0], TEXTS[2], 0.5), (TEXTS[1], TEXTS[2], 1.0)]
    lines = ["sentence1\tsentence2\tscore", *("\t".join(map(str, row)) for row in rows)]
    pairs.write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = regard("evaluate", bert, pairs, "--task", "embed", "--json")
    assert done.code == 0, done.err
    names = [score["name"] for score in json.loads(done.out)]
    assert names == ["Pearson", "Spearman", "Pearson of word overlap", "Spearman of word overlap"]


def test_other_models_do_not_embed_and_an_encoder_does_not_generate(regard: Any, bert: Path, model: Path) -> None:
    assert regard("embed", model, "a").code == 2
    done = regard("generate", bert, "The cat")
    assert (done.code, done.error.argument, done.error.value) == (2, "task", "generate")
    assert regard("translate", bert, "The cat").code == 2


def test_an_encoder_is_looked_at_and_its_tokens_shown(regard: Any, bert: Path, tmp_path: Path) -> None:
    done = regard("look", bert, TEXTS[0], "--json")
    attention = json.loads(done.out)["attention"]
    assert {item["address"] for item in attention} == {"encoder.0.self", "encoder.1.self"}
    assert attention[0]["rows"][0] == "[CLS]"
    assert regard("look", bert, TEXTS[0], "--out", tmp_path / "look.html").code == 0
    assert regard("look", bert, TEXTS[0], "--view", "ranks", "--force").code == 2
    assert json.loads(regard("tokens", bert, TEXTS[0], "--json").out)["kind"] == "wordpiece"
