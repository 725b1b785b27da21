"""GPT-2's config and weights, both ways. Its matrices are stored (inputs, outputs), ours the other way round."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from regard.checkpoint.convert.settings import Refusals, Requirement, flag, real, whole
from regard.models.gpt_settings import GPTConfig

CLASS, PREFIX = "GPT2LMHeadModel", "transformer."
LEFTOVERS = (".attn.bias", ".attn.masked_bias")  # masks that old versions stored beside the weights
ACTIVATIONS = {
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "gelu": "gelu",
    "relu": "relu",
    "silu": "silu",
}
# Theirs: what a setting must be for this architecture, if it is there.
FIXED = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "reorder_and_upcast_attn": False,
    "add_cross_attention": False,
}
# Ours: what it takes to be a GPT-2.
REQUIRED: tuple[Requirement, ...] = (
    Requirement("positions", "learned"),
    Requirement("norm", "layer"),
    Requirement("norm_gains", True),
    Requirement("bias", True),
    Requirement("normalise_queries_and_keys", False),
    Requirement("embedding_norm", False),
    Requirement("key_value_heads", None),
    Requirement("logit_cap", None),
    Requirement("heads_at", {}),
    Requirement("activation", *dict.fromkeys(ACTIVATIONS.values())),
)
_MATRICES = {
    "attn.c_attn": "self_attention.query_key_value",
    "attn.c_proj": "self_attention.output",
    "mlp.c_fc": "feed_forward.widen",
    "mlp.c_proj": "feed_forward.narrow",
}
_NORMS = {"ln_1": "self_residual.norm", "ln_2": "feed_forward_residual.norm"}


def config_from(settings: Mapping[str, Any], refused: Refusals) -> GPTConfig:
    refused.unless(settings, FIXED)
    width, heads = whole(settings, "n_embd"), whole(settings, "n_head")
    refused.when(width % heads != 0, f"n_embd {width} is not a multiple of n_head {heads}")
    activation = settings.get("activation_function", "gelu_new")
    refused.when(activation not in ACTIVATIONS, f"activation_function {activation!r}")
    refused.check()
    return GPTConfig(
        vocab_size=whole(settings, "vocab_size"),
        context=whole(settings, "n_positions", 1024),
        layers=whole(settings, "n_layer"),
        width=width,
        hidden=whole(settings, "n_inner", 4 * width),
        heads=heads,
        head_width=width // heads,
        positions="learned",
        norm="layer",
        norm_gains=True,
        norm_epsilon=real(settings, "layer_norm_epsilon", 1e-5),
        normalise_queries_and_keys=False,
        activation=ACTIVATIONS[activation],  # type: ignore[arg-type]
        bias=True,
        tie_embeddings=flag(settings, "tie_word_embeddings", True),
        embedding_norm=False,
        dropout=real(settings, "resid_pdrop", 0.1),
    )


def settings_from(config: GPTConfig) -> dict[str, Any]:
    theirs = {ours: name for name, ours in reversed(ACTIVATIONS.items())}
    return {
        "vocab_size": config.vocab_size,
        "n_positions": config.context,
        "n_layer": config.layers,
        "n_embd": config.width,
        "n_inner": config.hidden,
        "n_head": config.heads,
        "layer_norm_epsilon": config.norm_epsilon,
        "activation_function": theirs[config.activation],
        "tie_word_embeddings": config.tie_embeddings,
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "attn_pdrop": 0.0,
        **FIXED,
    }


def ours_of(theirs: Mapping[str, Tensor], config: GPTConfig) -> dict[str, Tensor]:
    return {ours_name(name): t.T if _is_matrix(name) else t for name, t in theirs.items()}


def theirs_of(ours: Mapping[str, Tensor], config: GPTConfig) -> dict[str, Tensor]:
    names = {ours_name(name): name for name in their_names(config)}
    return {
        PREFIX + names[name] if names[name] != "lm_head.weight" else names[name]: (
            tensor.T.contiguous() if _is_matrix(names[name]) else tensor
        )
        for name, tensor in ours.items()
    }


def their_names(config: GPTConfig) -> list[str]:
    parts = [f"{part}.{kind}" for part in (*_MATRICES, *_NORMS) for kind in ("weight", "bias")]
    blocks = [f"h.{i}.{part}" for i in range(config.layers) for part in parts]
    return ["wte.weight", "wpe.weight", *blocks, "ln_f.weight", "ln_f.bias", "lm_head.weight"]


def ours_name(name: str) -> str:
    """GPT-2's name of a tensor → ours."""
    whole = {"wte.weight": "embedding.weight", "wpe.weight": "embedding.positions.weight", "lm_head.weight": "output"}
    if name in whole:
        return whole[name]
    norm = {"weight": "scale", "bias": "shift"}
    if name.startswith("ln_f."):
        return f"norm.{norm.get(name[5:], name[5:])}"
    stem, _, kind = name.rpartition(".")
    _, _, rest = stem.partition("h.")
    number, _, part = rest.partition(".")
    if part in _MATRICES:
        return f"decoder.{number}.{_MATRICES[part]}.{kind}"
    if part in _NORMS and kind in norm:
        return f"decoder.{number}.{_NORMS[part]}.{norm[kind]}"
    return name


def _is_matrix(name: str) -> bool:
    return name.endswith(tuple(f"{part}.weight" for part in _MATRICES))
