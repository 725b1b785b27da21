"""The view `contributions`: how much each token of a text speaks for each label of a bag of words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from regard.views.tokens import TokenColumn, tokens_view
from regard.views.view import View


@torch.inference_mode()
def contributions(predictor: Any, inputs: Sequence[Any], config: None) -> View:
    """The tokens of a text for each label, those that speak most for it first."""
    ids, model = predictor.encode_input(inputs[0]).ids, predictor.model
    scores = model.head(model.embedding(torch.tensor(ids))) / len(ids)  # (T, labels); their sum is the logits
    tokens = predictor.tokenizer.tokens(ids)
    columns, numbers = [], {}
    for label, values in zip(predictor.head.labels, scores.T.tolist(), strict=True):
        order = sorted(range(len(ids)), key=lambda place: -values[place])
        ranked = [(tokens[place], tokens[place], ids[place]) for place in order]
        columns.append(TokenColumn(name=label, tokens=ranked))
        numbers[label] = [[tokens[place], values[place]] for place in order]
    return replace(tokens_view(columns, title=inputs[0]), numbers=lambda: {"contributions": numbers})
