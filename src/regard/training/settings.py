"""The settings of a training run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from regard.errors import UsageError, unknown

Optimiser = Literal["muon", "adamw"]
Schedule = Literal["constant", "linear", "cosine", "trapezoid", "inverse-square-root", "linear-from-peak"]
Averaging = Literal["none", "exponential", "tail"]
Keep = Literal["last", "best"]
_CHOICES = {
    "keep": get_args(Keep),
    "optimiser": get_args(Optimiser),
    "schedule": get_args(Schedule),
    "averaging": get_args(Averaging),
}

MAX_SEED = 2**32


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    steps: int | None = None  # how many updates to make; or give --minutes
    minutes: float | None = None  # how long to train; the schedule fits itself to it
    batch_tokens: int = 4096  # tokens of a batch; of pairs, source and target with their padding
    seed: int = 0  # the same seed gives the same run
    optimiser: Optimiser = "muon"  # muon: matrices by Muon, the rest by AdamW
    learning_rate: float = 0.03  # full rate of AdamW
    matrix_learning_rate: float = 0.025  # full rate of Muon
    beta1: float = 0.9  # AdamW: memory of the gradient
    beta2: float = 0.98  # AdamW: memory of its square
    epsilon: float = 1e-9  # AdamW: keeps the division finite
    weight_decay: float = 0.01  # pull of the matrices towards zero
    schedule: Schedule = "linear"  # after warm-up
    warmup_steps: int = 30  # updates until the full rate
    label_smoothing: float = 0.1  # share of each target spread over the whole vocabulary
    dropout_epochs: int = 8  # epochs until dropout acts at its full share; 0: from the beginning
    clip: float = 1.0  # longest gradient; 0 switches clipping off
    averaging: Averaging = "exponential"  # of the weights that are kept
    average_decay: float = 0.998  # exponential averaging: how much of the average stays at each step
    validations: int = 10  # how often the validation loss is measured
    keep: Keep = "last"  # which weights are kept: those of the end, or those with the lowest validation loss
    patience: int = 0  # validations in a row without a lower loss that end a training early; 0: it goes to its end
    log_every: int = 10  # steps between lines of metrics.jsonl

    def __post_init__(self) -> None:
        if self.steps is not None and self.minutes is not None:
            raise UsageError("give --steps or --minutes, not both.")
        if self.steps is not None and self.steps < 1:
            raise UsageError(f"steps must be at least 1, not {self.steps}.")
        if self.minutes is not None and not self.minutes > 0:
            raise UsageError(f"minutes must be more than 0, not {self.minutes}.")
        for name in ("minutes", "learning_rate", "matrix_learning_rate", "clip", "weight_decay", "epsilon"):
            if not math.isfinite(getattr(self, name) or 0):
                raise UsageError(f"{name} must be a finite number, not {getattr(self, name)}.")
        if self.seed >= MAX_SEED:
            raise UsageError(f"seed must be below {MAX_SEED:,}, not {self.seed}.")
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise unknown(name, str(getattr(self, name)), choices)
        for name in ("batch_tokens", "log_every"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, not {getattr(self, name)}.")
        for name in ("learning_rate", "matrix_learning_rate"):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name} must be more than 0, not {getattr(self, name)}.")
        for name in (
            "warmup_steps",
            "dropout_epochs",
            "clip",
            "weight_decay",
            "epsilon",
            "seed",
            "validations",
            "patience",
        ):
            if getattr(self, name) < 0:
                raise UsageError(f"{name} must not be negative, but is {getattr(self, name)}.")
        for name in ("label_smoothing", "beta1", "beta2", "average_decay"):
            if not 0 <= getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 0 and below 1, not {getattr(self, name)}.")
