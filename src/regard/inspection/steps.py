"""The arrays of one multi-head attention, read from a real pass, for the figure of its five steps.

Everything comes from the taps: what entered, V and the heads are observed as they pass, Q, K and the weights are
those of the trace, the matrices are the module's parameters. The output is the module's own last multiplication of
the observed heads. Nothing is drawn here.
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
    """The steps of the attention at `address` (the encoder's first) for one text of the pass that `run` makes.

    `run` calls the model inside `capture` and returns the trace; of several passes the last one is shown.
    """
    address = choose_attention(model, address)
    path, attention = attentions_of(model)[address]
    parts = ["input", "values", "heads", *(["memory"] if attention.cross else [])]
    places = {part: ".".join(filter(None, (address, part))) for part in parts}
    with observe(model, *places.values()) as seen:
        trace = run()
    rows, columns = trace.labels(address, batch)
    recipe = trace[address]
    heads = seen[places["heads"]]  # (B, H, T, Dh)
    with torch.no_grad():
        output = attention.out_proj(heads.transpose(1, 2).flatten(2))

    def of_text(values: Tensor, count: int) -> npt.NDArray[Any]:
        """One text's (…, tokens, width), without its padding, for every head."""
        values = _for_each_head(values, attention) if values.dim() == 4 else values
        return _array(values[batch, ..., :count, :])

    queries, keys, values = projections_of(attention)
    return AttentionSteps(
        address=address,
        rows=rows,
        columns=columns,
        inputs=of_text(seen[places["input"]], len(rows)),
        memory=of_text(seen[places["memory"]], len(columns)) if attention.cross else None,
        query_matrices=queries,
        key_matrices=keys,
        value_matrices=values,
        queries=of_text(recipe.q, len(rows)),
        keys=of_text(recipe.k, len(columns)),
        values=of_text(seen[places["values"]], len(columns)),
        weights=_array(trace.weights(address, batch=batch)[:, : len(rows), : len(columns)]),
        heads=of_text(heads, len(rows)),
        output_matrix=_array(attention.out_proj.weight.T),
        output=of_text(output, len(rows)),
        embedded=address.split(".")[-2:] == ["0", "self"],
        remarks=_remarks(attention, _residual(model, path)),
    )


def choose_attention(model: nn.Module, address: str | None) -> str:
    """`address` if there is such an attention; without one the encoder's first, or else the first of all."""
    addresses = list(attentions_of(model))
    if not addresses:
        raise UsageError("this model has no multi-head attention whose steps could be drawn.")
    if address is None:
        return next((one for one in addresses if one.startswith("encoder.")), addresses[0])
    if address not in addresses:
        raise unknown("attention", address, addresses)
    return address


def attentions_of(model: nn.Module) -> dict[str, tuple[str, MultiHeadAttention]]:
    """Address → path and module of every multi-head attention."""
    addresses = addresses_of(model)
    return {
        addresses[module.attention_hook]: (path, module)
        for path, module in model.named_modules()
        if isinstance(module, MultiHeadAttention)
    }


def projections_of(attention: MultiHeadAttention) -> tuple[npt.NDArray[Any], ...]:
    """W^Q, W^K and W^V of each head: (H, D, Dh). Heads that share keys and values have the same matrices."""
    shared = attention.num_kv_heads
    if attention.cross:
        stacked = torch.cat([attention.q_proj.weight, attention.kv_proj.weight])
    else:
        stacked = attention.qkv_proj.weight
    by_head = stacked.view(1, -1, attention.head_dim, stacked.shape[1]).transpose(2, 3)  # (1, all heads, D, Dh)
    first_key, first_value = attention.num_heads, attention.num_heads + shared
    parts = (by_head[:, :first_key], by_head[:, first_key:first_value], by_head[:, first_value:])
    return tuple(_array(_for_each_head(part, attention)[0]) for part in parts)


def _for_each_head(values: Tensor, attention: MultiHeadAttention) -> Tensor:
    """(B, H or fewer, …) → (B, H, …): shared keys and values stand once for each head that uses them."""
    return values.repeat_interleave(attention.num_heads // values.shape[1], dim=1)


def _residual(model: nn.Module, path: str) -> Residual | None:
    """The residual path around the attention at `path`, if it stands in a block."""
    parent, _, name = path.rpartition(".")
    found = getattr(model.get_submodule(parent), name.replace("_attention", "_residual"), None)
    return found if isinstance(found, Residual) else None


def _remarks(attention: MultiHeadAttention, residual: Residual | None) -> dict[int, str]:
    """What this model does beyond the plain figure."""
    remarks: dict[int, str] = {}
    if residual is not None and residual.placement == "pre":
        remarks[2] = "Drawn as it enters the attention: after the norm that stands before it."
    changed = [
        *(["brought to length √d_k (RMS norm)"] if attention.norm is not None else []),
        *(["turned by their positions (rotary)"] if attention.rotary is not None else []),
    ]
    said = []
    if attention.out_proj.bias is not None:
        said.append("A bias is added to each product.")
        remarks[5] = "A bias is added to the product."
    if attention.num_kv_heads != attention.num_heads:
        said.append(f"The {attention.num_heads} heads share {attention.num_kv_heads} sets of keys and values.")
    if said:
        remarks[3] = " ".join(said)
    if changed:
        remarks[4] = f"Q and K are drawn as they were scored: {' and '.join(changed)}."
    return remarks


def _array(tensor: Tensor) -> npt.NDArray[Any]:
    return tensor.detach().cpu().to(torch.float64 if tensor.dtype == torch.float64 else torch.float32).numpy()
