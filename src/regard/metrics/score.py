"""A score with the settings that reproduce it, baselines, and the confusion matrix."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass, replace
from typing import Any

from regard.utils.errors import UsageError

PERFECT = 100.0  # the best value of any score that has a baseline


@dataclass(frozen=True)
class Score:
    name: str
    value: float
    signature: str  # settings and version that reproduce the value; sacreBLEU's own signature for its scores
    on: str = ""  # the dataset, if it differs from that of the other scores
    baseline_of: str = ""  # if this is a baseline: the name of the score that should be higher

    def as_baseline(self, name: str, method: str = "") -> Score:
        """Return this score as the score of the baseline `name`; `method` is added to the signature."""
        signature = f"{method}|{self.signature}" if method else self.signature
        return replace(self, name=f"{self.name} of {name}", signature=signature, baseline_of=self.name)

    def __repr__(self) -> str:
        return f"{self.name} {self.value:.2f} ({self.signature})"


@dataclass(frozen=True)
class Confusion:
    """A confusion matrix: rows are gold labels, columns are predicted labels."""

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    def to_dict(self) -> dict[str, Any]:
        return {"labels": list(self.labels), "counts": [list(row) for row in self.counts]}

    def __str__(self) -> str:
        table = [("", *self.labels)]
        table += [(label, *map("{:,}".format, row)) for label, row in zip(self.labels, self.counts, strict=True)]
        width = max(len(cell) for row in table for cell in row)
        return "\n".join("  ".join(cell.rjust(width) for cell in row) for row in table)


class Scores(list[Score]):
    """The scores of a model on a file, with a confusion matrix if each example has one label."""

    def __init__(self, scores: Iterable[Score], confusion: Confusion | None = None) -> None:
        super().__init__(scores)
        self.confusion = confusion


def no_better(scores: Sequence[Score]) -> str:
    """Return a note if the first score with baselines does not exceed all of them; empty if it does or is perfect."""
    values = {score.name: score.value for score in scores}
    baselines = [score for score in scores if score.baseline_of in values]
    for baseline in baselines:
        name = baselines[0].baseline_of
        if baseline.baseline_of == name and values[name] <= baseline.value < PERFECT:
            return (
                f"no better than a baseline: {name} {values[name]:.2f}, {baseline.name} {baseline.value:.2f}. Longer "
                "training, more examples or another --learning-rate may help."
            )
    return ""


def check_lists(**lists: Sized) -> None:
    """Raise an error for lists that cannot be compared item by item: different lengths, empty, or a single str."""
    (first, length), *others = ((name, len(values)) for name, values in lists.items())
    for name, values in lists.items():
        if isinstance(values, str):
            raise UsageError(f"{name} is a single str. Give a list.", argument=name, value=values)
    for name, other in others:
        if other != length:
            message = f"{first} has {length:,} items and {name} has {other:,}. Give lists of the same length."
            raise UsageError(message, argument=first, value=length, allowed=[other])
    if not length:
        raise UsageError(f"{first} is empty. Give at least one item.", argument=first, value=0)
