"""NanoChat's config and weights, both ways: the class of `transformers` for what is trained here by default.

Its rotary positions turn the other way round. Exchanging the halves of every query and key is the same as turning
back, so the rows of these projections change places.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from regard.checkpoint.convert.joining import OUTPUT, Pairs, attention_pairs, join, parted
from regard.checkpoint.convert.settings import Refusals, Requirement, real
from regard.checkpoint.convert.shapes import shape_from, shape_settings
from regard.models.gpt_settings import GPTConfig

CLASS = "NanoChatForCausalLM"
FIXED = {"hidden_act": "relu2", "attention_bias": False}
REQUIRED: tuple[Requirement, ...] = (
    Requirement("positions", "rotary"),
    Requirement("norm", "rms"),
    Requirement("norm_gains", False),
    Requirement("bias", False),
    Requirement("normalise_queries_and_keys", True),
    Requirement("embedding_norm", True),
    Requirement("heads_at", {}),
    Requirement("activation", "relu2"),
)


def config_from(settings: Mapping[str, Any], refused: Refusals) -> GPTConfig:
    refused.unless(settings, FIXED)
    shape = shape_from(settings, refused)
    refused.check()
    uncapped = settings.get("final_logit_softcapping", 15.0) is None
    return GPTConfig(**shape, logit_cap=None if uncapped else real(settings, "final_logit_softcapping", 15.0))


def settings_from(config: GPTConfig) -> dict[str, Any]:
    return {
        **shape_settings(config),
        "final_logit_softcapping": config.logit_cap,
        "attention_dropout": 0.0,
        **FIXED,
    }


def ours_of(theirs: Mapping[str, Tensor], config: GPTConfig) -> dict[str, Tensor]:
    return _exchanged(join(theirs, _pairs(config)), config)


def theirs_of(ours: Mapping[str, Tensor], config: GPTConfig) -> dict[str, Tensor]:
    return parted(_exchanged(ours, config), _pairs(config), config)


def _pairs(config: GPTConfig) -> Pairs:
    pairs: list[tuple[str, tuple[str, ...]]] = [("embedding.weight", ("embed_tokens.weight",))]
    for i in range(config.layers):
        ours, theirs = f"decoder.{i}.feed_forward", f"layers.{i}.mlp"
        pairs += [
            *attention_pairs(i),
            (f"{ours}.widen.weight", (f"{theirs}.fc1.weight",)),
            (f"{ours}.narrow.weight", (f"{theirs}.fc2.weight",)),
        ]
    return [*pairs, *([] if config.tie_embeddings else [("output", (OUTPUT,))])]


def _exchanged(tensors: Mapping[str, Tensor], config: GPTConfig) -> dict[str, Tensor]:
    """The same tensors, in which the rows of every head of queries and keys have their halves in the other order."""
    turned = (config.heads + (config.key_value_heads or config.heads)) * config.head_width
    found = dict(tensors)
    for name, weight in tensors.items():
        if name.endswith("query_key_value.weight"):
            halves = weight[:turned].unflatten(0, (-1, 2, config.head_width // 2))  # type: ignore[no-untyped-call]
            found[name] = torch.cat((halves.flip(1).flatten(0, 2), weight[turned:]))
    return found
