"""A text as a language model learns from it: what each position sees, what it has to predict, and its loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from regard.utils.errors import UsageError
from regard.views.causal import CausalTraining


@torch.no_grad()
def causal_training(generator: Any, text: str) -> CausalTraining:
    """Targets and losses of one pass over `text` by a text generator; of a long text, over its first context."""
    ids = generator.tokenizer.encode(text)[: generator.model.config.context_length]
    if len(ids) < 2:
        raise UsageError(
            "a text of fewer than two tokens has nothing to predict: give a longer one.", argument="inputs"
        )
    batch = torch.tensor([ids], device=generator.model.output_weight.device)
    log_probs = generator.model(batch).log_softmax(dim=-1)[0, :-1]
    losses = -log_probs.gather(-1, batch[0, 1:, None])[:, 0]
    allowed = generator.model.mask.dense(len(ids), len(ids), batch.device)
    mask = np.asarray(allowed.expand(1, 1, len(ids), len(ids))[0, 0].cpu(), dtype=bool)
    return CausalTraining(tokens=generator.tokenizer.tokens(ids), mask=mask, losses=losses.tolist())
