"""Word alignments against gold ones: error rate, precision and recall after Och and Ney (2003).

Links are pairs (source word, target word). Gold links are *sure* or merely *possible*; every sure link is
also possible. Counts are summed over all sentences. Nothing here knows where a prediction came from.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from regard.utils.errors import UsageError

Links = AbstractSet[tuple[int, int]]


@dataclass(frozen=True)
class AlignmentScore:
    error_rate: float  # 0 is perfect, 1 the worst
    precision: float  # the share of predicted links that are possible; 1 where nothing is predicted
    recall: float  # the share of sure links that are predicted; 1 where nothing is sure

    def __repr__(self) -> str:
        return f"AER {self.error_rate:.4f} (precision {self.precision:.4f}, recall {self.recall:.4f})"


def score_alignments(
    predicted: Sequence[Links], sure: Sequence[Links], possible: Sequence[Links] | None = None
) -> AlignmentScore:
    """All three scores of `predicted`; without `possible` only the sure links are possible."""
    possible = sure if possible is None else possible
    counts = {"predicted": len(predicted), "sure": len(sure), "possible": len(possible)}
    if len(set(counts.values())) > 1:
        given = ", ".join(f"{count} of {name}" for name, count in counts.items())
        raise UsageError(f"alignments must be given for the same sentences, got {given}.")
    if not predicted:
        raise UsageError("there are no alignments to score; give at least one sentence.")
    num_predicted = num_sure = sure_hits = possible_hits = 0
    for links, certain, allowed in zip(predicted, sure, possible, strict=True):
        num_predicted += len(links)
        num_sure += len(certain)
        sure_hits += len(links & certain)
        possible_hits += len(links & (allowed | certain))
    total = num_predicted + num_sure
    return AlignmentScore(
        error_rate=1.0 - (sure_hits + possible_hits) / total if total else 0.0,
        precision=possible_hits / num_predicted if num_predicted else 1.0,
        recall=sure_hits / num_sure if num_sure else 1.0,
    )


def alignment_error_rate(
    predicted: Sequence[Links], sure: Sequence[Links], possible: Sequence[Links] | None = None
) -> float:
    """1 - (|A∩S| + |A∩P|) / (|A| + |S|): 0 is perfect; nothing predicted where nothing is sure is perfect."""
    return score_alignments(predicted, sure, possible).error_rate
