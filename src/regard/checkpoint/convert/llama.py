"""Config and weights of Llama and its kin, both ways: Qwen3 normalises queries and keys, Mistral is a Llama by name.

A Mistral that looks back less far than its context is not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from regard.checkpoint.convert.joining import OUTPUT, Pairs, attention_pairs, join, parted
from regard.checkpoint.convert.settings import Refusals, Requirement
from regard.checkpoint.convert.shapes import rope_settings, shape_from, shape_settings
from regard.models.gpt_settings import GPTConfig

MODEL_TYPES = {"llama": "LlamaForCausalLM", "qwen3": "Qwen3ForCausalLM", "mistral": "MistralForCausalLM"}
MISTRAL_WINDOW = 4096  # where a config does not say
FIXED = {"hidden_act": "silu", "attention_bias": False, "mlp_bias": False, "use_sliding_window": False}
_SHARED = (
    Requirement("positions", "rotary"),
    Requirement("norm", "rms"),
    Requirement("norm_gains", True),
    Requirement("bias", False),
    Requirement("embedding_norm", False),
    Requirement("logit_cap", None),
    Requirement("heads_at", {}),
    Requirement("activation", "swiglu"),
)
REQUIRED: dict[str, tuple[Requirement, ...]] = {
    "llama": (*_SHARED, Requirement("normalise_queries_and_keys", False)),
    "qwen3": (*_SHARED, Requirement("normalise_queries_and_keys", True)),
    "mistral": (*_SHARED, Requirement("normalise_queries_and_keys", False)),
}


def config_from(settings: Mapping[str, Any], refused: Refusals) -> GPTConfig:
    refused.unless(settings, FIXED)
    layers = settings.get("layer_types") or []
    refused.when(any(layer != "full_attention" for layer in layers), "layer_types has other than full_attention")
    shape = shape_from(settings, refused)
    window = settings.get("sliding_window", MISTRAL_WINDOW) if settings["model_type"] == "mistral" else None
    if window is not None and window < shape["context"]:
        refused.when(True, f"sliding_window is {window} and less than the context of {shape['context']}")
    refused.check()
    return GPTConfig(
        **shape,
        positions="rotary",
        norm="rms",
        norm_gains=True,
        normalise_queries_and_keys=settings["model_type"] == "qwen3",
        activation="swiglu",
        bias=False,
        embedding_norm=False,
    )


def settings_from(config: GPTConfig) -> dict[str, Any]:
    # Versions of transformers before 5 read the base of the rotary positions beside the rest.
    older: dict[str, Any] = {"rope_theta": config.rotary_base}
    if config.rotary_scaling:
        older["rope_scaling"] = rope_settings(config)
    return {**shape_settings(config), **older, "hidden_act": "silu", "attention_bias": False}


def ours_of(theirs: Mapping[str, Tensor], config: GPTConfig) -> dict[str, Tensor]:
    return join(theirs, _pairs(config))


def theirs_of(ours: Mapping[str, Tensor], config: GPTConfig) -> dict[str, Tensor]:
    return parted(ours, _pairs(config), config)


def _pairs(config: GPTConfig) -> Pairs:
    pairs: list[tuple[str, tuple[str, ...]]] = [("embedding.weight", ("embed_tokens.weight",))]
    for i in range(config.layers):
        ours, theirs = f"decoder.{i}", f"layers.{i}"
        pairs += [
            *attention_pairs(i),
            (f"{ours}.self_residual.norm.scale", (f"{theirs}.input_layernorm.weight",)),
            (f"{ours}.feed_forward.widen.weight", (f"{theirs}.mlp.gate_proj.weight", f"{theirs}.mlp.up_proj.weight")),
            (f"{ours}.feed_forward.narrow.weight", (f"{theirs}.mlp.down_proj.weight",)),
            (f"{ours}.feed_forward_residual.norm.scale", (f"{theirs}.post_attention_layernorm.weight",)),
        ]
        if config.normalise_queries_and_keys:
            norms = (f"{theirs}.self_attn.q_norm.weight", f"{theirs}.self_attn.k_norm.weight")
            pairs.append((f"{ours}.self_attention.gains", norms))
    pairs.append(("norm.scale", ("norm.weight",)))
    return [*pairs, *([] if config.tie_embeddings else [("output", (OUTPUT,))])]
