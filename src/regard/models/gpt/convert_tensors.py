"""Join and split tensors that Llama-like models store in parts: queries, keys, values; gate and up projections."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from regard.models.gpt.config import GPTConfig
from regard.models.tensor_names import Pairs, join

OUTPUT, PREFIX = "lm_head.weight", "model."
LEFTOVERS = ("rotary_emb.inv_freq",)  # buffers in files from old versions
STACKED = (".qk_scale",)


def attention_pairs(layer: int) -> list[tuple[str, tuple[str, ...]]]:
    ours, theirs = f"decoder.{layer}.self_attention", f"layers.{layer}.self_attn"
    return [
        (f"{ours}.qkv_proj.weight", tuple(f"{theirs}.{part}_proj.weight" for part in "qkv")),
        (f"{ours}.out_proj.weight", (f"{theirs}.o_proj.weight",)),
    ]


def join_parts(theirs: Mapping[str, Tensor], pairs: Pairs) -> dict[str, Tensor]:
    """Convert their tensors to ours."""
    return join(theirs, pairs, stacked=STACKED)


def split_parts(ours: Mapping[str, Tensor], pairs: Pairs, config: GPTConfig) -> dict[str, Tensor]:
    """Convert our tensors to theirs."""
    theirs = {}
    for name, parts in pairs:
        tensor = ours[name]
        tensors = tensor.unbind() if name.endswith(STACKED) else tensor.tensor_split(_cuts(name, config))
        for part, values in zip(parts, tensors, strict=True):
            theirs[part if part == OUTPUT else PREFIX + part] = values
    return theirs


def _cuts(name: str, config: GPTConfig) -> tuple[int, ...]:
    """Return the rows at which to split one of our tensors into theirs."""
    if name.endswith("qkv_proj.weight"):
        queries, keys = config.num_heads * config.head_dim, (config.num_kv_heads or config.num_heads) * config.head_dim
        return queries, queries + keys
    return (config.d_ff,) if name.endswith("up_proj.weight") and config.activation == "swiglu" else ()
