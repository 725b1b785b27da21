"""Convert config and tensors of GPT-2, Llama, Qwen3, Mistral and NanoChat.

- GPT-2 stores matrices as (inputs, outputs), regard as (outputs, inputs).
- Qwen3 is a Llama that normalizes queries and keys. Mistral is a Llama; a sliding window below its context is not
  supported.
- NanoChat matches regard's default GPT, but its rotary positions rotate in the opposite direction. Swapping the halves
  of every query and key cancels this.

`convert.py` converts tokenizers and other files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.models import formats
from regard.models.formats import ACTIVATIONS, OUR_ACTIVATIONS, Setting, UnsupportedSettings
from regard.models.gpt.config import SCALING_KEYS, GPTConfig
from regard.models.gpt.model import GPT
from regard.nn.init import empty_weights, is_placeholder
from regard.nn.state_dict import check_fit, unique_tensors
from regard.utils.errors import UsageError

OUTPUT = "lm_head.weight"
ROPE_TYPES = ("default", "llama3")
MISTRAL_WINDOW = 4096  # transformers' default


@dataclass(frozen=True, kw_only=True)
class ModelType:
    """Conversion of config and tensors for one model type of `transformers`."""

    name: str
    class_name: str
    fixed: Mapping[str, Any]  # their settings for which regard supports only this value; may be missing
    required: Mapping[str, Any]  # values of our settings that the class supports; a tuple lists several values
    # Returns our other settings.
    read_config: Callable[[Mapping[str, Any], UnsupportedSettings], dict[str, Any]]
    config_to_hf: Callable[[GPTConfig], dict[str, Any]]
    modules: Mapping[str, str]  # our and their names of modules
    block: Mapping[str, str]  # the same inside a block
    stack: str = "layers"  # their name of the list of blocks
    prefix: str = "model."  # prefix of all their tensor names except the output matrix
    ignored_suffixes: tuple[str, ...] = ("rotary_emb.inv_freq",)  # of buffers in files from old versions
    # Changes our tensors in both directions, so it must be its own inverse.
    rearrange: Callable[[dict[str, Tensor], GPTConfig], dict[str, Tensor]] = lambda ours, config: ours
    full_width: bool = False  # num_heads × head_dim must equal d_model
    has_dropout: bool = False

    def config_from_hf(self, settings: Mapping[str, Any], unsupported: UnsupportedSettings) -> GPTConfig:
        unsupported.require(settings, self.fixed)
        ours = self.read_config(settings, unsupported)
        unsupported.raise_if_any()
        return GPTConfig(**{**self.required, **ours})

    def read_tensors(self, tensors: Mapping[str, Tensor], config: GPTConfig) -> dict[str, Tensor]:
        """Convert tensors of transformers to regard's. Names and shapes must match the config."""
        theirs = {name: tensor for name, tensor in tensors.items() if not name.endswith(self.ignored_suffixes)}
        if config.tie_embeddings:
            theirs.pop(OUTPUT, None)  # a copy of the embedding
        with empty_weights():
            expected = self.write_tensors(unique_tensors(GPT(config)), config)
        if not any(name.startswith(self.prefix) for name in theirs):
            expected = {name.removeprefix(self.prefix): tensor for name, tensor in expected.items()}
        check_fit(theirs, expected, self.class_name)
        stems = {name.removeprefix(self.prefix): tensor for name, tensor in theirs.items()}
        return self.rearrange(formats.join(stems, self._pairs(config)), config)

    def write_tensors(self, ours: Mapping[str, Tensor], config: GPTConfig) -> dict[str, Tensor]:
        """Convert regard's tensors to those of transformers."""
        kv_rows = (config.num_kv_heads or config.num_heads) * config.head_dim
        sizes = (config.num_heads * config.head_dim, kv_rows, kv_rows)
        stems = formats.split(self.rearrange(dict(ours), config), self._pairs(config), qkv_sizes=sizes)
        return {name if name == OUTPUT else self.prefix + name: tensor for name, tensor in stems.items()}

    def _pairs(self, config: GPTConfig) -> list[tuple[str, tuple[str, ...]]]:
        blocks = formats.layer_pairs(self.block, "decoder", self.stack, config.num_layers)
        return [*formats.module_pairs(self.modules), *blocks, ("output", (OUTPUT,))]


# --- GPT-2 --------------------------------------------------------------------------------------------------

_GPT2_SETTINGS = (
    Setting("vocab_size", "vocab_size"),
    Setting("n_positions", "context_length", formats.integer, 1024),
    Setting("n_layer", "num_layers"),
    Setting("n_embd", "d_model"),
    Setting("n_inner", "d_ff"),
    Setting("n_head", "num_heads"),
    Setting("layer_norm_epsilon", "norm_eps", formats.number, 1e-5),
    Setting("tie_word_embeddings", "tie_embeddings", formats.boolean, True),
    Setting("resid_pdrop", "dropout", formats.number, 0.1),
)
_GPT2_FIXED = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "reorder_and_upcast_attn": False,
    "add_cross_attention": False,
}


