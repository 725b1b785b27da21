"""`report.html`: curves, samples, scores and settings of a run on one page that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.metrics.translation import Score
from regard.tasks.task import Sample
from regard.tasks.translate import Translator
from regard.training.metrics_log import read_metrics
from regard.training.progress import clock
from regard.views.attention import attention_view
from regard.views.report import report_view
from regard.views.traces import last_cross, trace_maps
from regard.views.view import View

NAME = "report.html"
CURVES = {
    "train loss": "loss",
    "validation loss": "validation_loss",
    "learning rate": "learning_rate",
    "target tokens per second": "tokens_per_second",
}


def write_report(
    run: Path,
    *,
    title: str,
    scores: Sequence[Score],
    samples: Sequence[Sample],
    settings: Mapping[str, Any],
    notes: Sequence[str],
    translator: Translator,
) -> Path:
    """Write the report of a finished run into its folder."""
    rows = read_metrics(run)
    curves = {name: [(row["step"], row[key]) for row in rows if key in row] for name, key in CURVES.items()}
    last = rows[-1] if rows else {"step": 0, "seconds": 0.0, "tokens": 0}
    summary = f"{last['step']:,} steps, {last['tokens']:,} target tokens, {clock(last['seconds'])} of training"
    view = report_view(
        title=title,
        curves=curves,
        samples=[(sample.source, sample.reference, sample.output) for sample in samples],
        scores=[(score.name, score.value, score.signature) for score in scores],
        settings=settings,
        notes=notes,
        attention=[(sample.source, _attention(translator, sample)) for sample in samples[:2] if sample.output],
        summary=summary,
    )
    path = run / NAME
    view.save(path)
    return path


def _attention(translator: Translator, sample: Sample) -> View:
    maps = trace_maps(translator.trace(sample.source))
    return attention_view(maps, title=sample.source, initial=last_cross(maps))
