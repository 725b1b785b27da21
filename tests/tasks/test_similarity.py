"""Evaluation of embeddings on pairs with numbers: correlations as SciPy has them, shared words by hand, real pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import regard
from regard.metrics.labels import word_overlap
from regard.models.bert.config import BertConfig
from regard.models.bert.model import Bert
from regard.tasks.embed.predictor import Embedder
from regard.tokenizers.tokenizer import SpecialTokens
from regard.tokenizers.training import train_tokenizer
from regard.utils.errors import DataError, RegardError, UsageError

PAIRS = [
    ("the small cat sleeps", "the cat sleeps", 4.5),
    ("a dog runs", "the small cat sleeps", 0.5),
    ("a dog runs", "A dog runs!", 5.0),
    ("the hills are green", "a green hill", 3.25),
    ("a dog sees hills", "the hills are green", 1.0),
]
SPECIAL_TOKENS = SpecialTokens(pad="[PAD]", unknown="[UNK]", start="[CLS]", end="[SEP]")


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    texts = [text for first, second, _ in PAIRS for text in (first, second)]
    tokenizer = train_tokenizer(texts, kind="wordpiece", vocab_size=79, special_tokens=SPECIAL_TOKENS, lowercase=True)
    torch.manual_seed(5)
    bert = Bert(
        BertConfig(
            vocab_size=tokenizer.vocab_size,
            num_layers=2,
            d_model=14,
            d_ff=22,
            num_heads=2,
            head_dim=7,
            context_length=53,
        )
    )
    for param in bert.parameters():
        nn.init.normal_(param, std=0.4)
    return Embedder(bert, tokenizer)


def write(path: Path, rows: list[tuple[Any, ...]], header: str = "sentence1\tsentence2\tscore") -> Path:
    path.write_text("\n".join([header, *("\t".join(map(str, row)) for row in rows)]) + "\n", encoding="utf-8")
    return path


def test_m169_correlations_with_gold_numbers(embedder: Embedder, tmp_path: Path) -> None:
    stats = pytest.importorskip("scipy.stats")
    path = write(tmp_path / "sts.tsv", PAIRS)
    notes: list[str] = []
    scores = regard.evaluate(embedder, path, notify=notes.append)
    gold = [number for _, _, number in PAIRS]
    cosines = []
    for first, second, _ in PAIRS:
        one, other = (embedder.vectors(text, normalize=False).astype(np.float64) for text in (first, second))
        cosines.append(one @ other / np.sqrt((one @ one) * (other @ other)))
    # Shared words by words in either, counted by hand.
    overlaps = [3 / 4, 0 / 7, 3 / 3, 1 / 6, 1 / 7]
    expected = [f(said, gold).statistic for said in (cosines, overlaps) for f in (stats.pearsonr, stats.spearmanr)]
    # Cosines of random weights lie so close together that a difference in the last digit counts.
    assert [score.value / 100 for score in scores] == pytest.approx(expected, abs=1e-4)
    names = ["Pearson", "Spearman", "Pearson of word overlap", "Spearman of word overlap"]
    assert [score.name for score in scores] == names
    assert scores[0].signature == "cosine|pooling:mean|n:5"
    assert notes == []
    assert regard.evaluate(embedder, path, pooling="max")[0].signature == "cosine|pooling:max|n:5"


@pytest.mark.parametrize(
    ("first", "second", "share"),
    [
        ("The cat.", "the CAT", 1.0),
        ("a b", "c d", 0.0),
        ("a b c", "b c d", 0.5),
        ("...", "!", 0.0),
        ("l'été", "été", 0.5),
    ],
)
def test_shared_words(first: str, second: str, share: float) -> None:
    assert word_overlap(first, second) == share == word_overlap(second, first)


def test_rows_that_cannot_be_used(embedder: Embedder, tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", [*PAIRS, ("a", "b", "much"), ("", "b", 1)])
    with pytest.raises(DataError) as error:
        regard.evaluate(embedder, path)
    assert "a.tsv:7" in str(error.value) and "a.tsv:8" in str(error.value)
    notes: list[str] = []
    assert len(regard.evaluate(embedder, path, skip_bad_rows=True, notify=notes.append)) == 4
    assert "a.tsv:7" in notes[-2] and "a.tsv:8" in notes[-1]
    constant = write(tmp_path / "b.tsv", [("a", "b", 1), ("c", "d", 1)])
    with pytest.raises(DataError) as error:
        regard.evaluate(embedder, constant)
    assert error.value.path == constant
    other = write(tmp_path / "c.tsv", PAIRS, header="one\ttwo\thow_near")
    with pytest.raises(RegardError):
        regard.evaluate(embedder, other)
    assert len(regard.evaluate(embedder, other, first_column="one", second_column="two", label_column="how_near")) == 4
    with pytest.raises(UsageError) as several:
        regard.evaluate(embedder, [path, path])
    assert several.value.argument == "data"


@pytest.mark.parametrize("name", ["glue/STS-B/dev.tsv", "sick/SICK_trial.txt"])
def test_m169_minilm_on_real_pairs(real_data: Path, minilm_folder: Path, tmp_path: Path, name: str) -> None:
    """Some of them, for time's sake; the whole stands in docs/results.md."""
    header, *lines = (real_data / name).read_text(encoding="utf-8").splitlines()
    some = tmp_path / "some.tsv"
    some.write_text("\n".join([header, *lines[::12]]) + "\n", encoding="utf-8")
    embedder = regard.load(minilm_folder)
    found = {score.name: score.value for score in regard.evaluate(embedder, some)}
    assert found["Spearman"] > 70
    assert found["Spearman"] > found["Spearman of word overlap"] + 5
