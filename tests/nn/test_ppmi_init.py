"""PPMI vectors: counts checked by plain loops; tokens with similar neighbors have similar vectors."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from regard.nn import init as ppmi_init
from regard.nn.init import ppmi_vectors


def test_counts_and_ppmi_by_plain_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ppmi_init, "NEIGHBORS", 5)
    ids = np.random.default_rng(0).zipf(1.5, 400).clip(max=9) - 1
    often = sorted(range(10), key=lambda id_: (-int((ids == id_).sum()), id_))[:5]
    expected = np.zeros((10, 5))
    for place, id_ in enumerate(ids):
        for other in range(max(0, place - 4), min(len(ids), place + 5)):
            if other != place and ids[other] in often:
                expected[id_, often.index(ids[other])] += 1 / abs(other - place)
    counts = ppmi_init._counts(ids, 10)
    np.testing.assert_allclose(counts, expected, rtol=1e-5)
    ppmi = ppmi_init._ppmi(counts)
    usual = expected.sum(axis=0) ** 0.75
    for row, column in np.ndindex(10, 5):
        chance = usual[column] / usual.sum()
        share = expected[row, column] / expected[row].sum() if expected[row].sum() else 0.0
        assert ppmi[row, column] == pytest.approx(max(0.0, math.log(share / chance)) if share else 0.0, abs=1e-5)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 64, 65, 66, 67, 500])
def test_counting_in_chunks_equals_counting_at_once(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = np.random.default_rng(1).integers(0, 30, length)
    whole = ppmi_init._counts(ids, 30)
    monkeypatch.setattr(ppmi_init, "CHUNK", 64)
    np.testing.assert_allclose(ppmi_init._counts(ids, 30), whole, rtol=1e-5)


def test_tokens_with_similar_neighbors_have_similar_vectors() -> None:
    """Animals sleep and eat, tools lie and rust; no two animals or two tools occur near each other."""
    draw = np.random.default_rng(2)
    animals, tools = [0, 1, 2], [3, 4, 5]
    sentences = [
        [draw.choice(animals), draw.choice([6, 7]), 10] if draw.random() < 0.5 else [draw.choice(tools), 8, 9, 10]
        for _ in range(2000)
    ]
    ids = np.concatenate([[*sentence, *[11] * 4] for sentence in sentences])
    found = ppmi_vectors(ids, 13, 4)
    near = found @ found.T
    assert near[0, 1] > 0.9 and near[3, 5] > 0.9
    assert near[:3, 3:6].max() < 0.5
    assert torch.equal(found[12], torch.zeros(4)), "a token that never occurs"
    torch.testing.assert_close(found[:12].norm(dim=1), torch.ones(12))
    assert torch.equal(found, ppmi_vectors(ids, 13, 4)), "the same text gives the same vectors"


def test_d_model_may_exceed_the_rank() -> None:
    found = ppmi_vectors(np.array([0, 1, 0, 2, 0, 1]), 4, 9)
    assert found.shape == (4, 9)
    assert found.isfinite().all()
