"""A measured number with what it takes to measure it again, and what stands beside such numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

PERFECT = 100.0  # of scores in hundredths, as all are that have baselines


@dataclass(frozen=True)
class Score:
    name: str
    value: float
    signature: str  # settings and version, so that others can repeat the number; sacreBLEU's own for its scores
    on: str = ""  # what it was measured on, where that is not what the scores beside it were measured on
    baseline_of: str = ""  # of a baseline: the name of the score that should be higher

    def as_baseline(self, whose: str, how: str = "") -> Score:
        """The same as the score of somebody who has not read the examples; `how` says what was done instead."""
        signature = f"{how}|{self.signature}" if how else self.signature
        return replace(self, name=f"{self.name} of {whose}", signature=signature, baseline_of=self.name)

    def __repr__(self) -> str:
        return f"{self.name} {self.value:.2f} ({self.signature})"


@dataclass(frozen=True)
class Confusion:
    """How often texts of one class were taken for another: rows are actual, columns are predicted."""

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    def to_dict(self) -> dict[str, Any]:
        return {"labels": list(self.labels), "counts": [list(row) for row in self.counts]}

    def __str__(self) -> str:
        width = max(len(cell) for cell in (*self.labels, *(f"{n:,}" for row in self.counts for n in row)))
        lines = [" " * width + "  " + "  ".join(label.rjust(width) for label in self.labels)]
        for label, row in zip(self.labels, self.counts, strict=True):
            lines.append(label.rjust(width) + "  " + "  ".join(f"{count:,}".rjust(width) for count in row))
        return "\n".join(lines)


class Scores(list[Score]):
    """The scores of a model on a file; where each example has one label also which labels were taken for which."""

    def __init__(self, scores: Iterable[Score], confusion: Confusion | None = None) -> None:
        super().__init__(scores)
        self.confusion = confusion


def no_better(scores: Sequence[Score]) -> str:
    """In words that a model is no better than a baseline beside it; nothing where it is.

    The score that counts is the first that has a baseline. Nobody can be better than perfect.
    """
    values = {score.name: score.value for score in scores}
    rivals = [score for score in scores if score.baseline_of in values]
    counts = rivals[0].baseline_of if rivals else ""
    for rival in rivals:
        if rival.baseline_of == counts and values[counts] <= rival.value < PERFECT:
            return (
                f"no better than a baseline: {counts} {values[counts]:.2f}, {rival.name} {rival.value:.2f}. A longer "
                "training, more examples or another --learning-rate may help."
            )
    return ""
