"""Convert config and tensors of Llama, Qwen3 and Mistral.

Qwen3 normalizes queries and keys. Mistral is a Llama, but a sliding window below its context is not supported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from regard.models.formats import Refusals, Requirement
from regard.models.gpt.config import GPTConfig
from regard.models.gpt.convert_shape import rope_to_hf, shape_from_hf, shape_to_hf
from regard.models.gpt.convert_tensors import OUTPUT, attention_pairs, join_parts, split_parts
from regard.models.tensor_names import Pairs

MODEL_TYPES = {"llama": "LlamaForCausalLM", "qwen3": "Qwen3ForCausalLM", "mistral": "MistralForCausalLM"}
MISTRAL_WINDOW = 4096  # transformers' default
FIXED = {"hidden_act": "silu", "attention_bias": False, "mlp_bias": False, "use_sliding_window": False}
_SHARED = (
    Requirement("positions", "rotary"),
    Requirement("norm", "rms"),
    Requirement("norm_affine", True),
    Requirement("bias", False),
    Requirement("embedding_norm", False),
    Requirement("logit_softcap", None),
    Requirement("num_heads_by_layer", {}),
    Requirement("activation", "swiglu"),
)
REQUIRED: dict[str, tuple[Requirement, ...]] = {
    "llama": (*_SHARED, Requirement("qk_norm", False)),
    "qwen3": (*_SHARED, Requirement("qk_norm", True)),
    "mistral": (*_SHARED, Requirement("qk_norm", False)),
}


def config_from_hf(settings: Mapping[str, Any], refused: Refusals) -> GPTConfig:
    refused.unless(settings, FIXED)
    layers = settings.get("layer_types") or []
    refused.when(any(layer != "full_attention" for layer in layers), "layer_types has values other than full_attention")
    shape = shape_from_hf(settings, refused)
    window = settings.get("sliding_window", MISTRAL_WINDOW) if settings["model_type"] == "mistral" else None
    if window is not None and window < shape["context_length"]:
        refused.when(True, f"sliding_window is {window}, less than max_position_embeddings {shape['context_length']}")
    refused.check()
    return GPTConfig(
        **shape,
        positions="rotary",
        norm="rms",
        norm_affine=True,
        qk_norm=settings["model_type"] == "qwen3",
        activation="swiglu",
        bias=False,
        embedding_norm=False,
    )


def config_to_hf(config: GPTConfig) -> dict[str, Any]:
    # transformers before version 5 expects rope_theta at the top level.
    older: dict[str, Any] = {"rope_theta": config.rope_theta}
    if config.rope_scaling:
        older["rope_scaling"] = rope_to_hf(config)
    return {**shape_to_hf(config), **older, "hidden_act": "silu", "attention_bias": False}


def tensors_from_hf(theirs: Mapping[str, Tensor], config: GPTConfig) -> dict[str, Tensor]:
    return join_parts(theirs, _pairs(config))


def tensors_to_hf(ours: Mapping[str, Tensor], config: GPTConfig) -> dict[str, Tensor]:
    return split_parts(ours, _pairs(config), config)


def _pairs(config: GPTConfig) -> Pairs:
    pairs: list[tuple[str, tuple[str, ...]]] = [("embedding.weight", ("embed_tokens.weight",))]
    for i in range(config.num_layers):
        ours, theirs = f"decoder.{i}", f"layers.{i}"
        pairs += [
            *attention_pairs(i),
            (f"{ours}.self_residual.norm.weight", (f"{theirs}.input_layernorm.weight",)),
            (f"{ours}.feed_forward.up_proj.weight", (f"{theirs}.mlp.gate_proj.weight", f"{theirs}.mlp.up_proj.weight")),
            (f"{ours}.feed_forward.down_proj.weight", (f"{theirs}.mlp.down_proj.weight",)),
            (f"{ours}.feed_forward_residual.norm.weight", (f"{theirs}.post_attention_layernorm.weight",)),
        ]
        if config.qk_norm:
            norms = (f"{theirs}.self_attn.q_norm.weight", f"{theirs}.self_attn.k_norm.weight")
            pairs.append((f"{ours}.self_attention.qk_scale", norms))
    pairs.append(("norm.weight", ("norm.weight",)))
    return [*pairs, *([] if config.tie_embeddings else [("output", (OUTPUT,))])]
