"""The shape of a decoder in the words that Llama, Qwen3 and NanoChat have in common, both ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.checkpoint.convert.settings import Refusals
from regard.models.gpt_settings import GPTConfig


def shape_from(settings: Mapping[str, Any], refused: Refusals) -> dict[str, Any]:
    """Settings of ours: sizes, heads, and how far rotary positions turn. Plain rotary positions only."""
    rope = {**(settings.get("rope_scaling") or {}), **(settings.get("rope_parameters") or {})}
    kind = rope.get("rope_type", rope.get("type", "default"))
    refused.when(kind != "default", f"rope_type is {kind!r}")
    width, heads = int(settings["hidden_size"]), int(settings["num_attention_heads"])
    return dict(
        vocab_size=settings["vocab_size"],
        context=settings.get("max_position_embeddings", 2048),
        layers=settings["num_hidden_layers"],
        width=width,
        hidden=settings["intermediate_size"],
        heads=heads,
        head_width=settings.get("head_dim") or width // heads,
        key_value_heads=settings.get("num_key_value_heads") or heads,
        rotary_base=float(rope.get("rope_theta", settings.get("rope_theta", 10_000.0))),
        norm_epsilon=settings.get("rms_norm_eps", 1e-6),
        tie_embeddings=settings.get("tie_word_embeddings", False),
    )


def shape_settings(config: GPTConfig) -> dict[str, Any]:
    """The same in their words."""
    return {
        "vocab_size": config.vocab_size,
        "max_position_embeddings": config.context,
        "num_hidden_layers": config.layers,
        "hidden_size": config.width,
        "intermediate_size": config.hidden,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.key_value_heads or config.heads,
        "head_dim": config.head_width,
        "rms_norm_eps": config.norm_epsilon,
        "rope_parameters": {"rope_type": "default", "rope_theta": config.rotary_base},
        "tie_word_embeddings": config.tie_embeddings,
    }
