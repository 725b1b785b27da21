"""Pre-trained versus from scratch, by number of labels → a View: two curves with their spread, and a table."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from regard.utils.errors import UsageError
from regard.views.picture import MUTED, Picture
from regard.views.report import draw_chart
from regard.views.view import View

PRETRAINED, SCRATCH = "pre-trained", "from scratch"


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """Scores with the same examples, seeds and model size: from pre-trained weights and from scratch."""

    metric: str
    sizes: tuple[int, ...]  # numbers of labelled training examples
    seeds: int
    pretrained: tuple[tuple[float, ...], ...]  # for each size the score of each seed
    scratch: tuple[tuple[float, ...], ...]
    majority: float | None  # score of always predicting the most frequent label, if the metric has one
    held_out: int  # examples that are scored

    def __post_init__(self) -> None:
        if not self.sizes:
            raise UsageError("a transfer curve needs at least one number of labels.")
        for side in (self.pretrained, self.scratch):
            if [len(scores) for scores in side] != [self.seeds] * len(self.sizes):
                raise UsageError(f"a transfer curve needs {self.seeds} scores for each of {len(self.sizes)} sizes.")

    @property
    def sides(self) -> dict[str, tuple[tuple[float, ...], ...]]:
        return {PRETRAINED: self.pretrained, SCRATCH: self.scratch}

    def numbers(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "held_out": self.held_out,
            "majority": self.majority,
            "sizes": [
                {"labels": size, "from_scratch": _side(scratch), "pre_trained": _side(pretrained)}
                for size, scratch, pretrained in zip(self.sizes, self.scratch, self.pretrained, strict=True)
            ],
        }

    def lines(self) -> list[str]:
        """A table: for each number of labels the mean and the standard deviation over the seeds."""
        seeds = "1 seed" if self.seeds == 1 else f"mean ± standard deviation of {self.seeds} seeds"
        rows = [
            f"{self.metric} on {self.held_out:,} held-out examples, {seeds}",
            f"{'labels':>8}  {SCRATCH:>15}  {PRETRAINED:>15}  {'gain':>7}",
        ]
        for size, scratch, pretrained in zip(self.sizes, self.scratch, self.pretrained, strict=True):
            gain = mean(pretrained) - mean(scratch)
            rows.append(f"{size:>8,}  {shown(scratch):>15}  {shown(pretrained):>15}  {gain:>+7.2f}")
        if self.majority is not None:
            rows.append(f"majority baseline: {self.majority:.2f}")
        return rows


def _side(scores: Sequence[float]) -> dict[str, Any]:
    return {"mean": mean(scores), "scores": list(scores)}


def mean(scores: Sequence[float]) -> float:
    return statistics.fmean(scores)


def deviation(scores: Sequence[float]) -> float:
    return statistics.stdev(scores) if len(scores) > 1 else 0.0


def shown(scores: Sequence[float]) -> str:
    return f"{mean(scores):.2f}" + (f" ± {deviation(scores):.2f}" if len(scores) > 1 else "")


def transfer_view(transfer: Transfer, *, title: str, note: str = "") -> View:
    """A view of both curves over the number of labels, and of their table."""
    head = transfer.lines()[0]
    data = {
        "title": title,
        "note": note
        or f"Both curves use the same examples, seeds, tokenizer and model size. {head[0].upper()}{head[1:]}.",
        "chart": _chart(transfer),
        "rows": [
            [f"{size:,}", shown(scratch), shown(pretrained), f"{mean(pretrained) - mean(scratch):+.2f}"]
            for size, scratch, pretrained in zip(transfer.sizes, transfer.scratch, transfer.pretrained, strict=True)
        ],
        "columns": ["labels", SCRATCH, PRETRAINED, "gain"],
    }
    return View("transfer", data, title, partial(_draw, transfer, title, head))


def _chart(transfer: Transfer) -> dict[str, Any]:
    series: list[dict[str, Any]] = []
    for name, side in transfer.sides.items():
        pairs = list(zip(transfer.sizes, side, strict=True))
        spread = [[size, mean(scores) - deviation(scores), mean(scores) + deviation(scores)] for size, scores in pairs]
        series.append({"name": name, "points": [[size, mean(scores)] for size, scores in pairs], "spread": spread})
    if transfer.majority is not None:
        ends = dict.fromkeys((transfer.sizes[0], transfer.sizes[-1]))
        series.append({"name": "majority baseline", "points": [[size, transfer.majority] for size in ends]})
    return {"title": f"{transfer.metric} by number of labels", "series": series, "logAcross": True}


def _draw(transfer: Transfer, title: str, head: str) -> Picture:
    picture = Picture(720, 440, title)
    picture.text(28, 40, title, size=18, weight=600)
    picture.text(28, 62, head, size=12, fill=MUTED)
    draw_chart(picture, _chart(transfer), 28, 82, 664, 310)
    picture.text(692, 412, "labels", size=11, fill=MUTED, anchor="end")
    return picture
