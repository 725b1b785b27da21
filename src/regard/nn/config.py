"""Options of layers and adapters. Does not import torch, so that configs are checked before torch is loaded."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from regard.utils.config import Config

Activation = Literal["relu", "gelu", "gelu-tanh", "silu", "relu2", "swiglu"]
Layout = Literal["interleaved", "halves"]  # order of sines and cosines
NormKind = Literal["layer", "rms"]
Placement = Literal["pre", "post"]  # of a norm: before each sublayer, or after it as in 2017
PositionKind = Literal["sinusoidal", "learned", "rotary", "none"]


class LoRAConfig(Config):
    """Low-rank adapters for frozen weights (LoRA, Hu et al. 2021)."""

    lora_rank: int = Field(8, ge=1, description="Rank of each adapter.")
    lora_alpha: float = Field(16.0, gt=0, description="Adapters are scaled by lora_alpha / lora_rank.")
    lora_targets: Literal["attention", "all"] = Field(
        "attention", description="Matrices that get an adapter: those of attention, or all."
    )
