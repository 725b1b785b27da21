"""NanoChat's config and weights, both ways: the class of `transformers` for what is trained here by default.

Its rotary positions turn the other way round. Exchanging the halves of every query and key is the same as turning
back, so the rows of these projections change places.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from regard.checkpoint.convert.joining import OUTPUT, Pairs, attention_pairs, joined, parted
from regard.checkpoint.convert.settings import Refusals, Requirement
from regard.models.gpt_settings import GPTConfig

MODEL_TYPE, CLASS = "nanochat", "NanoChatForCausalLM"
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
    Requirement("dropout", 0.0),
)


def config_from(settings: Mapping[str, Any], refused: Refusals) -> GPTConfig:
    refused.unless(settings, FIXED)
    rope = settings.get("rope_parameters") or {}
    refused.when(rope.get("rope_type", "default") != "default", f"rope_type is {rope.get('rope_type')!r}")
    width, heads = int(settings["hidden_size"]), int(settings["num_attention_heads"])
    refused.check()
    return GPTConfig(
        vocab_size=settings["vocab_size"],
        context=settings.get("max_position_embeddings", 2048),
        layers=settings["num_hidden_layers"],
        width=width,
        hidden=settings["intermediate_size"],
        heads=heads,
        head_width=width // heads,
        key_value_heads=settings.get("num_key_value_heads") or heads,
        rotary_base=float(rope.get("rope_theta", settings.get("rope_theta", 10_000.0))),
        norm_epsilon=settings.get("rms_norm_eps", 1e-6),
        tie_embeddings=settings.get("tie_word_embeddings", False),
        logit_cap=settings.get("final_logit_softcapping", 15.0),
    )


def settings_from(config: GPTConfig) -> dict[str, Any]:
    return {
        "vocab_size": config.vocab_size,
        "max_position_embeddings": config.context,
        "num_hidden_layers": config.layers,
        "hidden_size": config.width,
        "intermediate_size": config.hidden,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.key_value_heads or config.heads,
        "rms_norm_eps": config.norm_epsilon,
        "rope_parameters": {"rope_type": "default", "rope_theta": config.rotary_base},
        "tie_word_embeddings": config.tie_embeddings,
        "final_logit_softcapping": config.logit_cap,
        "attention_dropout": 0.0,
        **FIXED,
    }


def ours_of(theirs: Mapping[str, Tensor], config: GPTConfig) -> dict[str, Tensor]:
    return _exchanged(joined(theirs, _pairs(config), config), config)


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
