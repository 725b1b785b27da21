"""The base config of all architectures. Does not import torch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Self

from pydantic import Field, model_validator

from regard.utils.config import Config
from regard.utils.errors import UsageError, unknown


class AttentionModelConfig(Config):
    """A model with attention: head counts may differ from layer to layer, as in a pruned model."""

    num_heads_by_layer: Mapping[str, int] = Field(
        default_factory=dict, description='Other head counts, by address: {"decoder.2.self": 3}.'
    )

    @property
    @abstractmethod
    def attentions(self) -> tuple[str, ...]:
        """The address of every attention, in the order of the forward pass."""

    @model_validator(mode="after")
    def _known_addresses(self) -> Self:
        for address, num_heads in self.num_heads_by_layer.items():
            if address not in self.attentions:
                raise unknown("address in num_heads_by_layer", address, self.attentions)
            if num_heads < 1:
                raise UsageError(
                    f"num_heads_by_layer needs at least 1 head at {address}, not {num_heads}.",
                    argument="num_heads_by_layer",
                    value=num_heads,
                )
        return self
