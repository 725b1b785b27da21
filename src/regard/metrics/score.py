"""A measured number with what it takes to measure it again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Score:
    name: str
    value: float
    signature: str  # settings and version, so that others can repeat the number; sacreBLEU's own for its scores
    on: str = ""  # what it was measured on, where that is not what the scores beside it were measured on

    def __repr__(self) -> str:
        return f"{self.name} {self.value:.2f} ({self.signature})"
