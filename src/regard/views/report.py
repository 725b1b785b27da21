"""A training run → a View: scores, curves, samples, attention, automatic choices and settings on one page.

This module arranges and thins its input. It does not read run folders and does not depend on the trainer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from regard.utils.errors import UsageError
from regard.views.picture import INK, MUTED, RULE, Picture, text_width
from regard.views.view import View

MOST_POINTS = 2000  # per curve; more would be finer than a screen
SERIES_COLOURS = ("#4a5fd0", "#d9661f", "#1f8f63", "#c2417f", "#8550c9", "#9a7400")

Curve = Sequence[tuple[float, float]]


def report_view(
    *,
    title: str,
    curves: Mapping[str, Curve],
    samples: Sequence[tuple[str, str, str]] = (),
    sample_names: tuple[str, str, str] = ("Source", "Reference", "Output"),
    compared: bool = True,
    scores: Sequence[tuple[str, float | str, str]] = (),
    settings: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
    attention: Sequence[tuple[str, View]] = (),
    summary: str = "",
) -> View:
    """The report of a training run.

    `curves` maps names to (step, value) points; curves whose names end in the same word ("train loss",
    "validation loss") share a chart. `samples` are (source, reference, output), in columns of the names
    `sample_names`; where they are `compared`, words that differ from the reference are marked. `scores` are (name,
    value, signature or remark), `notes` the automatic choices with their reasons, `attention` titled attention views.
    `summary` is a sentence under the title.
    """
    for name, view in attention:
        if view.viewer != "attention":
            raise UsageError(f"the report's attention {name!r} is a {view.viewer} view; pass attention views there.")
    charts = _charts(curves)
    cards = [{"name": name, "value": _shown(value), "remark": remark} for name, value, remark in scores]
    data = {
        "title": title,
        "summary": summary,
        "scores": cards,
        "charts": charts,
        "samples": [_sample(place, sample) for place, sample in enumerate(samples)],
        "sampleNames": list(sample_names),
        "compared": compared,
        "notes": list(notes),
        "settings": _flat(settings or {}),
        "attention": [{"title": name, "data": view.data} for name, view in attention],
    }
    return View("report", data, title, partial(_draw, title, cards, charts))


def thin(points: Curve, most: int = MOST_POINTS) -> list[list[float | None]]:
    """At most `most` points that preserve the curve's outline: the lowest and highest of each interval.

    A value that is NaN or infinite becomes None, a gap in the curve.
    """
    clean = [[float(step), float(value) if math.isfinite(value) else None] for step, value in points]
    if len(clean) <= most:
        return clean
    stretches = most // 2
    kept: list[list[float | None]] = []
    for stretch in range(stretches):
        part = clean[stretch * len(clean) // stretches : (stretch + 1) * len(clean) // stretches]
        valued = [point for point in part if point[1] is not None] or part[:1]
        ends = (min(valued, key=_value), max(valued, key=_value))
        kept.extend(sorted({id(point): point for point in ends}.values(), key=lambda point: point[0] or 0.0))
    kept[0], kept[-1] = clean[0], clean[-1]
    return kept


def _value(point: list[float | None]) -> float:
    return point[1] if point[1] is not None else math.inf


def _charts(curves: Mapping[str, Curve]) -> list[dict[str, Any]]:
    groups: dict[str, list[str]] = {}
    for name in curves:
        groups.setdefault(name.split()[-1] if name.split() else name, []).append(name)
    charts = []
    for last_word, names in groups.items():
        series = []
        for name in names:
            for point in curves[name]:
                if len(point) != 2 or not math.isfinite(point[0]):
                    raise UsageError(f"curve {name!r} has the point {point!r}; points are (step, value), steps finite.")
            ordered = sorted(curves[name], key=lambda point: point[0])
            series.append({"name": name, "points": thin(ordered), "count": len(ordered)})
        if any(one["count"] for one in series):
            charts.append({"title": last_word if len(names) > 1 else names[0], "series": series})
    return charts


def _sample(place: int, sample: tuple[str, str, str]) -> dict[str, str]:
    if len(sample) != 3:
        raise UsageError(f"sample {place} has {len(sample)} parts; samples are (source, reference, output).")
    source, reference, output = sample
    return {"source": source, "reference": reference, "output": output}


def _shown(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) >= 1000 else f"{value:.4g}"


def _flat(settings: Mapping[str, Any], prefix: str = "") -> list[list[str]]:
    """Nested settings as (dotted name, text) lines."""
    lines: list[list[str]] = []
    for key, value in settings.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            lines.extend(_flat(value, f"{name}."))
        elif isinstance(value, (list, tuple)):
            lines.append([name, ", ".join(str(item) for item in value)])
        else:
            lines.append([name, str(value)])
    return lines


def _draw(title: str, scores: Sequence[Mapping[str, str]], charts: Sequence[Mapping[str, Any]]) -> Picture:
    """Scores and curves as a still picture, two charts per line."""
    margin, chart_width, chart_height, gap = 28, 400, 230, 28
    width = 2 * margin + 2 * chart_width + gap
    top = 76 + (74 if scores else 0)
    picture = Picture(width, top + math.ceil(len(charts) / 2) * (chart_height + gap) + margin, title)
    picture.text(margin, 44, title, size=20, weight=600)
    x = float(margin)
    for score in scores:
        room = max(text_width(score["value"], 26), text_width(score["name"], 12)) + 36
        if x + room > width:
            break
        picture.text(x, 100, score["value"], size=26, weight=600)
        picture.text(x, 119, score["name"], size=12, fill=MUTED)
        x += room
    for place, chart in enumerate(charts):
        left = margin + (place % 2) * (chart_width + gap)
        draw_chart(picture, chart, left, top + place // 2 * (chart_height + gap), chart_width, chart_height)
    return picture


def draw_chart(picture: Picture, chart: Mapping[str, Any], x: float, y: float, width: float, height: float) -> None:
    """Draw one chart of a still picture: its title, its axes and its curves."""
    points = [point for one in chart["series"] for point in one["points"] if point[1] is not None]
    picture.text(x, y + 14, chart["title"], weight=600)
    if not points:
        picture.text(x, y + 40, "no finite values", fill=MUTED, size=12)
        return
    left, top, right, bottom = x + 46, y + 44, x + width, y + height - 24
    steps = sorted({point[0] for point in points})
    spreads = [end for one in chart["series"] for _, *ends in one.get("spread", ()) for end in ends]
    turn = math.log10 if chart.get("logAcross") else float
    low_y, high_y = _span([*(p[1] for p in points), *spreads])
    low_x, high_x = map(turn, _span(steps))

    def across(step: float) -> float:
        return left + (turn(step) - low_x) / (high_x - low_x) * (right - left)

    def up(value: float) -> float:
        return bottom - (value - low_y) / (high_y - low_y) * (bottom - top)

    for tick in _ticks(low_y, high_y):
        picture.polyline([(left, up(tick)), (right, up(tick))], stroke=RULE, width=1)
        picture.text(left - 7, up(tick) + 4, f"{tick:g}", size=11, fill=MUTED, anchor="end")
    for tick in steps if chart.get("logAcross") else _ticks(low_x, high_x):
        picture.text(across(tick), bottom + 16, f"{tick:g}", size=11, fill=MUTED, anchor="middle")
    legend_x = left
    for place, one in enumerate(chart["series"]):
        colour = SERIES_COLOURS[place % len(SERIES_COLOURS)]
        for step, low, high in one.get("spread", ()):
            picture.polyline([(across(step), up(low)), (across(step), up(high))], stroke=colour, width=1.5)
        run: list[tuple[float, float]] = []
        for step, value in [*one["points"], [0.0, None]]:  # the gap at the end closes the last run
            if value is not None:
                run.append((across(step), up(value)))
            elif run:
                picture.polyline(run, stroke=colour)
                run = []
        picture.rectangle(legend_x, y + 23, 10, 10, fill=colour, radius=3)
        picture.text(legend_x + 15, y + 32, one["name"], size=11, fill=INK)
        legend_x += 30 + text_width(one["name"], 11)


def _span(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - (abs(low) or 1) / 2, high + (abs(high) or 1) / 2)


def _ticks(low: float, high: float, about: int = 4) -> list[float]:
    """Round numbers from `low` to `high`."""
    rough = (high - low) / about
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough * 0.999)
    return [round(index * step, 12) for index in range(math.ceil(low / step), math.floor(high / step) + 1)]
