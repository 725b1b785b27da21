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

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.generation.settings import MAX_SEED, SamplingConfig
from regard.nn.threads import one_thread


class Sampler:
    """Draws the next tokens of a batch; every row has a random generator of its own."""

    def __init__(self, config: SamplingConfig, rows: int) -> None:
        self.config = config
        # A generator of its own, since torch.seed() would throw everybody's dice anew.
        first = torch.Generator().seed() if config.seed is None else config.seed
        self._generators = [torch.Generator().manual_seed((first + row) % MAX_SEED) for row in range(rows)]

    def draw(self, logits: Tensor, before: Sequence[Sequence[int]], rows: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Tokens (rows,) and the model's own log-probabilities of them, from logits (rows, N).

        `before` are the ids that each row has so far, for the repetition penalty; `rows` says which row of the batch
        each is.
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
    """What tokens are drawn by, (rows, N): probabilities with the unlikely ones at 0, the rest summing to 1."""
    ranked, order = logits.sort(dim=-1, descending=True, stable=True)
    # From the likeliest at 0, so that the lowest temperature gives no infinity but what is impossible.
    ranked = (ranked - ranked[:, :1]) / max(config.temperature, torch.finfo(ranked.dtype).tiny)
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
