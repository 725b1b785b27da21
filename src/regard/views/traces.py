"""From a trace of a model to the maps that the attention viewer shows."""

from __future__ import annotations

from regard.nn.taps import Trace
from regard.views.attention import AttentionMap


def trace_maps(trace: Trace, *, batch: int = 0) -> list[AttentionMap]:
    """Every attention of one text, in the order of the forward pass."""
    maps = []
    for address in trace.recipes:
        rows, columns = trace.labels(address, batch)
        weights = trace.weights(address, batch=batch).float().cpu().numpy()
        maps.append(AttentionMap(address=address, rows=rows, columns=columns, weights=weights))
    return maps