def _read_gpt2(settings: Mapping[str, Any], unsupported: UnsupportedSettings) -> dict[str, Any]:
    width, heads = formats.integer(settings, "n_embd"), formats.integer(settings, "n_head")
    unsupported.add_if(width % heads != 0, "n_head", heads, f"n_embd {width} is not a multiple of n_head {heads}")
    return dict(
        formats.read_settings({**settings, "n_inner": formats.integer(settings, "n_inner", 4 * width)}, _GPT2_SETTINGS),
        head_dim=width // heads,
        activation=unsupported.activation(settings, "activation_function", "gelu_new", ACTIVATIONS),
    )


def _write_gpt2(config: GPTConfig) -> dict[str, Any]:
    return {
        **formats.write_settings(config, _GPT2_SETTINGS),
        "activation_function": formats.their_activation(config.activation),
        "embd_pdrop": config.dropout,
        "attn_pdrop": 0.0,
        **_GPT2_FIXED,
    }


def _transpose_matrices(tensors: dict[str, Tensor], config: GPTConfig) -> dict[str, Tensor]:
    return {name: tensor.T if name.endswith("_proj.weight") else tensor for name, tensor in tensors.items()}


GPT2 = ModelType(
    name="gpt2",
    class_name="GPT2LMHeadModel",
    fixed=_GPT2_FIXED,
    required={
        "positions": "learned",
        "norm": "layer",
        "norm_affine": True,
        "bias": True,
        "qk_norm": False,
        "embedding_norm": False,
        "num_kv_heads": None,
        "logit_softcap": None,
        "activation": OUR_ACTIVATIONS,
    },
    read_config=_read_gpt2,
    config_to_hf=_write_gpt2,
    modules={"embedding": "wte", "embedding.positions": "wpe", "norm": "ln_f"},
    block={
        "self_attention.qkv_proj": "attn.c_attn",
        "self_attention.out_proj": "attn.c_proj",
        "feed_forward.up_proj": "mlp.c_fc",
        "feed_forward.down_proj": "mlp.c_proj",
        "self_residual.norm": "ln_1",
        "feed_forward_residual.norm": "ln_2",
    },
    stack="h",
    prefix="transformer.",
    ignored_suffixes=(".attn.bias", ".attn.masked_bias"),  # mask buffers
    rearrange=_transpose_matrices,
    full_width=True,
    has_dropout=True,
)


# --- Llama, Qwen3 and Mistral -------------------------------------------------------------------------------

_LLAMA_SETTINGS = (
    Setting("vocab_size", "vocab_size"),
    Setting("max_position_embeddings", "context_length", formats.integer, 2048),
    Setting("num_hidden_layers", "num_layers"),
    Setting("hidden_size", "d_model"),
    Setting("intermediate_size", "d_ff"),
    Setting("num_attention_heads", "num_heads"),
    Setting("rms_norm_eps", "norm_eps", formats.number, 1e-6),
    Setting("tie_word_embeddings", "tie_embeddings", formats.boolean, False),
)
_ATTENTION = {
    "self_attention.qkv_proj": "self_attn.q_proj self_attn.k_proj self_attn.v_proj",
    "self_attention.out_proj": "self_attn.o_proj",
}


