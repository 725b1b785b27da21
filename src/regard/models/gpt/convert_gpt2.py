"""Convert config and tensors of GPT-2. It stores matrices as (inputs, outputs), regard as (outputs, inputs)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from regard.models.formats import Refusals, Requirement, flag, real, whole
from regard.models.gpt.config import GPTConfig

CLASS, PREFIX = "GPT2LMHeadModel", "transformer."
LEFTOVERS = (".attn.bias", ".attn.masked_bias")  # mask buffers in files from old versions
ACTIVATIONS = {
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "gelu": "gelu",
    "relu": "relu",
    "silu": "silu",
}
# Settings in their config.json for which regard supports only this value. They may be missing.
FIXED = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "reorder_and_upcast_attn": False,
    "add_cross_attention": False,
}
# The values of our settings that GPT-2 supports.
REQUIRED: tuple[Requirement, ...] = (
    Requirement("positions", "learned"),
    Requirement("norm", "layer"),
    Requirement("norm_affine", True),
    Requirement("bias", True),
    Requirement("qk_norm", False),
    Requirement("embedding_norm", False),
    Requirement("num_kv_heads", None),
    Requirement("logit_softcap", None),
    Requirement("num_heads_by_layer", {}),
    Requirement("activation", *dict.fromkeys(ACTIVATIONS.values())),
)
_MATRICES = {
    "attn.c_attn": "self_attention.qkv_proj",
    "attn.c_proj": "self_attention.out_proj",
    "mlp.c_fc": "feed_forward.up_proj",
    "mlp.c_proj": "feed_forward.down_proj",
}
_NORMS = {"ln_1": "self_residual.norm", "ln_2": "feed_forward_residual.norm"}


def config_from_hf(settings: Mapping[str, Any], refused: Refusals) -> GPTConfig:
    refused.unless(settings, FIXED)
    width, heads = whole(settings, "n_embd"), whole(settings, "n_head")
    refused.when(width % heads != 0, f"n_embd {width} is not a multiple of n_head {heads}")
    activation = settings.get("activation_function", "gelu_new")
    refused.when(activation not in ACTIVATIONS, f"activation_function {activation!r}")
    refused.check()
    return GPTConfig(
        vocab_size=whole(settings, "vocab_size"),
        context_length=whole(settings, "n_positions", 1024),
        num_layers=whole(settings, "n_layer"),
        d_model=width,
        d_ff=whole(settings, "n_inner", 4 * width),
        num_heads=heads,
        head_dim=width // heads,
        positions="learned",
        norm="layer",
        norm_affine=True,
        norm_eps=real(settings, "layer_norm_epsilon", 1e-5),
        qk_norm=False,
        activation=ACTIVATIONS[activation],
        bias=True,
        tie_embeddings=flag(settings, "tie_word_embeddings", True),
        embedding_norm=False,
        dropout=real(settings, "resid_pdrop", 0.1),
    )


def config_to_hf(config: GPTConfig) -> dict[str, Any]:
    theirs = {ours: name for name, ours in reversed(ACTIVATIONS.items())}
    return {
        "vocab_size": config.vocab_size,
        "n_positions": config.context_length,
        "n_layer": config.num_layers,
        "n_embd": config.d_model,
        "n_inner": config.d_ff,
        "n_head": config.num_heads,
        "layer_norm_epsilon": config.norm_eps,
        "activation_function": theirs[config.activation],
        "tie_word_embeddings": config.tie_embeddings,
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "attn_pdrop": 0.0,
        **FIXED,
    }


def tensors_from_hf(theirs: Mapping[str, Tensor], config: GPTConfig) -> dict[str, Tensor]:
    return {ours_name(name): t.T if _is_matrix(name) else t for name, t in theirs.items()}


def tensors_to_hf(ours: Mapping[str, Tensor], config: GPTConfig) -> dict[str, Tensor]:
    names = {ours_name(name): name for name in their_names(config)}
    return {
        PREFIX + names[name] if names[name] != "lm_head.weight" else names[name]: (
            tensor.T if _is_matrix(names[name]) else tensor
        )
        for name, tensor in ours.items()
    }


def their_names(config: GPTConfig) -> list[str]:
    parts = [f"{part}.{kind}" for part in (*_MATRICES, *_NORMS) for kind in ("weight", "bias")]
    blocks = [f"h.{i}.{part}" for i in range(config.num_layers) for part in parts]
    return ["wte.weight", "wpe.weight", *blocks, "ln_f.weight", "ln_f.bias", "lm_head.weight"]


def ours_name(name: str) -> str:
    """Return the name in regard for the name of a GPT-2 tensor."""
    top_level = {
        "wte.weight": "embedding.weight",
        "wpe.weight": "embedding.positions.weight",
        "lm_head.weight": "output",
    }
    if name in top_level:
        return top_level[name]
    norm = ("weight", "bias")
    if name.startswith("ln_f."):
        return f"norm.{name[5:]}"
    stem, _, kind = name.rpartition(".")
    _, _, rest = stem.partition("h.")
    number, _, part = rest.partition(".")
    if part in _MATRICES:
        return f"decoder.{number}.{_MATRICES[part]}.{kind}"
    if part in _NORMS and kind in norm:
        return f"decoder.{number}.{_NORMS[part]}.{kind}"
    return name


def _is_matrix(name: str) -> bool:
    return name.endswith(tuple(f"{part}.weight" for part in _MATRICES))
