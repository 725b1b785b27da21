"""How many words two texts share: what a similarity reaches that understands nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence

from regard.metrics.correlation import Numbers, pearson, spearman
from regard.metrics.score import Score

WORD = re.compile(r"\w+")


def word_overlap(first: str, second: str) -> float:
    """Words in both texts by words in either (Jaccard's index), capitals aside; 0 where neither has a word."""
    one, other = (set(WORD.findall(text.lower())) for text in (first, second))
    return len(one & other) / len(one | other) if one | other else 0.0


def overlap_baseline(pairs: Sequence[tuple[str, str]], gold: Numbers) -> list[Score]:
    """How well the share of common words correlates with the numbers of pairs."""
    overlaps = [word_overlap(first, second) for first, second in pairs]
    return [
        score.as_baseline("word overlap", "Jaccard") for score in (pearson(overlaps, gold), spearman(overlaps, gold))
    ]
