"""Sampling: draw the next token from the logits, after filtering out improbable tokens.

| setting | in papers | effect on the probabilities |
|---|---|---|
| temperature | T | divides the logits: below 1 sharpens the distribution; 0 is greedy |
| top_k | k | keeps the k most probable tokens (Fan et al. 2018) |
| top_p | p | keeps the most probable tokens whose probabilities sum to p (Holtzman et al. 2020) |
| min_p | – | keeps tokens with at least this fraction of the highest probability (Nguyen et al. 2024) |
| repetition_penalty | θ | makes tokens that already occurred less probable (Keskar et al. 2019) |

They apply in this order: penalty, temperature, top_k, top_p, min_p.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.generation.config import MAX_SEED, SamplingConfig
from regard.nn.threads import one_thread


class Sampler:
    """Samples the next tokens of a batch; each row has its own random generator."""

    def __init__(self, config: SamplingConfig, rows: int) -> None:
        self.config = config
        # torch.seed() would reseed the global generator, so the seed comes from a new one.
        first = torch.Generator().seed() if config.seed is None else config.seed
        self._generators = [torch.Generator().manual_seed((first + row) % MAX_SEED) for row in range(rows)]

    def draw(self, logits: Tensor, before: Sequence[Sequence[int]], rows: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Sample from logits (rows, V): ids (rows,) and their log-probabilities before temperature and filters.

        `before` holds the ids of each row so far, for the repetition penalty; `rows` are the indices of the rows in the
        batch, which select their generators.
        """
        with one_thread():
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
    """The distribution to sample from, (rows, V): filtered tokens have probability 0, the rest sums to 1."""
    ranked, order = logits.sort(dim=-1, descending=True, stable=True)
    # Shift the maximum to 0 first, so that a tiny temperature cannot overflow to +inf.
    ranked = (ranked - ranked[:, :1]) / max(config.temperature, torch.finfo(ranked.dtype).tiny)
    probabilities = ranked.softmax(dim=-1)
    kept = torch.ones_like(probabilities, dtype=torch.bool)
    if config.top_k is not None:
        kept[:, config.top_k :] = False
    if config.top_p is not None:
        # Keep a token if the tokens ranked above it sum to less than p; the first is always kept.
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
    """Apply the repetition penalty: divide positive logits of tokens that occurred, multiply negative ones."""
    out = logits.clone()
    for row, ids in enumerate(before):
        seen = torch.tensor(sorted(set(ids)), dtype=torch.long, device=logits.device)
        values = out[row, seen]
        out[row, seen] = torch.where(values > 0, values / penalty, values * penalty)
    return out


def _draw(probabilities: Tensor, generator: torch.Generator) -> int:
    """Inverse transform sampling in float64: one random number per token."""
    levels = probabilities.double().cumsum(dim=0)
    point = torch.rand((), generator=generator, dtype=torch.float64).to(levels.device) * levels[-1]
    place = int(torch.searchsorted(levels, point, right=True))
    # Rounding may put the point past the end: then take the last token with probability above 0.
    return min(place, int(probabilities.nonzero().max()))
