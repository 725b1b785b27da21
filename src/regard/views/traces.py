"""Converts a trace of a model to the maps that the attention viewer shows."""

from __future__ import annotations

from collections.abc import Sequence

from regard.nn.hooks import Trace
from regard.utils.errors import UsageError
from regard.views.attention import AttentionMap


def default_map(maps: Sequence[AttentionMap]) -> str:
    """The address to show first: the last cross-attention, or the last map if there is none."""
    return next((one.address for one in reversed(maps) if one.address.endswith(".cross")), maps[-1].address)


def trace_maps(trace: Trace, *, batch: int = 0) -> list[AttentionMap]:
    """Every attention of one text, in the order of the forward pass, without the padding that has no labels."""
    if not trace.captured:
        raise UsageError("nothing was captured: run the model inside the `with capture(model)` block.")
    maps = []
    for address in trace.captured:
        weights = trace.weights(address, batch=batch).detach().float().cpu().numpy()
        rows, columns = trace.labels(address, batch)
        # A text that is shorter than its batch has padding at its end: masked as a key, meaningless as a query.
        real = weights[:, : len(rows), : len(columns)]
        maps.append(AttentionMap(address=address, rows=rows, columns=columns, weights=real))
    return maps
