"""`regard senses`: the world's words or the user's, as a table, as JSON and as a page; and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import regard as library
from regard.checkpoint.folder import own_tensors, write_model
from regard.data.senses import world_senses
from regard.models.bert import make_bert
from regard.models.bert_settings import BertConfig, HeadConfig
from regard.tasks.classify import Classifier
from regard.text.tokenizer import Symbols
from regard.text.training import train_tokenizer

Run = Callable[..., Any]
ROWS = [
    ("bank", "money", "The bank lent me ten coins."),
    ("bank", "river", "We sat on the bank of the river."),
    ("bank", "money", "A bank in the city gave me a loan."),
    ("bank", "river", "The muddy bank was steep."),
]


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Any folder with a BERT will do: this one says wet or dry."""
    texts = [one.text for one in world_senses()]
    symbols = Symbols(pad="[PAD]", unknown="[UNK]", start="[CLS]", end="[SEP]")
    tokenizer = train_tokenizer(texts, kind="wordpiece", vocab_size=199, symbols=symbols, lowercase=True)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=tokenizer.vocab_size, layers=2, width=14, hidden=22, heads=2, head_width=7, context=61
    )
    head = HeadConfig(kind="sequence", labels=("dry", "wet"))
    made = Classifier(make_bert(config, head), tokenizer, head=head)  # type: ignore[arg-type]
    folder = tmp_path_factory.mktemp("models") / "weather"
    contents = made.contents()
    write_model(folder, config=contents.config, tensors=own_tensors(made.model), texts=contents.texts)
    return folder


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.tsv"
    path.write_text("\n".join(map("\t".join, ROWS)) + "\n", encoding="utf-8")
    return path


def test_m31_the_worlds_words_and_a_page(regard: Run, classifier: Path, tmp_path: Path) -> None:
    page = tmp_path / "senses.html"
    said = regard("senses", classifier, "--out", page)
    assert (said.code, said.err) == (0, "")
    title, head, majority, static, *rest = said.out.splitlines()
    assert title.startswith("270 sentences")
    assert head.split()[:5] == ["layer", "bank", "spring", "run", "all"]
    assert static.split()[1:5] == majority.split()[1:5], "one vector for all sentences tells nothing"
    assert rest[-1] == str(page)
    assert "Same word, other meaning: weather" in page.read_text(encoding="utf-8")
    again = regard("senses", classifier, "--out", page)
    assert (again.code, "--force" in again.err) == (2, True)


def test_the_users_own_sentences_as_json_and_in_python(regard: Run, classifier: Path, own: Path) -> None:
    said = regard("senses", classifier, own, "--json")
    assert (said.code, said.err) == (0, "")
    found = json.loads(said.out)
    assert found["sentences"] == 4
    assert found["words"][0]["senses"] == {"money": 2, "river": 2}
    assert [layer["layer"] for layer in found["words"][0]["layers"]] == ["static", "0", "1", "2"]
    assert found == library.senses(library.load(classifier), own).numbers()  # type: ignore[arg-type]


def test_sentences_near_a_typed_one(regard: Run, classifier: Path, own: Path) -> None:
    said = regard("senses", classifier, own, "--near", "A bank with frogs.", "--top", 2)
    assert (said.code, said.err) == (0, "")
    rows = [line.split("  ") for line in said.out.splitlines()]
    assert len(rows) == 2
    assert all((sense, text) in [row[1:] for row in ROWS] for _, sense, text in rows)
    record = json.loads(regard("senses", classifier, "--near", "A bank.", "--layer", "static", "--json").out)
    assert record["nearest"][0]["cosine"] == pytest.approx(1)


def test_bad_rows_are_listed_and_left_out_on_request(regard: Run, classifier: Path, own: Path) -> None:
    own.write_text(own.read_text(encoding="utf-8") + "bank\tmoney\tNo such word.\nbank\t\tA bank.\n", encoding="utf-8")
    said = regard("senses", classifier, own)
    assert said.code == 1
    assert "2 of 6 rows cannot be used" in said.err
    assert "own.tsv:5: the word 'bank' is not in the sentence" in said.err
    assert "own.tsv:6: the sense is empty" in said.err
    said = regard("senses", classifier, own, "--skip-bad-rows")
    assert said.code == 0
    assert "skipped: 2 bad rows" in said.err and "own.tsv:6: the sense is empty" in said.err
    assert said.out.startswith("4 sentences")


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--word", "bank"], "--word goes with --near"),
        (["--layer", "1"], "--layer goes with --near"),
        (["--near", "A bank.", "--out", "x.html"], "ask for one at a time"),
        (["--near", "A bank.", "--top", "0"], "--top must be at least 1"),
        (["--near", "A bank.", "--layer", "17"], "unknown layer '17'"),
        (["--near", "A fly."], "has none of them"),
        (["a.tsv", "b.tsv"], "2 files were given"),
        (["--skip-bad-rows"], "--skip-bad-rows needs a file"),
        (["--out", "x.pdf"], "cannot save a view as 'x.pdf'"),
    ],
    ids=str,
)
def test_what_does_not_go_together(regard: Run, classifier: Path, flags: list[str], reason: str) -> None:
    said = regard("senses", classifier, *flags)
    assert (said.code, said.out) == (2, "")
    assert reason in said.err


def test_who_is_no_bert_says_so(regard: Run, model: Path) -> None:
    said = regard("senses", model)
    assert said.code == 2
    assert "a translator" in said.err
    assert "Here it takes a BERT" in said.err
    with pytest.raises(ValueError, match="senses are read from a BERT"):
        library.senses(library.load(model))  # type: ignore[arg-type]
