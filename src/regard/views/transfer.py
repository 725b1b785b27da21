"""Pretrained weights versus training from scratch, by number of labels → a View: two curves and a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from regard.utils.errors import UsageError
from regard.views.picture import MUTED, Picture, draw_chart
from regard.views.view import View

SCRATCH, PRETRAINED = "from scratch", "pretrained"

Scores = tuple[float, ...]  # one per seed


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """Scores with the same examples, seeds and model size: from pretrained weights and from scratch."""

    metric: str
    sizes: tuple[int, ...]  # numbers of labeled training examples
    seeds: int
    pretrained: tuple[Scores, ...]  # for each size
    scratch: tuple[Scores, ...]
    majority: float | None  # score of always predicting the most frequent label, if the metric has one
    held_out: int  # examples that are scored

    def __post_init__(self) -> None:
        if not self.sizes:
            raise UsageError("a transfer curve needs at least one number of labels.", argument="sizes")
        for name in ("pretrained", "scratch"):
            if [len(scores) for scores in getattr(self, name)] != [self.seeds] * len(self.sizes):
                message = f"{name} needs {self.seeds} scores for each of {len(self.sizes)} sizes."
                raise UsageError(message, argument=name)

    def __iter__(self) -> Iterator[tuple[int, Scores, Scores]]:
        """(size, scores from scratch, scores of pretrained weights)"""
        return zip(self.sizes, self.scratch, self.pretrained, strict=True)

    def numbers(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "held_out": self.held_out,
            "majority": self.majority,
            "sizes": [
                {
                    "labels": size,
                    "from_scratch": {"mean": fmean(scratch), "scores": list(scratch)},
                    "pretrained": {"mean": fmean(pretrained), "scores": list(pretrained)},
                }
                for size, scratch, pretrained in self
            ],
        }

    def table(self) -> list[list[str]]:
        """A row for each number of labels: the mean and the standard deviation over the seeds, and the gain."""

        def cell(scores: Scores) -> str:
            return f"{fmean(scores):.2f}" + (f" ± {stdev(scores):.2f}" if len(scores) > 1 else "")

        return [
            [f"{size:,}", cell(scratch), cell(pretrained), f"{fmean(pretrained) - fmean(scratch):+.2f}"]
            for size, scratch, pretrained in self
        ]

    def lines(self) -> list[str]:
        """The table as text."""
        seeds = "1 seed" if self.seeds == 1 else f"mean ± standard deviation of {self.seeds} seeds"
        rows = [["labels", SCRATCH, PRETRAINED, "gain"], *self.table()]
        lines = [f"{size:>8}  {scratch:>15}  {pretrained:>15}  {gain:>7}" for size, scratch, pretrained, gain in rows]
        baseline = [] if self.majority is None else [f"majority baseline: {self.majority:.2f}"]
        return [f"{self.metric} on {self.held_out:,} held-out examples, {seeds}", *lines, *baseline]


def transfer_view(transfer: Transfer, *, title: str, note: str = "") -> View:
    """A view of both curves over the number of labels, and of their table."""
    caption = transfer.lines()[0]
    setup = "Both curves use the same examples, seeds, tokenizer and model size."
    series: list[dict[str, Any]] = []
    for name, side in ((PRETRAINED, transfer.pretrained), (SCRATCH, transfer.scratch)):
        points, spread = [], []
        for size, scores in zip(transfer.sizes, side, strict=True):
            mean, deviation = fmean(scores), stdev(scores) if len(scores) > 1 else 0.0
            points.append([size, mean])
            spread.append([size, mean - deviation, mean + deviation])
        series.append({"name": name, "points": points, "spread": spread})
    if transfer.majority is not None:
        ends = dict.fromkeys((transfer.sizes[0], transfer.sizes[-1]))
        series.append({"name": "majority baseline", "points": [[size, transfer.majority] for size in ends]})
    data = {
        "caption": caption,
        "chart": {"title": f"{transfer.metric} by number of labels", "series": series, "logAcross": True},
        "rows": transfer.table(),
        "columns": ["labels", SCRATCH, PRETRAINED, "gain"],
    }
    note = note or f"{setup} {caption[0].upper()}{caption[1:]}."
    return View("transfer", data, title, _draw, transfer.lines(), transfer.numbers, note)


def _draw(data: dict[str, Any]) -> Picture:
    picture = Picture(720, 440, data["title"])
    picture.heading(28, data["caption"])
    draw_chart(picture, data["chart"], 28, 82, 664, 310)
    picture.text(692, 412, "labels", size=11, fill=MUTED, anchor="end")
    return picture
