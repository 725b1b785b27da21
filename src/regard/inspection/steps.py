"""The arrays of one multi-head attention from a forward pass, for the figure of its five steps.

Hooks observe the input, V and the heads. Q, K and the weights come from the trace, and the matrices are parameters of
the module. The output is computed from the observed heads with the module's output projection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor, nn

from regard.nn.blocks import Residual
from regard.nn.hooks import Trace, addresses_of, observe
from regard.nn.multihead import MultiHeadAttention
from regard.utils.errors import UsageError, unknown
from regard.views.steps import AttentionSteps


def attention_steps(
    model: nn.Module, run: Callable[[], Trace], *, address: str | None = None, batch: int = 0
) -> AttentionSteps:
    """Return the steps of the attention at `address` (default: `choose_attention`) for one text of a forward pass.
    `run` calls the model inside `capture` and returns the trace; after several passes, the last one is used.
    """
    address = choose_attention(model, address)
    path, attention = attentions_of(model)[address]
    parts = ["input", "values", "heads", *(["memory"] if attention.cross else [])]
    hooks = {part: ".".join(filter(None, (address, part))) for part in parts}
    with observe(model, *hooks.values()) as observed:
        trace = run()
    rows, columns = trace.labels(address, batch)
    captured, heads = trace[address], observed[hooks["heads"]]  # (B, H, T, Dh)
    with torch.no_grad():
        output = attention.out_proj(heads.transpose(1, 2).flatten(2))

    def of_text(values: Tensor, count: int) -> npt.NDArray[Any]:
        """Return the values of one text, (…, tokens, size), without padding, for every head."""
        values = _repeat_kv(values, attention) if values.dim() == 4 else values
        return _array(values[batch, ..., :count, :])

    queries, keys, values = projections_of(attention)
    return AttentionSteps(
        address=address,
        rows=rows,
        columns=columns,
        inputs=of_text(observed[hooks["input"]], len(rows)),
        memory=of_text(observed[hooks["memory"]], len(columns)) if attention.cross else None,
        query_matrices=queries,
        key_matrices=keys,
        value_matrices=values,
        queries=of_text(captured.q, len(rows)),
        keys=of_text(captured.k, len(columns)),
        values=of_text(observed[hooks["values"]], len(columns)),
        weights=_array(trace.weights(address, batch=batch)[:, : len(rows), : len(columns)]),
        heads=of_text(heads, len(rows)),
        output_matrix=_array(attention.out_proj.weight.T),
        output=of_text(output, len(rows)),
        embedded=address.split(".")[-2:] == ["0", "self"],
        remarks=_remarks(attention, _residual(model, path)),
    )


def choose_attention(model: nn.Module, address: str | None) -> str:
    """Return `address` if the model has it. By default, return the first attention of the encoder or of the model."""
    addresses = list(attentions_of(model))
    if not addresses:
        raise UsageError("this model has no multi-head attention.", argument="model")
    if address is None:
        return next((known for known in addresses if known.startswith("encoder.")), addresses[0])
    if address not in addresses:
        raise unknown("attention", address, addresses)
    return address


def attentions_of(model: nn.Module) -> dict[str, tuple[str, MultiHeadAttention]]:
    """Return path and module of every multi-head attention, by address."""
    addresses = addresses_of(model)
    return {
        addresses[module.attention_hook]: (path, module)
        for path, module in model.named_modules()
        if isinstance(module, MultiHeadAttention)
    }


def projections_of(attention: MultiHeadAttention) -> tuple[npt.NDArray[Any], ...]:
    """W^Q, W^K and W^V of each head: (H, D, Dh). Heads that share keys and values have the same matrices."""
    if attention.cross:
        stacked = torch.cat([attention.q_proj.weight, attention.kv_proj.weight])
    else:
        stacked = attention.qkv_proj.weight
    by_head = stacked.view(1, -1, attention.head_dim, stacked.shape[1]).transpose(2, 3)  # (1, all heads, D, Dh)
    parts = by_head.tensor_split((attention.num_heads, attention.num_heads + attention.num_kv_heads), dim=1)
    return tuple(_array(_repeat_kv(part, attention)[0]) for part in parts)


def _repeat_kv(values: Tensor, attention: MultiHeadAttention) -> Tensor:
    """(B, H or fewer, …) → (B, H, …): shared keys and values are repeated for each head that uses them."""
    return values.repeat_interleave(attention.num_heads // values.shape[1], dim=1)


def _residual(model: nn.Module, path: str) -> Residual | None:
    """The residual connection around the attention at `path`, if it is in a block."""
    parent, _, name = path.rpartition(".")
    residual = getattr(model.get_submodule(parent), name.replace("_attention", "_residual"), None)
    return residual if isinstance(residual, Residual) else None


def _remarks(attention: MultiHeadAttention, residual: Residual | None) -> dict[int, str]:
    """Return remarks by step: how this attention differs from the standard one (norms, biases, rotary positions)."""
    has_bias, num_heads, num_kv_heads = attention.out_proj.bias is not None, attention.num_heads, attention.num_kv_heads
    changes = {
        "scaled to length √d_k (RMS norm)": attention.norm,
        "rotated by their positions (rotary)": attention.rotary,
    }
    changed = " and ".join(change for change, module in changes.items() if module is not None)
    remarks = [
        (residual is not None and residual.placement == "pre", 2, "Drawn after the norm that precedes the attention."),
        (has_bias, 3, "A bias is added to each product."),
        (num_kv_heads != num_heads, 3, f"The {num_heads} heads share {num_kv_heads} sets of keys and values."),
        (changed, 4, f"Q and K are drawn as used in the scores: {changed}."),
        (has_bias, 5, "A bias is added to the product."),
    ]
    steps = sorted({step for applies, step, _ in remarks if applies})
    return {step: " ".join(text for applies, at, text in remarks if applies and at == step) for step in steps}


def _array(tensor: Tensor) -> npt.NDArray[Any]:
    return tensor.detach().cpu().to(torch.float64 if tensor.dtype == torch.float64 else torch.float32).numpy()
