"""Diagnose a finished run and write `report.html`, an offline page with curves, samples, scores, settings and notes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.metrics.score import Score
from regard.nn.hooks import Trace
from regard.training.callbacks import format_duration, read_metrics
from regard.training.objective import Objective, Sample
from regard.views.attention import attention_view, default_map, trace_maps
from regard.views.report import report_view
from regard.views.view import View

if TYPE_CHECKING:
    from regard.training.config import TrainingConfig
    from regard.training.trainer import TrainState

MIN_GAP = 0.1  # minimum gap between training and validation loss to report


def diagnose(state: TrainState, config: TrainingConfig) -> list[str]:
    """Return notes on a finished run: which weights were kept, and whether the model overfits."""
    notes = []
    keeps_best = config.keep_weights == "best" and state.best_val_loss < math.inf
    if keeps_best:
        notes.append(
            f"kept: the weights of step {state.best_step:,}, which have the lowest validation loss. Because they were "
            "selected on the validation examples, scores on these examples are slightly too high."
        )
    if state.val_loss > 1.05 * state.best_val_loss and not state.train_loss > state.best_val_loss:
        kept = "were kept" if keeps_best else "would be kept with --keep-weights best"
        notes.append(
            f"overfitting: the validation loss rose from {state.best_val_loss:.4f} at step {state.best_step:,} to "
            f"{state.val_loss:.4f}, while the training loss fell to {state.train_loss:.4f}. The weights of step "
            f"{state.best_step:,} {kept}. Use more data, fewer epochs or a lower learning rate."
        )
    elif (
        state.epoch
        and state.eval_step == state.step
        and state.val_loss > 2 * state.train_loss
        and state.val_loss - state.train_loss > MIN_GAP
    ):
        notes.append(
            f"gap: the training loss is {state.train_loss:.4f}, the validation loss {state.val_loss:.4f}: the model "
            "memorizes training examples. Use more data or fewer epochs."
        )
    return notes


def training_curves(rows: Sequence[Mapping[str, Any]], *, unit: str) -> dict[str, list[tuple[float, float]]]:
    """Return the curves of a run by title, as lists of (step, value); throughput is measured in `unit` per second."""
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
    objective: Objective,
    *,
    scores: Sequence[Score],
    samples: Sequence[Sample],
    settings: Mapping[str, Any],
    notes: Sequence[str],
) -> None:
    """Write the report of a finished run into its folder."""
    rows, unit, names = read_metrics(path.parent), objective.loss_unit, objective.sample_names
    last = rows[-1] if rows else {"step": 0, "seconds": 0.0, "tokens": 0}
    report_view(
        title=path.parent.name,
        curves=training_curves(rows, unit=unit),
        samples=[(sample.source, sample.reference, sample.output) for sample in samples],
        sample_names=names[:3],
        compared=names.comparable,
        mistakes_first=names.mistakes_first,
        scores=[(s.name, s.value, f"{s.on}: {s.signature}" if s.on else s.signature) for s in scores],
        settings=settings,
        notes=notes,
        attention=[(text, _attention(text, trace)) for text, trace in objective.traces(samples)],
        summary=f"{last['step']:,} steps, {last['tokens']:,} {unit}, {format_duration(last['seconds'])} of training",
    ).save(path)


def _attention(text: str, trace: Trace) -> View:
    maps = trace_maps(trace)
    return attention_view(maps, title=text, initial=default_map(maps))