def _read_shape(settings: Mapping[str, Any], unsupported: UnsupportedSettings) -> dict[str, Any]:
    """Return regard's settings for sizes, heads and rotary positions, including the scaling of Llama 3.1."""
    rope = {**_part(settings, "rope_scaling"), **_part(settings, "rope_parameters")}
    kind = rope.get("rope_type", rope.get("type", "default"))
    unsupported.add_if(kind not in ROPE_TYPES, "rope_type", kind, f"rope_type is {kind!r}", ROPE_TYPES)
    shape = formats.read_settings(settings, _LLAMA_SETTINGS)
    head_dim = formats.integer(settings, "head_dim", shape["d_model"] // shape["num_heads"])
    reason = f"head_dim is {head_dim}, but rotary positions need an even head_dim"
    unsupported.add_if(head_dim % 2 != 0, "head_dim", head_dim, reason)
    return dict(
        shape,
        head_dim=head_dim,
        num_kv_heads=formats.integer(settings, "num_key_value_heads", shape["num_heads"]),
        rope_theta=formats.number(rope, "rope_theta", formats.number(settings, "rope_theta", 10_000.0)),
        rope_scaling={name: formats.number(rope, name) for name in SCALING_KEYS} if kind == "llama3" else {},
    )


def _part(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = settings.get(name) or {}
    if not isinstance(part, Mapping):
        raise UsageError(f"{name} must be a JSON object, got {part!r}.", argument=name, value=part)
    return part


def _write_shape(config: GPTConfig) -> dict[str, Any]:
    scaling: dict[str, Any] = dict(config.rope_scaling)
    if scaling:
        scaling[SCALING_KEYS[-1]] = int(scaling[SCALING_KEYS[-1]])
    rope = {"rope_type": "llama3" if scaling else "default", "rope_theta": config.rope_theta, **scaling}
    return {
        **formats.write_settings(config, _LLAMA_SETTINGS),
        "num_key_value_heads": config.num_kv_heads or config.num_heads,
        "head_dim": config.head_dim,
        "rope_parameters": rope,
    }


def _read_llama(settings: Mapping[str, Any], unsupported: UnsupportedSettings) -> dict[str, Any]:
    layers = settings.get("layer_types") or []
    other = [layer for layer in layers if layer != "full_attention"]
    reason = "layer_types has values other than full_attention"
    unsupported.add_if(bool(other), "layer_types", other, reason, ("full_attention",))
    shape = _read_shape(settings, unsupported)
    context = shape["context_length"]
    window = settings.get("sliding_window", MISTRAL_WINDOW) if settings["model_type"] == "mistral" else None
    reason = f"sliding_window is {window}, less than max_position_embeddings {context}"
    unsupported.add_if(window is not None and window < context, "sliding_window", window, reason)
    return shape


def _write_llama(config: GPTConfig) -> dict[str, Any]:
    theirs = {**_write_shape(config), "hidden_act": "silu", "attention_bias": False}
    # transformers before version 5 expects rope_theta at the top level.
    older = {"rope_scaling": theirs["rope_parameters"]} if config.rope_scaling else {}
    return {**theirs, "rope_theta": config.rope_theta, **older}


def _llama(name: str, class_name: str, *, qk_norm: bool = False) -> ModelType:
    return ModelType(
        name=name,
        class_name=class_name,
        fixed={"hidden_act": "silu", "attention_bias": False, "mlp_bias": False, "use_sliding_window": False},
        required={
            "positions": "rotary",
            "norm": "rms",
            "norm_affine": True,
            "bias": False,
            "embedding_norm": False,
            "logit_softcap": None,
            "activation": "swiglu",
            "qk_norm": qk_norm,
        },
        read_config=_read_llama,
        config_to_hf=_write_llama,
        modules={"embedding": "embed_tokens", "norm": "norm"},
        block={
            **_ATTENTION,
            "self_residual.norm": "input_layernorm",
            "feed_forward.up_proj": "mlp.gate_proj mlp.up_proj",
            "feed_forward.down_proj": "mlp.down_proj",
            "feed_forward_residual.norm": "post_attention_layernorm",
            "self_attention.qk_scale": "self_attn.q_norm.weight self_attn.k_norm.weight",
        },
    )


LLAMA = _llama("llama", "LlamaForCausalLM")
QWEN3 = _llama("qwen3", "Qwen3ForCausalLM", qk_norm=True)
MISTRAL = _llama("mistral", "MistralForCausalLM")


# --- NanoChat -----------------------------------------------------------------------------------------------

_SOFTCAP = Setting("final_logit_softcapping", "logit_softcap", formats.number_or_null, 15.0)
_NANOCHAT_FIXED = {"hidden_act": "relu2", "attention_bias": False}


def _read_nanochat(settings: Mapping[str, Any], unsupported: UnsupportedSettings) -> dict[str, Any]:
    return {**_read_shape(settings, unsupported), **formats.read_settings(settings, [_SOFTCAP])}


def _write_nanochat(config: GPTConfig) -> dict[str, Any]:
    return {
        **_write_shape(config),
        **formats.write_settings(config, [_SOFTCAP]),
        "attention_dropout": 0.0,
        **_NANOCHAT_FIXED,
    }


def _swap_qk_halves(tensors: dict[str, Tensor], config: GPTConfig) -> dict[str, Tensor]:
    """Swap the first and second half of the rows of every query and key head."""
    qk_rows = (config.num_heads + (config.num_kv_heads or config.num_heads)) * config.head_dim
    for name, weight in tensors.items():
        if name.endswith("qkv_proj.weight") and not is_placeholder(weight):
            halves = weight[:qk_rows].unflatten(0, (-1, 2, config.head_dim // 2))  # type: ignore[no-untyped-call]
            tensors[name] = torch.cat((halves.flip(1).flatten(0, 2), weight[qk_rows:]))
    return tensors


NANOCHAT = ModelType(
    name="nanochat",
    class_name="NanoChatForCausalLM",
    fixed=_NANOCHAT_FIXED,
    required={
        "positions": "rotary",
        "norm": "rms",
        "norm_affine": False,
        "bias": False,
        "qk_norm": True,
        "embedding_norm": True,
        "activation": "relu2",
    },
    read_config=_read_nanochat,
    config_to_hf=_write_nanochat,
    modules={"embedding": "embed_tokens"},
    block={**_ATTENTION, "feed_forward.up_proj": "mlp.fc1", "feed_forward.down_proj": "mlp.fc2"},
    rearrange=_swap_qk_halves,
    full_width=True,
)
