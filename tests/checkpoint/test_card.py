"""The card says what it was told, and its head is what the Hub reads."""

from __future__ import annotations

import dataclasses

import pytest
import yaml

from regard.checkpoint.card import Card, CardData, CardScore, model_card

CARD = Card(
    title="English to German",
    summary="Translates English captions into German. A Transformer of 4 + 4 layers.",
    task="translate",
    num_parameters=2_345_678,
    data=(
        CardData(name="train.tsv", role="training", num_rows=29_000, sha256="ab" * 32),
        CardData(name="built-in synthetic dataset", role="test", num_rows=1_000),
    ),
    settings={"width": 256, "heads": [4, 4], "dropout": 0.1, "norm": "pre", "odd|name": "a\nb"},
    scores=(CardScore(metric="BLEU", value=41.234567, on="test.tsv", signature="nrefs:1|case:lc|tok:none"),),
    command='regard translate runs/mine "The cat sleeps."',
    python='import regard\nregard.load("runs/mine")("The cat sleeps.")',
    versions={"regard": "0.1.0", "torch": "2.13.0"},
    languages=("en", "de"),
    pipeline="translation",
    tags=("translation", "regard"),
)


def head(text):
    assert text.startswith("---\n")
    return yaml.safe_load(text.split("---\n")[1])


def rows(text, title):
    section = text.split(f"\n## {title}\n\n")[1].split("\n\n")[0]
    return section.splitlines()[2:]


def test_the_head_is_yaml_that_the_hub_understands():
    hub = pytest.importorskip("huggingface_hub")
    text = model_card(CARD)
    assert head(text) == {
        "library_name": "regard",
        "pipeline_tag": "translation",
        "language": ["en", "de"],
        "tags": ["regard", "transformer", "translation"],
    }
    data = hub.ModelCard(text).data
    assert data.library_name == "regard"
    assert data.language == ["en", "de"]


def test_what_is_optional_may_be_absent():
    text = model_card(Card(title="x", summary="y", task="write", num_parameters=1))
    assert head(text) == {"library_name": "regard", "tags": ["regard", "transformer"]}
    assert "## Scores" not in text and "## Data" not in text and "## Use" not in text
    assert "whether they may be passed on depends on the licence" in text


def test_a_known_licence_is_stated():
    text = model_card(dataclasses.replace(CARD, licence="cc-by-4.0"))
    assert head(text)["license"] == "cc-by-4.0"
    assert "None is claimed" not in text


def test_facts_stand_in_tables():
    text = model_card(CARD)
    assert "Parameters: 2,345,678." in text
    assert rows(text, "Data") == [
        f"| train.tsv | training | 29,000 | {'ab' * 32} |",
        "| built-in synthetic dataset | test | 1,000 | generated |",
    ]
    assert rows(text, "Scores") == ["| BLEU | 41.23 | test.tsv | nrefs:1\\|case:lc\\|tok:none |"]
    assert rows(text, "Settings") == [
        "| width | 256 |",
        "| heads | [4, 4] |",
        "| dropout | 0.1 |",
        "| norm | pre |",
        "| odd\\|name | a b |",
    ]
    assert '```sh\nregard translate runs/mine "The cat sleeps."\n```' in text
    assert "```python\nimport regard\n" in text


def test_hostile_text_cannot_break_out():
    card = dataclasses.replace(
        CARD,
        title="a\n---\nb: <script>",
        tags=('x": [', "line\nbreak"),
        command="echo ```sh",
        settings={"x": "<script>alert(1)</script>"},
    )
    text = model_card(card)
    assert head(text)["tags"] == ["regard", "transformer", 'x": [', "line\nbreak"]
    assert "# a --- b: &lt;script>" in text
    assert "````sh\necho ```sh\n````" in text
    assert "&lt;script>" in text.split("## Settings")[1]


def test_the_same_facts_give_the_same_text():
    assert model_card(CARD) == model_card(dataclasses.replace(CARD))
