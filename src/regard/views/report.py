"""Show a training run as a View: scores, curves, samples, attention, automatic choices and settings on one page.

This module arranges its input and reduces the number of points. It does not read run folders or depend on the trainer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from regard.utils.errors import UsageError
from regard.views.picture import MUTED, Picture, draw_chart, text_width
from regard.views.view import View

MAX_POINTS = 2000  # per curve; more points would be finer than a screen

Curve = Sequence[tuple[float, float]]
Point = list[float | None]  # step and value; no value is a gap


def report_view(
    *,
    title: str,
    curves: Mapping[str, Curve],
    samples: Sequence[tuple[str, str, str]] = (),
    sample_names: tuple[str, str, str] = ("Source", "Reference", "Output"),
    compared: bool = True,
    mistakes_first: bool = False,
    scores: Sequence[tuple[str, float | str, str]] = (),
    settings: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
    attention: Sequence[tuple[str, View]] = (),
    summary: str = "",
) -> View:
    """The report of a training run.

    `curves` maps names to (step, value) points; curves whose names end in the same word ("train loss", "validation
    loss") share a chart. `samples` are (source, reference, output), under the headings `sample_names`. With `compared`,
    words that differ from the reference are marked; `mistakes_first` describes the order of the samples. `scores` are
    (name, value, signature or remark), `notes` are the automatic choices with their reasons, and `attention` maps
    titles to attention views. `summary` is a sentence under the title.
    """
    for name, view in attention:
        if view.viewer != "attention":
            message = f"the attention view {name!r} of the report is a {view.viewer} view; pass attention views."
            raise UsageError(message, argument="attention", value=view.viewer)
    for index, sample in enumerate(samples):
        if len(sample) != 3:
            raise UsageError(f"sample {index} is {sample!r}, not (source, reference, output).", argument="samples")
    data = {
        "scores": [{"name": name, "value": _format_score(value), "remark": remark} for name, value, remark in scores],
        "charts": _charts(curves),
        "samples": [dict(zip(("source", "reference", "output"), sample, strict=True)) for sample in samples],
        "sampleNames": list(sample_names),
        "compared": compared,
        "mistakesFirst": mistakes_first,
        "notes": list(notes),
        "settings": _flatten(settings or {}),
        "attention": [{"title": name, "data": view.data} for name, view in attention],
    }
    return View("report", data, title, _draw, note=summary)


def thin(points: Curve, max_points: int = MAX_POINTS) -> list[Point]:
    """Return at most `max_points` points that preserve the outline of the curve: the lowest and highest of each
    interval.

    A value that is NaN or infinite becomes None, a gap in the curve.
    """
    clean: list[Point] = [[float(step), float(value) if math.isfinite(value) else None] for step, value in points]
    if len(clean) <= max_points:
        return clean

    def value_of(point: Point) -> float:
        return math.inf if point[1] is None else point[1]

    intervals = max_points // 2
    kept: list[Point] = []
    for index in range(intervals):
        part = clean[index * len(clean) // intervals : (index + 1) * len(clean) // intervals]
        finite = [point for point in part if point[1] is not None] or part[:1]
        ends = (min(finite, key=value_of), max(finite, key=value_of))
        kept.extend(sorted({id(point): point for point in ends}.values(), key=lambda point: point[0] or 0.0))
    kept[0], kept[-1] = clean[0], clean[-1]
    return kept


def _charts(curves: Mapping[str, Curve]) -> list[dict[str, Any]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for name, points in curves.items():
        for point in points:
            if len(point) != 2 or not math.isfinite(point[0]):
                message = f"curve {name!r} has the point {point!r}; points are (step, value) with finite steps."
                raise UsageError(message, argument="curves", value=point)
        ordered = sorted(points, key=lambda point: point[0])
        series = {"name": name, "points": thin(ordered), "count": len(ordered)}
        groups.setdefault(name.split()[-1] if name.split() else name, []).append(series)
    return [
        {"title": last_word if len(group) > 1 else group[0]["name"], "series": group}
        for last_word, group in groups.items()
        if any(series["count"] for series in group)
    ]


def _format_score(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) >= 1000 else f"{value:.4g}"


def _flatten(settings: Mapping[str, Any], prefix: str = "") -> list[list[str]]:
    """Nested settings as (dotted name, text) lines."""
    lines: list[list[str]] = []
    for key, value in settings.items():
        if isinstance(value, Mapping):
            lines.extend(_flatten(value, f"{prefix}{key}."))
        else:
            values = value if isinstance(value, (list, tuple)) else [value]
            lines.append([f"{prefix}{key}", ", ".join(map(str, values))])
    return lines


def _draw(data: dict[str, Any]) -> Picture:
    """Scores and curves as a still picture, two charts per line."""
    scores, charts = data["scores"], data["charts"]
    margin, chart_width, chart_height, gap = 28, 400, 230, 28
    width = 2 * margin + 2 * chart_width + gap
    top = 76 + (74 if scores else 0)
    picture = Picture(width, top + math.ceil(len(charts) / 2) * (chart_height + gap) + margin, data["title"])
    picture.heading(margin)
    x = float(margin)
    for score in scores:
        card_width = max(text_width(score["value"], 26), text_width(score["name"], 12)) + 36
        if x + card_width > width:
            break
        picture.text(x, 100, score["value"], size=26, weight=600)
        picture.text(x, 119, score["name"], size=12, fill=MUTED)
        x += card_width
    for index, chart in enumerate(charts):
        left = margin + (index % 2) * (chart_width + gap)
        draw_chart(picture, chart, left, top + index // 2 * (chart_height + gap), chart_width, chart_height)
    return picture
