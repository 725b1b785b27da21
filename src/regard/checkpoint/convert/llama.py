"""Config and weights of Llama and of Qwen3, which is a Llama with normalised queries and keys, both ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from regard.checkpoint.convert.joining import OUTPUT, Pairs, attention_pairs, joined, parted
from regard.checkpoint.convert.settings import Refusals, Requirement
from regard.models.gpt_settings import GPTConfig

MODEL_TYPES = {"llama": "LlamaForCausalLM", "qwen3": "Qwen3ForCausalLM"}
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
    Requirement("dropout", 0.0),
)
REQUIRED: dict[str, tuple[Requirement, ...]] = {
    "llama": (*_SHARED, Requirement("normalise_queries_and_keys", False)),
    "qwen3": (*_SHARED, Requirement("normalise_queries_and_keys", True)),
}


def config_from(settings: Mapping[str, Any], refused: Refusals) -> GPTConfig:
    refused.unless(settings, FIXED)
    rope = {**(settings.get("rope_scaling") or {}), **(settings.get("rope_parameters") or {})}
    kind = rope.get("rope_type", rope.get("type", "default"))
    refused.when(kind != "default", f"rope_type is {kind!r}")
    layers = settings.get("layer_types") or []
    refused.when(any(layer != "full_attention" for layer in layers), "layer_types has other than full_attention")
    width, heads = int(settings["hidden_size"]), int(settings["num_attention_heads"])
    refused.check()
    return GPTConfig(
        vocab_size=settings["vocab_size"],
        context=settings.get("max_position_embeddings", 2048),
        layers=settings["num_hidden_layers"],
        width=width,
        hidden=settings["intermediate_size"],
        heads=heads,
        head_width=settings.get("head_dim") or width // heads,
        key_value_heads=settings.get("num_key_value_heads") or heads,
        positions="rotary",
        rotary_base=float(rope.get("rope_theta", settings.get("rope_theta", 10_000.0))),
        norm="rms",
        norm_gains=True,
        norm_epsilon=settings.get("rms_norm_eps", 1e-6),
        normalise_queries_and_keys=settings["model_type"] == "qwen3",
        activation="swiglu",
        bias=False,
        tie_embeddings=settings.get("tie_word_embeddings", False),
        embedding_norm=False,
    )


def settings_from(config: GPTConfig) -> dict[str, Any]:
    fixed = {"hidden_act": "silu", "attention_bias": False}
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
        "rope_theta": config.rotary_base,
        "tie_word_embeddings": config.tie_embeddings,
        **fixed,
    }


def ours_of(theirs: Mapping[str, Tensor], config: GPTConfig) -> dict[str, Tensor]:
    return joined(theirs, _pairs(config), config)


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
