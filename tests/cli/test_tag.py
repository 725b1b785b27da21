"""`regard train tag`, `regard tag` and `regard evaluate` on a command line."""

from __future__ import annotations

import csv
import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import regard as library
from regard.tasks.tag import reader

seqeval_metrics = pytest.importorskip("seqeval.metrics")

Run = Callable[..., Any]
SHAPE = ["--size", "tiny", "--d-model", 32, "--num-heads", 2, "--head-dim", 16, "--d-ff", 48, "--num-layers", 2]
QUICK = ["--max-seq-len", 16, "--vocab-size", 200, "--batch-size", 16, "--learning-rate", 0.01, "--dropout", 0]


@pytest.fixture(scope="module")
def place(regard: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data and a tagger."""
    place = tmp_path_factory.mktemp("tags")
    lines = []
    for verb in ("likes", "sees", "leaves", "knows"):
        for city in ("Paris", "New York", "Rome", "Oslo"):
            for name in ("Anna", "Tom"):
                first, *rest = city.split()
                words = [
                    (name, "B-per"),
                    (verb, "O"),
                    (first, "B-loc"),
                    *((word, "I-loc") for word in rest),
                    (".", "O"),
                ]
                lines += [f"{word}\t{tag}" for word, tag in words] + [""]
    (place / "train.conll").write_text("\n".join(lines), encoding="utf-8")
    done = regard("train", "tag", place / "train.conll", "--out", place / "model", *SHAPE, *QUICK, "--epochs", 20)
    assert done.code == 0, done.err
    assert "entity F1 100.00" in done.out
    return place


def test_texts_files_and_formats(regard: Run, place: Path, tmp_path: Path) -> None:
    done = regard("tag", place / "model", "Tom sees Rome.")
    assert (done.code, done.out) == (0, "Tom/B-per sees/O Rome/B-loc ./O\n"), done.err
    assert regard("tag", place / "model", stdin=b"Anna likes New York.\n").out == (
        "Anna/B-per likes/O New/B-loc York/I-loc ./O\n"
    )
    record = json.loads(regard("tag", place / "model", "Anna likes New York.", "--json").out)
    assert record["entities"] == [{"type": "per", "text": "Anna"}, {"type": "loc", "text": "New York"}]
    for suffix in (".jsonl", ".csv", ".conll", ".txt"):
        assert regard("tag", place / "model", "Tom sees Rome.", "--out", tmp_path / f"a{suffix}").code == 0
    assert (tmp_path / "a.conll").read_text(encoding="utf-8") == "Tom\tB-per\nsees\tO\nRome\tB-loc\n.\tO\n"
    table = list(csv.DictReader((tmp_path / "a.csv").read_text(encoding="utf-8").splitlines()))
    assert (table[0]["input"], table[0]["word"], table[0]["tag"]) == ("1", "Tom", "B-per")
    assert regard("tag", place / "model", tmp_path / "a.conll", "--out", tmp_path / "b.conll").code == 0
    assert (tmp_path / "b.conll").read_bytes() == (tmp_path / "a.conll").read_bytes(), "CoNLL in, CoNLL out"
    (tmp_path / "texts.csv").write_text("n,words\n1,Tom sees Rome.\n", encoding="utf-8")
    tagged = regard("tag", place / "model", tmp_path / "texts.csv", "--text-column", "words")
    assert tagged.out == "Tom/B-per sees/O Rome/B-loc ./O\n", tagged.err
    assert regard("tag", place / "model", "x", "--out", tmp_path / "a.pdf").code == 2


def test_evaluating(regard: Run, place: Path, tmp_path: Path) -> None:
    """Some predictions of the model differ from the gold tags."""
    words = [["Rome", "likes", "Anna", "."], ["Oslo"], ["Tom", "sees", "New", "York", "."]]
    gold = [["B-loc", "O", "B-per", "O"], ["B-per"], ["B-loc", "B-loc", "B-loc", "I-loc", "B-loc"]]
    lines = ["\n".join(f"{w}\t{t}" for w, t in zip(*one, strict=True)) for one in zip(words, gold, strict=True)]
    (tmp_path / "held.conll").write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    done = regard("evaluate", place / "model", tmp_path / "held.conll", "--json")
    assert done.code == 0, done.err
    scores = {score["name"]: score["value"] for score in json.loads(done.out)}
    found = [list(one.tags) for one in library.load(place / "model")(words)]
    pairs = [(a, b) for one, other in zip(found, gold, strict=True) for a, b in zip(one, other, strict=True)]
    assert scores["accuracy"] == pytest.approx(100 * sum(a == b for a, b in pairs) / 10)
    assert scores["entity F1"] == pytest.approx(100 * seqeval_metrics.f1_score(gold, found))
    assert scores["accuracy"] < 100
    assert scores["accuracy of the majority tag"] == 20, "O, the most common tag of training"
    (tmp_path / "test.conll").write_text("Tom\tB-per\n\nLondon\tB-city\n", encoding="utf-8")
    done = regard("evaluate", place / "model", tmp_path / "test.conll")
    assert (done.code, "test.conll:3" in done.err) == (1, True), done.err


def test_fine_tuning_an_encoder(regard: Run, place: Path, tmp_path: Path) -> None:
    flags = ["--from", place / "model", "--out", tmp_path / "m", "--epochs", 1, "--freeze", "embeddings"]
    done = regard("train", "tag", place / "train.conll", *flags, "--validation", place / "train.conll")
    assert done.code == 0, done.err
    settings = json.loads((tmp_path / "m" / "config.json").read_text(encoding="utf-8"))
    assert settings["training"]["freeze"] == "embeddings"


def test_bad_files(regard: Run, tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("Tom\tB-per\nsees\tI-per\n\nx\tO\ny\tI-loc\n", encoding="utf-8")
    done = regard("train", "tag", tmp_path / "a.conll", "--out", tmp_path / "m")
    assert (done.code, "a.conll:5" in done.err) == (1, True), done.err
    (tmp_path / "b.conll").write_text("Tom\tO\n\nx\tO\n", encoding="utf-8")
    assert regard("train", "tag", tmp_path / "b.conll", "--out", tmp_path / "m").code == 1, "a single tag"
    assert regard("train", "tag", "--tag-column", 2, "--out", tmp_path / "m").code == 2, "without a file"
    assert (
        regard("train", "tag", tmp_path / "b.conll", "--class-weights", "balanced", "--out", tmp_path / "m").code == 2
    )
    assert not (tmp_path / "m").exists()


def test_without_a_file_the_built_in_dataset_is_used(
    regard: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "named_entities", functools.partial(reader.named_entities, count=20))  # of thousands
    done = regard("train", "tag", "--out", tmp_path / "m", *SHAPE, "--max-seq-len", 12, "--steps", 2)
    assert done.code == 0, done.err
    assert "built-in" in (tmp_path / "m" / "README.md").read_text(encoding="utf-8")


def test_an_epoch_has_as_many_examples_as_there_are_windows(regard: Run, tmp_path: Path) -> None:
    sentence = "".join(f"w{n}\t{'B-x' if n % 7 == 0 else 'O'}\n" for n in range(60))
    (tmp_path / "long.conll").write_text("\n".join([sentence.replace("w", letter) for letter in "abcd"]), "utf-8")
    flags = ["--max-seq-len", 12, "--batch-size", 1, "--epochs", 1, "--num-evals", 1]
    done = regard("train", "tag", tmp_path / "long.conll", "--out", tmp_path / "m", *SHAPE, *flags)
    assert done.code == 0, done.err
    steps = json.loads((tmp_path / "m" / "config.json").read_text("utf-8"))["training"]["steps"]
    assert steps > 3 * 5, "three sentences of sixty words, of which a window holds ten at most"


def test_a_file_without_entities_is_scored(regard: Run, place: Path, tmp_path: Path) -> None:
    (tmp_path / "none.conll").write_text("Tom\tO\nsees\tO\n", encoding="utf-8")
    done = regard("evaluate", place / "model", tmp_path / "none.conll", "--json")
    assert "none.conll" in done.err
    scores = json.loads(done.out)
    assert scores[0]["name"] == "entity F1" and "entities:0" in scores[0]["signature"]
