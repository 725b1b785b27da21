"""How outputs are chosen: the settings of searching and of drawing. Without torch, which only doing it needs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from regard.errors import UsageError

MAX_SEED = 2**63


@dataclass(frozen=True, kw_only=True)
class SearchConfig:
    beams: int = 5  # unfinished outputs that are pursued at a time; 1 is greedy
    # Exponent of the length by which a log-probability is divided, as in transformers: 1 compares means per token,
    # 0 compares sums, which favours short outputs; more favours longer ones, less than 0 shorter ones still.
    length_penalty: float = 1.0
    n_best: int = 1  # how many outputs are returned, the best first
    max_new_tokens: int = 256  # longest output, its end symbol included
    max_ratio: float | None = 3.0  # longest output for each source token, to stop output that runs away; None: any
    max_extra: int = 10  # tokens allowed on top of max_ratio × source, for short sources
    min_new_tokens: int = 0  # tokens that come before the end symbol at least

    def __post_init__(self) -> None:
        _at_least(1, beams=self.beams, n_best=self.n_best, max_new_tokens=self.max_new_tokens)
        _at_least(0, max_extra=self.max_extra, min_new_tokens=self.min_new_tokens)
        if self.n_best > self.beams:
            raise UsageError(
                f"n_best is {self.n_best}, but {self.beams} beams find at most that many: set beams to {self.n_best}."
            )
        if self.min_new_tokens > self.max_new_tokens:
            raise UsageError(
                f"min_new_tokens ({self.min_new_tokens}) is more than max_new_tokens ({self.max_new_tokens})."
            )
        if not -10 <= self.length_penalty <= 10:
            raise UsageError(f"length_penalty must be between -10 and 10, usually about 1, not {self.length_penalty}.")
        if self.max_ratio is not None and not 0 < self.max_ratio < math.inf:
            raise UsageError(f"max_ratio must be a number above 0, or None for no such limit, not {self.max_ratio}.")

    def score(self, log_prob: float, length: int) -> float:
        """What hypotheses are compared by."""
        return log_prob / math.pow(length, self.length_penalty)


@dataclass(frozen=True, kw_only=True)
class SamplingConfig:
    max_new_tokens: int = 200  # how many tokens are written at most
    temperature: float = 0.8  # below 1 keeps to the likely; 0 is greedy
    top_k: int | None = 50  # draw from so many of the likeliest only
    top_p: float | None = None  # draw from the likeliest that together reach this probability
    min_p: float | None = None  # draw from what is at least this share of the likeliest
    repetition_penalty: float = 1.0  # above 1, what is already there becomes less likely
    seed: int | None = None  # the same seed gives the same text
    stop: tuple[str, ...] = ()  # texts that end the writing and are not written

    def __post_init__(self) -> None:
        if self.max_new_tokens < 1:
            raise UsageError(f"max_new_tokens must be at least 1, not {self.max_new_tokens}.")
        if not 0 <= self.temperature < math.inf:
            raise UsageError(f"temperature must be 0 (greedy) or more, not {self.temperature}.")
        if self.top_k is not None and self.top_k < 1:
            raise UsageError(f"top_k must be at least 1, not {self.top_k}.")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise UsageError(f"top_p must be above 0 and at most 1, not {self.top_p}.")
        if self.min_p is not None and not 0 <= self.min_p <= 1:
            raise UsageError(f"min_p must lie between 0 and 1, not {self.min_p}.")
        if not 0 < self.repetition_penalty < math.inf:
            raise UsageError(f"repetition_penalty must be above 0, usually 1 to 1.3, not {self.repetition_penalty}.")
        if self.seed is not None and not 0 <= self.seed < MAX_SEED:
            raise UsageError(f"seed must be 0 or more and below 2^63, not {self.seed}.")
        if any(not text for text in self.stop):
            raise UsageError("a stop text is empty: it would stop everything at once. Leave it out.")

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0


def _at_least(least: int, **values: int) -> None:
    for name, value in values.items():
        if value < least:
            raise UsageError(f"{name} must be at least {least}, not {value}.")
