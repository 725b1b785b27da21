"""Base config for architectures with attention. Does not import torch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Self

from pydantic import Field, model_validator

from regard.utils.config import Config
from regard.utils.errors import UsageError, unknown


class AttentionModelConfig(Config):
    """Config of a model with attention. Layers may have different head counts, as in a pruned model."""

    num_heads_by_layer: Mapping[str, int] = Field(
        default_factory=dict,
        description='Head counts of attention layers that differ from num_heads, such as {"decoder.2.self": 3}.',
    )

    @property
    @abstractmethod
    def attentions(self) -> tuple[str, ...]:
        """Addresses of all attention layers, in forward-pass order."""

    @model_validator(mode="after")
    def _known_addresses(self) -> Self:
        for address, num_heads in self.num_heads_by_layer.items():
            if address not in self.attentions:
                error = unknown("address in num_heads_by_layer", address, self.attentions)
                error.argument = "num_heads_by_layer"
                raise error
            if num_heads < 1:
                message = f"num_heads_by_layer must give {address} at least 1 head, got {num_heads}."
                raise UsageError(message, argument="num_heads_by_layer", value=num_heads)
        return self
