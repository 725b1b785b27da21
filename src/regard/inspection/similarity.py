"""Does a vector say what a text means? The cosine of two texts beside how similar people found them.

The correlations are those of the similarity tasks (STS-B, SICK): Pearson's and Spearman's between the cosines and the
numbers in the file. Beside them stands what counting shared words reaches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from regard.config import from_dict
from regard.data.files import skipped_rows
from regard.data.labelled import PairColumns, read_labelled_pairs
from regard.errors import DataError
from regard.metrics.numbers import pearson, spearman
from regard.metrics.overlap import overlap_baseline
from regard.metrics.score import Score
from regard.tasks.embed import Embedder


def score_similarity(
    embedder: Embedder, path: Path, *, columns: Mapping[str, str] | None = None, skip_bad_rows: bool = False
) -> tuple[list[Score], list[str]]:
    """The correlations of an embedder on a file of pairs with numbers, and what there is to say about the file."""
    reading = read_labelled_pairs(
        path, columns=from_dict(PairColumns, columns or {}), numbers=True, skip_bad_rows=skip_bad_rows
    )
    pairs = reading.examples
    gold = [float(pair.label) for pair in pairs]
    if len(set(gold)) < 2:
        raise DataError(f"{path}: all {len(pairs):,} pairs have the same number, and nothing correlates with that.")
    texts = list(dict.fromkeys(text for pair in pairs for text in (pair.first, pair.second)))
    place = {text: number for number, text in enumerate(texts)}
    vectors = embedder.embed(texts, normalise=True)
    firsts, seconds = vectors[[place[pair.first] for pair in pairs]], vectors[[place[pair.second] for pair in pairs]]
    cosines = (firsts * seconds).sum(axis=1, dtype=np.float64)
    how = f"cosine|pooling:{embedder.config.pooling}"
    found = (pearson(cosines, gold), spearman(cosines, gold))
    scores = [replace(score, signature=f"{how}|{score.signature}") for score in found]
    scores += overlap_baseline([(pair.first, pair.second) for pair in pairs], gold)
    return scores, [*reading.remarks, *skipped_rows(reading.bad)]
