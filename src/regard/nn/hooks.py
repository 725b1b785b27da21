"""Hooks: read or replace values inside a model, without changing the model itself.

A model has hook points, each with an address such as `decoder.2.cross`.

- `with capture(model) as trace:` records, at every attention layer, the scorer, the queries and keys as they were
  scored, and the mask. The forward pass stays on the fused kernel. Weights are computed later, only for the layer,
  heads and rows that are read. Memory grows with tokens × d_model.
- `with edit(model, address, change):` replaces a value inside the block: `change(value) -> value`.
- `with observe(model, address, …) as seen:` stores values without changing them.

Active hooks live in a `ContextVar`, so threads and nested blocks do not see each other's hooks, and nothing stays on
the model. Compiled code has no hook points, so models run in eager mode inside a block.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import torch
from torch import Tensor, nn

from regard.nn.attention import Scorer, attention_weights
from regard.nn.masks import AttentionMask
from regard.utils.errors import UsageError, unknown

Change = Callable[[Tensor], Tensor]
Selection = int | slice | Sequence[int]


class Traceable(Protocol):
    """A predictor: its model is `trace_root`."""

    @property
    def trace_root(self) -> nn.Module: ...


@dataclass(frozen=True, eq=False)
class _Hook:
    """An active `with` block: the hook points of its model, its changes to their values, and its trace."""

    addresses: Mapping[nn.Module, str]
    changes: Mapping[nn.Module, Change] = field(default_factory=dict)
    trace: Trace | None = None


_active: ContextVar[tuple[_Hook, ...]] = ContextVar("regard_hooks", default=())


class HookPoint(nn.Module):
    """Returns its input; inside an `edit` block, the edited value."""

    def forward(self, x: Tensor) -> Tensor:
        if torch.compiler.is_compiling():
            return x
        for hook in _active.get():
            if self in hook.changes:
                x = hook.changes[self](x)
        return x


class AttentionHook(nn.Module):
    """Records queries, keys and mask of an attention layer. Returns weights only if an `edit` block changed them."""

    def forward(self, scorer: Scorer, q: Tensor, k: Tensor, mask: AttentionMask) -> Tensor | None:
        if torch.compiler.is_compiling():
            return None
        weights = None
        for hook in _active.get():
            if self not in hook.addresses:
                continue
            captured = CapturedQK(hook.addresses[self], scorer, q, k, mask)
            if hook.trace is not None:
                hook.trace.record(captured)
            if self in hook.changes:
                weights = hook.changes[self](captured.weights() if weights is None else weights)
        return weights


@dataclass(frozen=True)
class CapturedQK:
    """The queries, keys and mask of one attention layer, from which its weights are computed on demand."""

    address: str
    scorer: Scorer
    q: Tensor  # (B, H, T, Dh), after rotation and norms
    k: Tensor  # (B, H or fewer, S, Dh)
    mask: AttentionMask

    def weights(
        self, *, batch: Selection = slice(None), heads: Selection | None = None, rows: Selection | None = None
    ) -> Tensor:
        """Compute the weights of the selected texts, heads and rows, before dropout: (B, H, T, S)."""
        texts, num_heads, num_rows = self.q.shape[:3]
        chosen_rows = _indices(batch, texts)
        q, k, mask = self.q[chosen_rows], self.k[chosen_rows], self.mask.select(chosen_rows)
        if heads is not None:
            chosen_heads = _indices(heads, num_heads)
            q, k = q[:, chosen_heads], k[:, chosen_heads // (num_heads // self.k.shape[1])]
            mask = mask.select_heads(chosen_heads)
        if rows is None:
            return attention_weights(q, k, mask, scorer=self.scorer)
        # A causal mask aligns queries with the last keys, so the rows are selected from the dense mask.
        queries = _indices(rows, num_rows)
        allowed = mask.dense(num_rows, self.k.shape[2], q.device)
        if allowed.shape[2] != 1:
            allowed = allowed[:, :, queries]
        return attention_weights(q[:, :, queries], k, AttentionMask(allowed=allowed), scorer=self.scorer)


def _indices(selection: Selection, count: int) -> Tensor:
    """Return the selected indices from 0 to `count` - 1; negative indices count from the end."""
    indices = torch.arange(count)
    if isinstance(selection, slice):
        return indices[selection]
    chosen = [selection] if isinstance(selection, int) else list(selection)
    if any(not -count <= index < count for index in chosen):
        raise UsageError(f"index out of range: {chosen}. Use 0 to {count - 1}.", value=selection, allowed=range(count))
    return indices[chosen]


@dataclass(repr=False)
class Trace:
    """The record of `capture`: queries and keys by address, with the tokens of both axes."""

    tokens: Mapping[str, Sequence[Sequence[str]]]  # stream ("encoder", "decoder") → a row of tokens for each text
    keep_graph: bool = False
    captured: dict[str, CapturedQK] = field(default_factory=dict)

    def record(self, captured: CapturedQK) -> None:
        if not self.keep_graph:
            captured = dataclasses.replace(captured, q=captured.q.detach(), k=captured.k.detach())
        self.captured[captured.address] = captured

    @property
    def addresses(self) -> tuple[str, ...]:
        return tuple(self.captured)

    def __repr__(self) -> str:
        shapes = (f"{a} {tuple(c.q.shape[:3])}×{c.k.shape[2]}" for a, c in self.captured.items())
        return f"Trace({', '.join(shapes)})"

    def __getitem__(self, address: str) -> CapturedQK:
        self._check_captured()
        if address not in self.captured:
            raise unknown("address", address, self.captured)
        return self.captured[address]

    def weights(
        self, address: str, *, batch: int = 0, heads: Selection | None = None, rows: Selection | None = None
    ) -> Tensor:
        """Return the weights of one text at one address: (H, T, S)."""
        return self[address].weights(batch=batch, heads=heads, rows=rows)[0]

    def labels(self, address: str, batch: int = 0) -> tuple[list[str], list[str]]:
        """Return the tokens of the queries and the tokens of the keys."""
        captured = self[address]
        queries, keys = streams(address)
        return self._tokens(queries, batch, captured.q.shape[2]), self._tokens(keys, batch, captured.k.shape[2])

    def attentions(self, kind: str) -> tuple[Tensor, ...]:
        """Return the weights of `encoder.self`, `decoder.self` or `decoder.cross`: (B, H, T, S) for each layer.

        Other tools expect this shape. Memory grows with tokens².
        """
        self._check_captured()
        stack, _, which = kind.partition(".")
        layers = [r for a, r in self.captured.items() if a.startswith(f"{stack}.") and a.endswith(f".{which}")]
        if not layers:
            kinds = {f"{a.split('.')[0]}.{a.split('.')[-1]}" for a in self.captured}
            raise unknown("kind of attention", kind, kinds)
        return tuple(captured.weights() for captured in layers)

    def _check_captured(self) -> None:
        if not self.captured:
            message = "nothing was captured: run the model inside the `with capture(model)` block."
            raise UsageError(message, argument="trace", hint="with capture(model)")

    def _tokens(self, stream: str, batch: int, count: int) -> list[str]:
        rows = self.tokens.get(stream)
        if rows is None:
            return [str(i) for i in range(count)]
        if not -len(rows) <= batch < len(rows):
            message = f"there is no text {batch}. Use 0 to {len(rows) - 1}, the texts of the {stream}."
            raise UsageError(message, argument="batch", value=batch, allowed=range(len(rows)))
        return list(rows[batch])[:count]


@contextlib.contextmanager
def capture(
    model: nn.Module | Traceable, *, tokens: Mapping[str, Sequence[Sequence[str]]] | None = None, grad: bool = False
) -> Iterator[Trace]:
    """Record every attention layer of `model` inside the block. A second forward pass replaces the first."""
    trace = Trace(tokens or {}, keep_graph=grad)
    with _activated(_Hook(addresses_of(model), trace=trace)):
        yield trace


@contextlib.contextmanager
def edit(model: nn.Module | Traceable, address: str, change: Change) -> Iterator[None]:
    """Replace the value at `address` with `change(value)` inside the block.

    | address | value |
    |---|---|
    | `decoder.2` | output of the block (B, T, D) |
    | `decoder.2.feed_forward` | output of the feed-forward layer (B, T, D) |
    | `decoder.2.cross` | attention weights (B, H, T, S) |
    | `decoder.2.cross.input`, `….memory` | input (B, T, D), memory of cross-attention (B, S, D) |
    | `decoder.2.cross.values`, `….heads` | V (B, H or fewer, S, Dh), output of each head (B, H, T, Dh) |
    """
    addresses = addresses_of(model)
    if address not in addresses.values():
        raise unknown("address", address, addresses.values())
    with _activated(_Hook(addresses, {point: change for point, name in addresses.items() if name == address})):
        yield


@contextlib.contextmanager
def observe(model: nn.Module | Traceable, *wanted: str) -> Iterator[dict[str, Tensor]]:
    """Store the values at the addresses `wanted`; if there are several forward passes, the last value.

    The addresses are those of `edit`, except that of an attention layer itself, whose weights are not computed in the
    forward pass. Use `capture` for weights.
    """
    addresses = addresses_of(model)
    points: dict[nn.Module, str] = {p: address for p, address in addresses.items() if isinstance(p, HookPoint)}
    for address in wanted:
        if address not in points.values():
            raise unknown("address", address, points.values())
    seen: dict[str, Tensor] = {}

    def store(address: str, value: Tensor) -> Tensor:
        seen[address] = value.detach()
        return value

    changes = {point: partial(store, address) for point, address in points.items() if address in wanted}
    with _activated(_Hook(addresses, changes)):
        yield seen


@contextlib.contextmanager
def _activated(hook: _Hook) -> Iterator[None]:
    _active.set((*_active.get(), hook))
    try:
        yield
    finally:  # remove only this hook: blocks may end in any order
        _active.set(tuple(other for other in _active.get() if other is not hook))


def has_hooks(model: nn.Module) -> bool:
    """Return whether `capture`, `edit` or `observe` is active on this model."""
    return any(not hook.addresses.keys().isdisjoint(model.modules()) for hook in _active.get())


# Parts of module paths that addresses leave out or shorten: `encoder.3.self` is the same address with every BERT head.
SHORT = {"self_attention": "self", "cross_attention": "cross", "attention_hook": "", "hook": "", "bert": ""}


def addresses_of(model: nn.Module | Traceable) -> dict[nn.Module, str]:
    """Return every hook point of a model, or of a predictor's model, with its address, a shortened module path."""
    addresses: dict[nn.Module, str] = {}
    for path, module in (model if isinstance(model, nn.Module) else model.trace_root).named_modules():
        if isinstance(module, HookPoint | AttentionHook):
            words = [SHORT.get(word, word.removesuffix("_hook")) for word in path.split(".")]
            addresses[module] = ".".join(word for word in words if word)
    return addresses


def streams(address: str) -> tuple[str, str]:
    """Return the token streams ("encoder" or "decoder") of the queries and of the keys at an attention address."""
    stack = address.split(".")[0]
    return (stack, "encoder") if address.endswith(".cross") else (stack, stack)
