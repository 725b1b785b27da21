"""`regard tokens --frequency` and `--save-merges`. `tests/cli/test_look.py` tests `regard tokens MODEL TEXT`."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers

import regard as library
from regard.tokenizers.tokenizer import Tokenizer

Run = Callable[..., Any]

TEXTS = ["seven seven seven seven two", "two one, one seven!", "", "misunderstanding"]
COUNTS = {"seven": 5, "one": 2, "two": 2, "misunderstanding": 1}


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def word_model(regard: Run, pairs_file: Path, small: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with a word tokenizer, which has no merges."""
    folder = tmp_path_factory.mktemp("word") / "m"
    arguments = ["--tokenizer", "word", *small, "--steps", 1]
    assert regard("train", "translate", pairs_file, "--out", folder, *arguments).code == 0
    return folder


def source_tokenizer(model: Path) -> Tokenizer:
    translator: Any = library.load(model)
    tokenizer: Tokenizer = translator.tokenizers.source
    return tokenizer


def rank(values: list[int]) -> list[float]:
    """Ranks from 1 by counting smaller and equal values."""
    return [sum(other < value for other in values) + (values.count(value) + 1) / 2 for value in values]


def test_m4_frequency_as_json(regard: Run, model: Path, texts: Path) -> None:
    done = regard("tokens", model, "--frequency", texts, "--json")
    assert done.code == 0, done.err
    result = json.loads(done.out)
    tokenizer = source_tokenizer(model)
    assert result["words"] == [
        {"word": word, "count": count, "tokens": len(tokenizer.encode(word))} for word, count in COUNTS.items()
    ]
    tokens = [row["tokens"] for row in result["words"]]
    expected = np.corrcoef(rank(list(COUNTS.values())), rank(tokens))[0, 1]
    assert result["spearman"] == pytest.approx(expected, abs=1e-12)
    assert result["spearman"] < 0
    assert result["kind"] == "bpe"


