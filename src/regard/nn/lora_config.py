"""Options of LoRA adapters. Does not import torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from regard.utils.config import Config


class LoRAConfig(Config):
    """Low-rank adapters beside frozen weights (Hu et al. 2021)."""

    lora_rank: int = Field(8, ge=1, description="Rank of each adapter.")
    lora_alpha: float = Field(16.0, gt=0, description="Adapters are scaled by lora_alpha / lora_rank.")
    lora_targets: Literal["attention", "all"] = Field("attention", description="Matrices with an adapter.")
