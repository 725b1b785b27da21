"""The shape of a decoder in the words that Llama and its kin and NanoChat have in common, both ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.checkpoint.convert.settings import Refusals, flag, real, whole
from regard.errors import UsageError
from regard.models.gpt_settings import GPTConfig

# What Llama 3.1 calls the settings with which it reads on beyond the context that it was trained on.
SCALING = {
    "factor": "factor",
    "low": "low_freq_factor",
    "high": "high_freq_factor",
    "context": "original_max_position_embeddings",
}


def shape_from(settings: Mapping[str, Any], refused: Refusals) -> dict[str, Any]:
    """Settings of ours: sizes, heads, and how far rotary positions turn, plainly or as in Llama 3.1."""
    rope = {**_part(settings, "rope_scaling"), **_part(settings, "rope_parameters")}
    kind = rope.get("rope_type", rope.get("type", "default"))
    refused.when(kind not in ("default", "llama3"), f"rope_type is {kind!r}")
    width, heads = whole(settings, "hidden_size"), whole(settings, "num_attention_heads")
    head_width = whole(settings, "head_dim", width // heads)
    refused.when(head_width % 2 != 0, f"heads have a width of {head_width}, where rotary positions need an even one")
    return dict(
        vocab_size=whole(settings, "vocab_size"),
        context=whole(settings, "max_position_embeddings", 2048),
        layers=whole(settings, "num_hidden_layers"),
        width=width,
        hidden=whole(settings, "intermediate_size"),
        heads=heads,
        head_width=head_width,
        key_value_heads=whole(settings, "num_key_value_heads", heads),
        rotary_base=real(rope, "rope_theta", real(settings, "rope_theta", 10_000.0)),
        rotary_scaling={ours: real(rope, name) for ours, name in SCALING.items()} if kind == "llama3" else {},
        norm_epsilon=real(settings, "rms_norm_eps", 1e-6),
        tie_embeddings=flag(settings, "tie_word_embeddings", False),
    )


def _part(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = settings.get(name) or {}
    if not isinstance(part, Mapping):
        raise UsageError(f"{name} must be an object with settings of its own, not {part!r}.")
    return part


def rope_settings(config: GPTConfig) -> dict[str, Any]:
    """How rotary positions turn, in their words."""
    scaling = {name: config.rotary_scaling[ours] for ours, name in SCALING.items() if config.rotary_scaling}
    if scaling:
        scaling[SCALING["context"]] = int(scaling[SCALING["context"]])
    return {"rope_type": "llama3" if scaling else "default", "rope_theta": config.rotary_base, **scaling}


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
        "rope_parameters": rope_settings(config),
        "tie_word_embeddings": config.tie_embeddings,
    }
