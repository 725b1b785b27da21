"""What enters an encoder: for every token its token, type and position vectors, their sum, and the normalized sum."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from regard.tasks.encoder.batching import collate
from regard.tasks.encoder.predictor import EncoderPredictor
from regard.views.inputs import InputSums


@torch.inference_mode()
def input_sums(predictor: EncoderPredictor[Any], text: str | tuple[str, str]) -> InputSums:
    """The vectors of all tokens of a text, or of two texts side by side."""
    tables, example = predictor.bert.embedding, predictor.encode_input(text)
    ids, _, type_ids = collate([example], predictor.tokenizer.pad_id, tables.weight.device)
    types = torch.zeros_like(ids) if type_ids is None else type_ids
    tokens, kinds = F.embedding(ids[0], tables.weight), tables.token_types(types[0])
    positions = F.embedding(torch.arange(ids.shape[1], device=ids.device), tables.positions.weight)
    total = tokens + kinds + positions
    arrays = (part.float().cpu().numpy() for part in (tokens, kinds, positions, total, tables.norm(total)))
    return InputSums(predictor.tokenizer.tokens(example.ids), example.ids, types[0].tolist(), *arrays)
