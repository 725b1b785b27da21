"""The settings of adapters; without torch, as those of the models."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from regard.errors import UsageError, unknown

Matrices = Literal["attention", "all"]


@dataclass(frozen=True, kw_only=True)
class LoRAConfig:
    lora_rank: int = 8  # how many directions each adapter can change
    lora_alpha: float = 16.0  # weight of the adapters: what they add is multiplied by alpha / rank
    lora_on: Matrices = "attention"  # which matrices get an adapter: those of attention, or all inside the blocks

    def __post_init__(self) -> None:
        if self.lora_rank < 1:
            raise UsageError(f"lora_rank must be at least 1, not {self.lora_rank}.")
        if not 0 < self.lora_alpha < math.inf:
            raise UsageError(f"lora_alpha must be a finite number above 0, not {self.lora_alpha}.")
        if self.lora_on not in get_args(Matrices):
            raise unknown("lora_on", str(self.lora_on), get_args(Matrices))
