"""A text as a language model learns from it: who sees whom, what is to be guessed where, and how well it is."""

from __future__ import annotations

import numpy as np
import torch

from regard.errors import UsageError
from regard.tasks.generate import Writer
from regard.tasks.translate import Translator
from regard.views.causal import CausalTraining


@torch.no_grad()
def causal_training(writer: Writer | Translator, text: str) -> CausalTraining:
    """The exercises of one pass over `text`; of a long one, those of its first context."""
    if not isinstance(writer, Writer):
        raise UsageError("what each position has to guess is drawn for language models: `regard train generate`.")
    ids = writer.tokenizer.encode(text)[: writer.model.config.context]
    if len(ids) < 2:
        raise UsageError("there is nothing to guess in a text of fewer than two tokens: give a longer one.")
    read = torch.tensor([ids], device=writer.model.output_weight.device)
    log_probs = writer.model(read).log_softmax(dim=-1)[0, :-1]
    losses = -log_probs.gather(-1, read[0, 1:, None])[:, 0]
    keep = writer.model.keep.dense(len(ids), len(ids), read.device)
    mask = np.asarray(keep.expand(1, 1, len(ids), len(ids))[0, 0].cpu(), dtype=bool)
    return CausalTraining(tokens=writer.tokenizer.tokens(ids), keep=mask, losses=losses.tolist())
