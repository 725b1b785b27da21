"""What enters a BERT: for every token the vectors of its piece, its segment and its position, their sum, and that
normalised, as the first block sees it."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from regard.tasks.embed import Embedder, WithEncoder
from regard.tasks.labelling import as_inputs
from regard.views.inputs import InputSums, inputs_view
from regard.views.view import View


@torch.inference_mode()
def input_sums(model: Embedder | WithEncoder, text: str | tuple[str, str]) -> InputSums:
    """The vectors of all tokens of a text, or of two that stand side by side."""
    embedder = model if isinstance(model, Embedder) else model.embedder
    tables, row = embedder.bert.embedding, embedder.row(text)
    ids, _, segments = as_inputs([row], embedder.tokenizer.pad_id, tables.weight.device)
    of_text = torch.zeros_like(ids) if segments is None else segments
    tokens, belongs = F.embedding(ids[0], tables.weight), tables.segments(of_text[0])
    places = F.embedding(torch.arange(ids.shape[1], device=ids.device), tables.positions.weight)
    total = tokens + belongs + places
    normalised = tables.norm(total)
    arrays = (part.float().cpu().numpy() for part in (tokens, belongs, places, total, normalised))
    return InputSums(embedder.tokenizer.tokens(row.ids), row.ids, of_text[0].tolist(), *arrays)


def input_view(model: Embedder | WithEncoder, text: str | tuple[str, str]) -> View:
    """A view of what enters a BERT."""
    return inputs_view(input_sums(model, text), title=title_of(text))


def title_of(text: str | tuple[str, str]) -> str:
    return text if isinstance(text, str) else " / ".join(text)
