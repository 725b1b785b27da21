"""Convert config and tensors of NanoChat, the `transformers` class that matches regard's default GPT.

Its rotary positions rotate in the opposite direction. Swapping the halves of every query and key cancels this, so the
conversion permutes the rows of these projections.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from regard.models.formats import Refusals, Requirement, real
from regard.models.gpt.config import GPTConfig
from regard.models.gpt.convert_shape import shape_from_hf, shape_to_hf
from regard.models.gpt.convert_tensors import OUTPUT, attention_pairs, join_parts, split_parts
from regard.models.tensor_names import Pairs
from regard.nn.init import is_placeholder

CLASS = "NanoChatForCausalLM"
FIXED = {"hidden_act": "relu2", "attention_bias": False}
REQUIRED: tuple[Requirement, ...] = (
    Requirement("positions", "rotary"),
    Requirement("norm", "rms"),
    Requirement("norm_affine", False),
    Requirement("bias", False),
    Requirement("qk_norm", True),
    Requirement("embedding_norm", True),
    Requirement("num_heads_by_layer", {}),
    Requirement("activation", "relu2"),
)


def config_from_hf(settings: Mapping[str, Any], refused: Refusals) -> GPTConfig:
    refused.unless(settings, FIXED)
    shape = shape_from_hf(settings, refused)
    refused.check()
    uncapped = settings.get("final_logit_softcapping", 15.0) is None
    return GPTConfig(**shape, logit_softcap=None if uncapped else real(settings, "final_logit_softcapping", 15.0))


def config_to_hf(config: GPTConfig) -> dict[str, Any]:
    return {
        **shape_to_hf(config),
        "final_logit_softcapping": config.logit_softcap,
        "attention_dropout": 0.0,
        **FIXED,
    }


def tensors_from_hf(theirs: Mapping[str, Tensor], config: GPTConfig) -> dict[str, Tensor]:
    return _swap_qk_halves(join_parts(theirs, _pairs(config)), config)


def tensors_to_hf(ours: Mapping[str, Tensor], config: GPTConfig) -> dict[str, Tensor]:
    return split_parts(_swap_qk_halves(ours, config), _pairs(config), config)


def _pairs(config: GPTConfig) -> Pairs:
    pairs: list[tuple[str, tuple[str, ...]]] = [("embedding.weight", ("embed_tokens.weight",))]
    for i in range(config.num_layers):
        ours, theirs = f"decoder.{i}.feed_forward", f"layers.{i}.mlp"
        pairs += [
            *attention_pairs(i),
            (f"{ours}.up_proj.weight", (f"{theirs}.fc1.weight",)),
            (f"{ours}.down_proj.weight", (f"{theirs}.fc2.weight",)),
        ]
    return [*pairs, *([] if config.tie_embeddings else [("output", (OUTPUT,))])]


def _swap_qk_halves(tensors: Mapping[str, Tensor], config: GPTConfig) -> dict[str, Tensor]:
    """Swap the first and second half of the rows of every query and key head."""
    qk_rows = (config.num_heads + (config.num_kv_heads or config.num_heads)) * config.head_dim
    swapped = dict(tensors)
    for name, weight in tensors.items():
        if name.endswith("qkv_proj.weight") and not is_placeholder(weight):
            halves = weight[:qk_rows].unflatten(0, (-1, 2, config.head_dim // 2))  # type: ignore[no-untyped-call]
            swapped[name] = torch.cat((halves.flip(1).flatten(0, 2), weight[qk_rows:]))
    return swapped
