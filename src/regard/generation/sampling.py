"""From logits to text by chance: which token comes next is drawn, after the unlikely ones were put aside.

| setting | in papers | what it does to the probabilities |
|---|---|---|
| temperature | T | divides the logits: below 1 the likely becomes likelier; 0 always takes the likeliest |
| top_k | k | keeps the k likeliest (Fan et al. 2018) |
| top_p | p | keeps the likeliest that together reach p (Holtzman et al. 2020) |
| min_p | – | keeps what is at least this share of the likeliest (Nguyen et al. 2024) |
| repetition_penalty | θ | makes what was already there less likely (Keskar et al. 2019) |

They apply in this order: penalty, temperature, top_k, top_p, min_p.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import UsageError

MAX_SEED = 2**63


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


class Sampler:
    """Draws the next tokens of a batch; every row has a random generator of its own."""

    def __init__(self, config: SamplingConfig, rows: int) -> None:
        self.config = config
        first = torch.seed() if config.seed is None else config.seed
        self._generators = [torch.Generator().manual_seed((first + row) % MAX_SEED) for row in range(rows)]

    def draw(self, logits: Tensor, before: Sequence[Sequence[int]], rows: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Tokens (rows,) and the model's own log-probabilities of them, from logits (rows, N).

        `before` are the ids that each row has so far, for the repetition penalty; `rows` says which row of the batch
        each is.
        """
        plain = logits.log_softmax(dim=-1)
        if self.config.repetition_penalty != 1:
            logits = penalised(logits, before, self.config.repetition_penalty)
        if self.config.is_greedy:
            chosen = logits.argmax(dim=-1)
        else:
            probabilities = likely(logits, self.config)
            drawn = [_draw(p, self._generators[row]) for p, row in zip(probabilities, rows, strict=True)]
            chosen = torch.tensor(drawn, device=logits.device)
        return chosen, plain.gather(-1, chosen[:, None]).squeeze(-1)


def likely(logits: Tensor, config: SamplingConfig) -> Tensor:
    """What tokens are drawn by, (rows, N): probabilities with the unlikely ones at 0, the rest summing to 1."""
    ranked, order = (logits / config.temperature).sort(dim=-1, descending=True, stable=True)
    probabilities = ranked.softmax(dim=-1)
    kept = torch.ones_like(probabilities, dtype=torch.bool)
    if config.top_k is not None:
        kept[:, config.top_k :] = False
    if config.top_p is not None:
        # What comes before a token must not have reached p already; the likeliest is always kept.
        among = torch.where(kept, probabilities, 0.0)
        among = among / among.sum(dim=-1, keepdim=True)
        kept &= among.cumsum(dim=-1) - among < config.top_p
    if config.min_p is not None:
        kept &= probabilities >= config.min_p * probabilities[:, :1]
    kept[:, 0] = True
    probabilities = torch.where(kept, probabilities, 0.0)
    probabilities = probabilities / probabilities.sum(dim=-1, keepdim=True)
    return torch.zeros_like(probabilities).scatter_(-1, order, probabilities)


def penalised(logits: Tensor, before: Sequence[Sequence[int]], penalty: float) -> Tensor:
    """Logits of tokens that are already there, divided by the penalty if positive, multiplied if negative."""
    out = logits.clone()
    for row, ids in enumerate(before):
        seen = torch.tensor(sorted(set(ids)), dtype=torch.long, device=logits.device)
        values = out[row, seen]
        out[row, seen] = torch.where(values > 0, values / penalty, values * penalty)
    return out


def _draw(probabilities: Tensor, generator: torch.Generator) -> int:
    """By the inverse of the cumulative distribution, in float64: one random number for one token."""
    levels = probabilities.double().cumsum(dim=0)
    point = torch.rand((), generator=generator, dtype=torch.float64).to(levels.device) * levels[-1]
    place = int(torch.searchsorted(levels, point, right=True))
    # Rounding may put the point at the very end: the last token that can be drawn takes it.
    return min(place, int(probabilities.nonzero().max()))
