"""A model card has the given facts, and its YAML header is what the Hub reads."""

from __future__ import annotations

import re

import pytest
import yaml

from regard.checkpoint.card import LICENSE_NOTE, CardData, model_card
from regard.metrics.score import Score

CARD = dict(
    title="English to German",
    summary="Translates English captions into German. A Transformer of 4 + 4 layers.",
    task="translate",
    num_parameters=2_345_678,
    data=(
        CardData(name="train.tsv", role="training", num_rows=29_000, sha256="ab" * 32),
        CardData(name="built-in synthetic dataset", role="test", num_rows=1_000),
    ),
    settings={"width": 256, "heads": [4, 4], "dropout": 0.1, "norm": "pre", "odd|name": "a\nb"},
    scores=(Score("BLEU", 41.234567, "nrefs:1|case:lc|tok:none", on="test.tsv"),),
    command='regard translate runs/mine "The cat sleeps."',
    python='import regard\nregard.load("runs/mine")("The cat sleeps.")',
    versions={"regard": "0.1.0", "torch": "2.13.0"},
    pipeline="translation",
)


def head(text):
    assert text.startswith("---\n")
    return yaml.safe_load(text.split("---\n")[1])


def rows(text, title):
    section = text.split(f"\n## {title}\n\n")[1].split("\n\n")[0]
    return section.splitlines()[2:]


def blocks(text):
    """The fenced code blocks of a card: (language, code)."""
    return [(found[2], found[3]) for found in re.finditer(r"^(`{3,})(\w+)\n(.*?)\n\1$", text, re.DOTALL | re.MULTILINE)]


def test_the_head_is_yaml_that_the_hub_understands():
    hub = pytest.importorskip("huggingface_hub")
    text = model_card(**CARD)
    assert head(text) == {
        "library_name": "regard",
        "pipeline_tag": "translation",
        "tags": ["regard", "transformer"],
    }
    assert hub.ModelCard(text).data.library_name == "regard"


def test_optional_parts_may_be_absent():
    text = model_card(title="x", summary="y", task="write", num_parameters=1)
    assert head(text) == {"library_name": "regard", "tags": ["regard", "transformer"]}
    assert "## Scores" not in text and "## Data" not in text and "## Use" not in text
    assert LICENSE_NOTE in text


def test_facts_are_in_tables():
    text = model_card(**CARD)
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
    assert blocks(text) == [("sh", CARD["command"]), ("python", CARD["python"])]


def test_hostile_text_is_escaped():
    changes = dict(
        title="a\n---\nb: <script>",
        pipeline='x": [\nbreak',
        command="echo ```sh",
        settings={"x": "<script>alert(1)</script>"},
    )
    text = model_card(**{**CARD, **changes})
    assert head(text)["pipeline_tag"] == 'x": [\nbreak'
    assert "# a --- b: &lt;script>" in text
    assert blocks(text)[0] == ("sh", changes["command"])
    assert "&lt;script>" in text.split("## Settings")[1]
