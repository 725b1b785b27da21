"""`regard senses`: built-in words or those of a file, as a table, as JSON and as a page; wrong requests."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import regard as library
from regard.data.senses import synthetic_senses
from regard.models.bert.config import BertConfig
from regard.models.bert.model import build
from regard.models.heads import HeadConfig
from regard.tasks.classify.predictor import Classifier
from regard.tokenizers.tokenizer import SpecialTokens
from regard.tokenizers.training import train_tokenizer
from regard.utils.errors import UsageError

Run = Callable[..., Any]
ROWS = [
    ("bank", "money", "The bank lent me ten coins."),
    ("bank", "river", "We sat on the bank of the river."),
    ("bank", "money", "A bank in the city gave me a loan."),
    ("bank", "river", "The muddy bank was steep."),
]


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small encoder, trained to predict wet or dry."""
    texts = [sentence.text for sentence in synthetic_senses()]
    special_tokens = SpecialTokens(pad="[PAD]", unknown="[UNK]", start="[CLS]", end="[SEP]")
    tokenizer = train_tokenizer(texts, kind="wordpiece", vocab_size=199, special_tokens=special_tokens, lowercase=True)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=tokenizer.vocab_size, num_layers=2, d_model=14, d_ff=22, num_heads=2, head_dim=7, context_length=61
    )
    head = HeadConfig(kind="sequence_classification", labels=("dry", "wet"))
    folder = tmp_path_factory.mktemp("models") / "weather"
    Classifier(build(config, head), tokenizer, head=head).save(folder)
    return folder


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.tsv"
    path.write_text("\n".join(map("\t".join, ROWS)) + "\n", encoding="utf-8")
    return path


def test_m31_the_built_in_words_and_a_page(regard: Run, classifier: Path, tmp_path: Path) -> None:
    page = tmp_path / "senses.html"
    done = regard("senses", classifier, "--out", page)
    assert (done.code, done.err) == (0, "")
    title, head, majority, static, *rest = done.out.splitlines()
    assert "270" in title
    assert head.split()[:5] == ["layer", "bank", "spring", "run", "all"]
    assert static.split()[1:5] == majority.split()[1:5], "one vector for all sentences is as good as the majority"
    assert rest[-1] == str(page)
    assert "weather" in page.read_text(encoding="utf-8")
    again = regard("senses", classifier, "--out", page)
    assert (again.code, "--force" in again.err) == (2, True)


def test_sentences_of_a_file_as_json_and_in_python(regard: Run, classifier: Path, own: Path) -> None:
    done = regard("senses", classifier, own, "--json")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    assert found["sentences"] == 4
    assert found["words"][0]["senses"] == {"money": 2, "river": 2}
    assert [layer["layer"] for layer in found["words"][0]["layers"]] == ["static", "0", "1", "2"]
    assert found == library.senses(library.load(classifier), own).numbers()


def test_sentences_near_a_given_one(regard: Run, classifier: Path, own: Path) -> None:
    done = regard("senses", classifier, own, "--near", "A bank with frogs.", "--top", 2)
    assert (done.code, done.err) == (0, "")
    rows = [line.split("  ") for line in done.out.splitlines()]
    assert len(rows) == 2
    assert all((sense, text) in [row[1:] for row in ROWS] for _, sense, text in rows)
    record = json.loads(regard("senses", classifier, "--near", "A bank.", "--layer", "static", "--json").out)
    assert record["nearest"][0]["cosine"] == pytest.approx(1)


def test_bad_rows_are_listed_and_skipped_on_request(regard: Run, classifier: Path, own: Path) -> None:
    own.write_text(own.read_text(encoding="utf-8") + "bank\tmoney\tNo such word.\nbank\t\tA bank.\n", encoding="utf-8")
    done = regard("senses", classifier, own)
    assert (done.code, done.out) == (1, "")
    assert "own.tsv:5:" in done.err and "own.tsv:6:" in done.err
    done = regard("senses", classifier, own, "--skip-bad-rows")
    assert done.code == 0
    assert "own.tsv:5:" in done.err and "own.tsv:6:" in done.err
    assert done.out.startswith("4 ")


@pytest.mark.parametrize(
    ("flags", "argument", "value"),
    [
        (["--word", "bank"], "word", "bank"),
        (["--layer", "1"], "layer", "1"),
        (["--near", "A bank.", "--out", "x.html"], "near", None),
        (["--near", "A bank.", "--top", "0"], "top", 0),
        (["--near", "A bank.", "--layer", "17"], "layer", "17"),
        (["a.tsv", "b.tsv"], "sentences", 2),
        (["--skip-bad-rows"], "skip_bad_rows", None),
    ],
    ids=str,
)
def test_wrong_requests(regard: Run, classifier: Path, flags: list[str], argument: str, value: object) -> None:
    done = regard("senses", classifier, *flags)
    assert (done.code, done.out) == (2, "")
    assert (done.error.argument, done.error.value) == (argument, value)


@pytest.mark.parametrize("flags", [["--near", "A fly."], ["--out", "x.pdf"]], ids=str)
def test_unusable_values_are_named(regard: Run, classifier: Path, flags: list[str]) -> None:
    done = regard("senses", classifier, *flags)
    assert (done.code, done.out, flags[1] in done.err) == (2, "", True)


def test_a_model_without_an_encoder_is_refused(regard: Run, model: Path) -> None:
    done = regard("senses", model)
    assert (done.code, done.out) == (2, "")
    with pytest.raises(UsageError) as error:
        library.senses(library.load(model))
    assert error.value.argument == "model"
