"""Averages of the weights along the way: often better than the last weights, and never moved by one bad step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

import torch
from torch import Tensor, nn

from regard.training.config import WeightAveraging
from regard.utils.errors import unknown

KINDS = get_args(WeightAveraging)


class WeightAverager:
    """Keeps a second set of weights beside the model's own.

    - `exponential`: each step moves the average a little towards the weights; early steps move it more.
    - `tail`: the plain mean of `snapshots` sets of weights, taken evenly over the last part of the training, as
      the 2017 paper averages its last checkpoints.
    """

    def __init__(
        self, model: nn.Module, *, kind: str, decay: float = 0.999, tail: float = 0.2, snapshots: int = 5
    ) -> None:
        if kind not in KINDS:
            raise unknown("weight_averaging", kind, KINDS)
        self.kind, self.decay, self.tail, self.snapshots = kind, decay, tail, snapshots
        learning = {name: param.detach() for name, param in model.named_parameters() if param.requires_grad}
        self.names, self.live = list(learning), list(learning.values())
        self.mean = [] if kind == "none" else [param.clone() for param in self.live]
        self.taken = 0

    @torch.no_grad()
    def update(self, step: int, progress: float) -> None:
        """Look at the weights after step number `step` (counted from 1)."""
        if self.kind == "ema":
            # A faster decay at first forgets the random start: at step n it remembers about the last tenth of n.
            weight = max(1 - self.decay, 9 / (step + 9))
            torch._foreach_lerp_(self.mean, self.live, weight)
        elif self.kind == "tail":
            due = 1 - self.tail + self.tail * self.taken / max(1, self.snapshots - 1)
            if self.taken < self.snapshots and progress >= due - 1e-9:
                self.taken += 1
                torch._foreach_lerp_(self.mean, self.live, 1 / self.taken)

    @property
    def is_ready(self) -> bool:
        """Whether there is an average to use: a tail that never began has none."""
        return self.kind == "ema" or (self.kind == "tail" and self.taken > 0)

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange the model's weights and the average; a second call puts them back."""
        if self.is_ready:
            for live, mean in zip(self.live, self.mean, strict=True):
                kept = live.clone()
                live.copy_(mean)
                mean.copy_(kept)

    def tensors(self) -> dict[str, Tensor]:
        return dict(zip(self.names, self.mean, strict=True)) if self.mean else {}

    @torch.no_grad()
    def load(self, tensors: Mapping[str, Tensor], taken: int) -> None:
        self.taken = taken
        for name, mean in zip(self.names, self.mean, strict=bool(self.mean)):
            mean.copy_(tensors[name])
