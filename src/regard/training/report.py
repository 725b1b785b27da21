"""`report.html`: curves, samples, scores and settings of a run on one page that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.metrics.score import Score
from regard.nn.hooks import Trace
from regard.training.metrics_log import read_metrics
from regard.training.objective import Sample, SampleNames
from regard.training.progress import clock
from regard.views.attention import attention_view
from regard.views.report import report_view
from regard.views.traces import default_map, trace_maps
from regard.views.view import View


def training_curves(rows: Sequence[Mapping[str, Any]], *, unit: str) -> dict[str, list[tuple[float, float]]]:
    """Curves of a run's metrics as (step, value) points, by the name a chart shows; `unit` is what its speed counts."""
    keys = {
        "train loss": "loss",
        "validation loss": "validation_loss",
        "loss of masked words (forgetting)": "masked_word_loss",
        "learning rate": "learning_rate",
        f"{unit} per second": "tokens_per_second",
    }
    return {name: [(row["step"], row[key]) for row in rows if key in row] for name, key in keys.items()}


def write_report(
    path: Path,
    *,
    title: str,
    loss_unit: str,
    scores: Sequence[Score],
    samples: Sequence[Sample],
    sample_names: SampleNames,
    settings: Mapping[str, Any],
    notes: Sequence[str],
    traces: Sequence[tuple[str, Trace]],
) -> Path:
    """Write the report of a finished run into its folder; `loss_unit` is what its speed counts."""
    rows = read_metrics(path.parent)
    last = rows[-1] if rows else {"step": 0, "seconds": 0.0, "tokens": 0}
    summary = f"{last['step']:,} steps, {last['tokens']:,} {loss_unit}, {clock(last['seconds'])} of training"
    view = report_view(
        title=title,
        curves=training_curves(rows, unit=loss_unit),
        samples=[(sample.source, sample.reference, sample.output) for sample in samples],
        sample_names=sample_names[:3],
        compared=sample_names.comparable,
        scores=[(score.name, score.value, _remark(score)) for score in scores],
        settings=settings,
        notes=notes,
        attention=[(text, _attention(text, trace)) for text, trace in traces],
        summary=summary,
    )
    view.save(path)
    return path


def _remark(score: Score) -> str:
    return f"{score.on}: {score.signature}" if score.on else score.signature


def _attention(text: str, trace: Trace) -> View:
    maps = trace_maps(trace)
    return attention_view(maps, title=text, initial=default_map(maps))
