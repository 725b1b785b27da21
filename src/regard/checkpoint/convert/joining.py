"""Tensors that others store in parts and we join: queries, keys and values, and the two halves of a gated network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from regard.models.gpt_settings import GPTConfig

Pairs = Sequence[tuple[str, tuple[str, ...]]]  # our name of a tensor, and the names of the tensors of which it is made
OUTPUT, PREFIX = "lm_head.weight", "model."
LEFTOVERS = ("rotary_emb.inv_freq",)  # what old versions stored beside the weights


def attention_pairs(layer: int) -> list[tuple[str, tuple[str, ...]]]:
    ours, theirs = f"decoder.{layer}.self_attention", f"layers.{layer}.self_attn"
    return [
        (f"{ours}.query_key_value.weight", tuple(f"{theirs}.{part}_proj.weight" for part in "qkv")),
        (f"{ours}.output.weight", (f"{theirs}.o_proj.weight",)),
    ]


def join(theirs: Mapping[str, Tensor], pairs: Pairs) -> dict[str, Tensor]:
    """The tensors of which ours are made, put together; what has no name of ours keeps its own."""
    left, found = dict(theirs), {}
    for ours, parts in pairs:
        if all(part in left for part in parts):
            tensors = [left.pop(part) for part in parts]
            found[ours] = torch.stack(tensors) if ours.endswith(".gains") else torch.cat(tensors)
    return found | left


def parted(ours: Mapping[str, Tensor], pairs: Pairs, config: GPTConfig) -> dict[str, Tensor]:
    """Our tensors under their names."""
    found = {}
    for name, parts in pairs:
        pieces = ours[name].unbind() if name.endswith(".gains") else ours[name].tensor_split(_cuts(name, config))
        for part, piece in zip(parts, pieces, strict=True):
            found[part if part == OUTPUT else PREFIX + part] = piece.contiguous()
    return found


def _cuts(name: str, config: GPTConfig) -> tuple[int, ...]:
    """The rows at which a tensor of ours falls into theirs."""
    if name.endswith("query_key_value.weight"):
        asked, shared = config.heads * config.head_width, (config.key_value_heads or config.heads) * config.head_width
        return asked, asked + shared
    return (config.hidden,) if name.endswith("widen.weight") and config.activation == "swiglu" else ()
