"""Convert the settings that Llama, Qwen3, Mistral and NanoChat share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.models.formats import Refusals, flag, real, whole
from regard.models.gpt.config import SCALING_KEYS, GPTConfig
from regard.utils.errors import UsageError


def shape_from_hf(settings: Mapping[str, Any], refused: Refusals) -> dict[str, Any]:
    """Return our config fields for sizes, heads and rotary positions, including the scaling of Llama 3.1."""
    rope = {**_part(settings, "rope_scaling"), **_part(settings, "rope_parameters")}
    kind = rope.get("rope_type", rope.get("type", "default"))
    refused.when(kind not in ("default", "llama3"), f"rope_type is {kind!r}")
    width, heads = whole(settings, "hidden_size"), whole(settings, "num_attention_heads")
    head_dim = whole(settings, "head_dim", width // heads)
    refused.when(head_dim % 2 != 0, f"head_dim is {head_dim}, but rotary positions need an even head_dim")
    return dict(
        vocab_size=whole(settings, "vocab_size"),
        context_length=whole(settings, "max_position_embeddings", 2048),
        num_layers=whole(settings, "num_hidden_layers"),
        d_model=width,
        d_ff=whole(settings, "intermediate_size"),
        num_heads=heads,
        head_dim=head_dim,
        num_kv_heads=whole(settings, "num_key_value_heads", heads),
        rope_theta=real(rope, "rope_theta", real(settings, "rope_theta", 10_000.0)),
        rope_scaling={name: real(rope, name) for name in SCALING_KEYS} if kind == "llama3" else {},
        norm_eps=real(settings, "rms_norm_eps", 1e-6),
        tie_embeddings=flag(settings, "tie_word_embeddings", False),
    )


def _part(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = settings.get(name) or {}
    if not isinstance(part, Mapping):
        raise UsageError(f"{name} must be a JSON object, got {part!r}.")
    return part


def rope_to_hf(config: GPTConfig) -> dict[str, Any]:
    """Return `rope_parameters` for their config."""
    scaling: dict[str, Any] = dict(config.rope_scaling)
    if scaling:
        last = SCALING_KEYS[-1]
        scaling[last] = int(scaling[last])
    return {"rope_type": "llama3" if scaling else "default", "rope_theta": config.rope_theta, **scaling}


def shape_to_hf(config: GPTConfig) -> dict[str, Any]:
    """Return the same fields for their config."""
    return {
        "vocab_size": config.vocab_size,
        "max_position_embeddings": config.context_length,
        "num_hidden_layers": config.num_layers,
        "hidden_size": config.d_model,
        "intermediate_size": config.d_ff,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_kv_heads or config.num_heads,
        "head_dim": config.head_dim,
        "rms_norm_eps": config.norm_eps,
        "rope_parameters": rope_to_hf(config),
        "tie_word_embeddings": config.tie_embeddings,
    }
