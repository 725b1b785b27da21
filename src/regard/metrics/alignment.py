"""Alignment error rate of word alignments after Och and Ney (2003)."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from regard.metrics.score import check_lists

Links = AbstractSet[tuple[int, int]]  # (source word, target word)


def alignment_error_rate(
    predicted: Sequence[Links], sure: Sequence[Links], possible: Sequence[Links] | None = None
) -> float:
    """1 - (|A∩S| + |A∩P|) / (|A| + |S|), with counts summed over all sentences: 0 is perfect, 1 the worst.

    Sure links are also possible; without `possible` only they are.
    """
    possible = sure if possible is None else possible
    check_lists(predicted=predicted, sure=sure, possible=possible)
    hits = total = 0
    for links, certain, allowed in zip(predicted, sure, possible, strict=True):
        hits += len(links & certain) + len(links & (allowed | certain))
        total += len(links) + len(certain)
    return 1.0 - hits / total if total else 0.0