def test_m4_frequency_table_as_csv(regard: Run, model: Path, texts: Path, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    done = regard("tokens", model, "--frequency", texts, "--out", table)
    assert done.code == 0, done.err
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["word", "count", "tokens"]
    assert {row["word"]: int(row["count"]) for row in rows} == COUNTS
    assert all(int(row["tokens"]) == len(source_tokenizer(model).encode(row["word"])) for row in rows)
    again = regard("tokens", model, "--frequency", texts, "--out", table)
    assert (again.code, again.error.argument) == (2, "out")
    assert regard("tokens", model, "--frequency", texts, "--out", table, "--force").code == 0


def test_m4_frequency_lists_frequent_and_split_words(regard: Run, model: Path, texts: Path) -> None:
    lines = regard("tokens", model, "--frequency", texts).out.splitlines()
    frequent, split = (index for index, line in enumerate(lines) if line.split()[:2] == ["count", "tokens"])
    assert lines[frequent + 1].split()[::2] == ["5", "seven"]
    assert lines[split + 1].split()[::2] == ["1", "misunderstanding"]


@pytest.mark.parametrize("text", ["seven seven two", "seven two misunderstanding", "seven"])
def test_the_correlation_with_a_constant_is_null(regard: Run, word_model: Path, tmp_path: Path, text: str) -> None:
    """In a word tokenizer every word is one token."""
    (tmp_path / "texts.txt").write_text(text + "\n", encoding="utf-8")
    done = regard("tokens", word_model, "--frequency", tmp_path / "texts.txt", "--json")
    assert done.code == 0, done.err
    result = json.loads(done.out)
    assert result["spearman"] is None
    assert {row["tokens"] for row in result["words"]} == {1}
    shown = regard("tokens", word_model, "--frequency", tmp_path / "texts.txt")
    assert shown.code == 0
    assert "0.000" not in shown.out


def test_the_correlation_with_equal_counts_is_null(regard: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("seven misunderstanding\n", encoding="utf-8")
    result = json.loads(regard("tokens", model, "--frequency", tmp_path / "texts.txt", "--json").out)
    assert len({row["tokens"] for row in result["words"]}) == 2
    assert result["spearman"] is None


def test_frequency_of_a_table_column(regard: Run, model: Path, tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    table.write_text("id,remark\n1,seven seven\n2,two\n", encoding="utf-8")
    done = regard("tokens", model, "--frequency", table, "--text-column", "remark", "--json")
    assert done.code == 0, done.err
    assert [row["word"] for row in json.loads(done.out)["words"]] == ["seven", "two"]


def test_m3_saved_merges_give_the_same_ids(regard: Run, model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "merges"
    done = regard("tokens", model, "--save-merges", folder, "--json")
    assert done.code == 0, done.err
    paths = {"vocab": str(folder / "vocab.json"), "merges": str(folder / "merges.txt")}
    assert json.loads(done.out) == paths
    original = source_tokenizer(model)
    backend = tokenizers.Tokenizer(tokenizers.models.BPE.from_file(*paths.values(), byte_fallback=True))
    description = tokenizers.Tokenizer.from_str(original.to_json())
    backend.normalizer, backend.pre_tokenizer = description.normalizer, description.pre_tokenizer
    for text in [*TEXTS, "naïve 東京"]:
        assert backend.encode(text).ids == original.encode(text)
    again = regard("tokens", model, "--save-merges", folder)
    assert (again.code, again.error.argument, again.error.path) == (2, "save_merges", folder / "vocab.json")
    assert regard("tokens", model, "--save-merges", folder, "--force").code == 0


def test_a_tokenizer_without_merges_is_refused(regard: Run, word_model: Path, tmp_path: Path) -> None:
    done = regard("tokens", word_model, "--save-merges", tmp_path / "merges")
    assert (done.code, done.out) == (2, "")
    assert (done.error.argument, done.error.value) == ("kind", "word")
    assert done.error.allowed == ("bpe", "byte-bpe")
    assert not (tmp_path / "merges").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["two", "texts"],
        ["a text", "--frequency", "texts.txt"],
        ["a text", "--save-merges", "merges"],
        ["--frequency", "texts.txt", "--save-merges", "merges"],
    ],
    ids=" ".join,
)
def test_text_frequency_and_save_merges_are_exclusive(
    regard: Run, model: Path, texts: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(texts.parent)
    done = regard("tokens", model, *arguments)
    assert (done.code, done.out, done.error.argument) == (2, "", "text")
    assert done.error.allowed == ("text", "frequency", "save_merges")
    assert list(texts.parent.iterdir()) == [texts]


@pytest.mark.parametrize(
    ("arguments", "argument", "value"),
    [
        (["--frequency", "texts.txt", "--out", "table.html"], "out", ".html"),
        (["a text", "--out", "table.csv"], "path", ".csv"),
        (["--save-merges", "merges", "--out", "table.csv"], "out", "table.csv"),
        (["a text", "--text-column", "x"], "text_column", "x"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_conflicting_options_are_refused(
    regard: Run,
    model: Path,
    texts: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    argument: str,
    value: str,
) -> None:
    monkeypatch.chdir(texts.parent)
    done = regard("tokens", model, *arguments)
    assert (done.code, done.out) == (2, "")
    assert (done.error.argument, done.error.value) == (argument, value)
    assert list(texts.parent.iterdir()) == [texts]


@pytest.mark.parametrize(("content", "code"), [(None, 2), (b"", 1), (b"\n \n", 1), (b"!\n?\n", 1)])
def test_a_file_without_words_is_refused(
    regard: Run, model: Path, tmp_path: Path, content: bytes | None, code: int
) -> None:
    file = tmp_path / "empty.txt"
    if content is not None:
        file.write_bytes(content)
    done = regard("tokens", model, "--frequency", file, "--out", tmp_path / "table.csv")
    assert (done.code, done.out, done.error.path) == (code, "", file)
    assert not (tmp_path / "table.csv").exists()


def test_a_file_in_place_of_the_folder_is_refused(regard: Run, model: Path, texts: Path) -> None:
    done = regard("tokens", model, "--save-merges", texts)
    assert (done.code, done.error.path) == (1, texts / "vocab.json")
