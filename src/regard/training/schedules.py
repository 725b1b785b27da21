"""How the learning rate moves: a factor of its full value, from how far the training has come.

`progress` runs from 0 to 1, whether the budget is steps or minutes, so a schedule always fits its budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from regard.utils.errors import unknown

Curve = Callable[[float], float]


def constant(progress: float) -> float:
    return 1.0


def linear(progress: float) -> float:
    """Falls evenly to zero."""
    return max(0.0, 1 - progress)


def cosine(progress: float) -> float:
    """Falls to zero slowly at first, then fast, then slowly."""
    return 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))


def trapezoid(progress: float, *, hold: float = 0.4) -> float:
    """Full until `hold`, then evenly to zero."""
    return min(1.0, max(0.0, (1 - progress) / (1 - hold)))


SCHEDULES: dict[str, Curve] = {
    "constant": constant,
    "linear": linear,
    "cosine": cosine,
    "trapezoid": trapezoid,
    "linear-from-peak": linear,  # from the end of the warm-up on, where that is known, instead of from the beginning
}
FROM_PEAK = "linear-from-peak"
INVERSE_ROOT = "inverse-square-root"


def lr_factor(schedule: str, *, step: int, progress: float, warmup_steps: int, warmed: float = 0.0) -> float:
    """The factor for one step (counted from 0): a linear warm-up, then the schedule.

    `warmed` is the progress made by the end of the warm-up, where that is known: from there `linear-from-peak` falls,
    so that the full rate is reached. The other schedules count from the beginning.

    `inverse-square-root` is the rule of 2017, min(step^-½, step · warmup^-1.5), scaled so that its peak is 1.
    """
    step = step + 1
    if schedule == INVERSE_ROOT:
        warmup = max(1, warmup_steps)
        return min(step / warmup, math.sqrt(warmup / step))
    if schedule not in SCHEDULES:
        raise unknown("schedule", schedule, (*SCHEDULES, INVERSE_ROOT))
    warm = min(1.0, step / warmup_steps) if warmup_steps else 1.0
    if schedule == FROM_PEAK and warmed < 1:
        progress = max(0.0, progress - warmed) / (1 - warmed)
    return warm * SCHEDULES[schedule](progress)
