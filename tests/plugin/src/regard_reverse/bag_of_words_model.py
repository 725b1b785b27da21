"""The module of the bag of words."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.models.heads import HeadConfig
from regard_reverse.bag_of_words import BagOfWordsConfig


class BagOfWords(nn.Module):
    """ids → logits of the labels."""

    def __init__(self, config: BagOfWordsConfig, num_outputs: int) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.head = nn.Linear(config.d_model, num_outputs)

    def forward(self, ids: Tensor, lengths: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        vectors = self.embedding(ids)  # (B, T, D)
        if lengths is None:
            return self.head(vectors.mean(dim=1))
        is_token = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]  # (B, T)
        return self.head((vectors * is_token[..., None]).sum(dim=1) / lengths[:, None])


def build(config: BagOfWordsConfig, head: HeadConfig | None = None) -> BagOfWords:
    return BagOfWords(config, len(head.labels) if head is not None and head.labels else 2)
