"""Looking inside and changing what is inside, without a trace left behind.

A model carries taps: places where a value may be seen or replaced. Each has an address such as `decoder.2.cross`.

- `with capture(model) as trace:` records, at every attention, a *recipe*: the scorer, the queries and keys as
  they were scored, and the keep. The forward pass stays what it is; weights are computed from the recipe
  only for the layer, heads and rows that somebody reads. So memory grows with tokens × width.
- `with edit(model, address, change):` replaces a tapped value for the block: `change(value) -> value`.
- `with observe(model, address, …) as seen:` keeps tapped values as they pass, unchanged.

Who watches is held in a `ContextVar`, so threads and nested blocks do not see each other's watchers, and nothing
stays on the model. Compiled code has no taps: inside the block the eager path runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import torch
from torch import Tensor, nn

from regard.errors import UsageError, unknown
from regard.nn.attention import attention_weights
from regard.nn.masks import Keep
from regard.nn.scoring import Scorer

Change = Callable[[Tensor], Tensor]


class _Watcher(Protocol):
    """Sees what passes through the taps of one model."""

    @property
    def addresses(self) -> Mapping[nn.Module, str]: ...

    def see(self, address: str, recipe: ScoreRecipe) -> None: ...

    def changes(self, address: str) -> Change | None: ...


_watchers: ContextVar[tuple[_Watcher, ...]] = ContextVar("regard_watchers", default=())


class Tap(nn.Module):
    """Passes a value on; inside an `edit` block, the changed one."""

    def forward(self, x: Tensor) -> Tensor:
        if torch.compiler.is_compiling():
            return x
        for watcher in _watchers.get():
            address = watcher.addresses.get(self)
            change = watcher.changes(address) if address is not None else None
            if change is not None:
                x = change(x)
        return x


class AttentionTap(nn.Module):
    """Sees the recipe of an attention. Gives weights only if an `edit` block changed them, otherwise None."""

    def forward(self, scorer: Scorer, q: Tensor, k: Tensor, keep: Keep) -> Tensor | None:
        if torch.compiler.is_compiling():
            return None
        weights = None
        for watcher in _watchers.get():
            address = watcher.addresses.get(self)
            if address is None:
                continue
            recipe = ScoreRecipe(address, scorer, q, k, keep)
            watcher.see(address, recipe)
            change = watcher.changes(address)
            if change is not None:
                weights = change(recipe.weights() if weights is None else weights)
        return weights


@dataclass(frozen=True)
class ScoreRecipe:
    """All it takes to compute the weights of one attention: kept instead of the weights."""

    address: str
    scorer: Scorer
    q: Tensor  # (B, H, T, Dh), after rotation and norms
    k: Tensor  # (B, H or fewer, S, Dh)
    keep: Keep

    def weights(
        self,
        *,
        batch: int | slice = slice(None),
        heads: int | Sequence[int] | None = None,
        rows: int | slice | Sequence[int] | None = None,
    ) -> Tensor:
        """The weights that were asked for, and no others: (B, H, T, S), before dropout."""
        texts, num_heads, num_rows = self.q.shape[:3]
        one = _picked(batch, texts)
        q, k, keep = self.q[one], self.k[one], self.keep.select(one)
        if heads is not None:
            chosen = _picked(heads, num_heads)
            q, k = q[:, chosen], k[:, chosen // (num_heads // self.k.shape[1])]
            keep = keep.select_heads(chosen)
        if rows is None:
            return attention_weights(q, k, keep, scorer=self.scorer)
        # A causal keep counts from the last key: rows are picked from the dense mask, which knows all positions.
        asked = _picked(rows, num_rows)
        kept = keep.dense(num_rows, self.k.shape[2], q.device)
        if kept.shape[2] != 1:
            kept = kept[:, :, asked]
        return attention_weights(q[:, :, asked], k, Keep(mask=kept), scorer=self.scorer)


def _picked(which: int | slice | Sequence[int], count: int) -> Tensor:
    """The chosen ones of `count` things, as non-negative numbers; -1 is the last."""
    everything = torch.arange(count)
    if isinstance(which, slice):
        return everything[which]
    chosen = [which] if isinstance(which, int) else list(which)
    if any(not -count <= one < count for one in chosen):
        raise UsageError(f"{chosen} asks for something that is not there: there are {count}, numbered from 0.")
    return everything[chosen]


@dataclass
class Trace:
    """What `capture` saw: recipes by address, with the tokens of both axes."""

    addresses: Mapping[nn.Module, str]
    tokens: Mapping[str, Sequence[Sequence[str]]]  # stream ("encoder", "decoder") → a row of tokens for each text
    keep_graph: bool = False
    recipes: dict[str, ScoreRecipe] = field(default_factory=dict)

    def see(self, address: str, recipe: ScoreRecipe) -> None:
        if not self.keep_graph:
            recipe = ScoreRecipe(address, recipe.scorer, recipe.q.detach(), recipe.k.detach(), recipe.keep)
        self.recipes[address] = recipe

    def changes(self, address: str) -> Change | None:
        return None

    def __getitem__(self, address: str) -> ScoreRecipe:
        self._check_captured()
        if address not in self.recipes:
            raise unknown("address", address, self.recipes)
        return self.recipes[address]

    def weights(
        self, address: str, *, batch: int = 0, heads: int | Sequence[int] | None = None, rows: object = None
    ) -> Tensor:
        """The weights of one text at one address: (H, T, S)."""
        return self[address].weights(batch=batch, heads=heads, rows=rows)[0]  # type: ignore[arg-type]

    def labels(self, address: str, batch: int = 0) -> tuple[list[str], list[str]]:
        """The tokens that ask and the tokens that are looked at."""
        recipe = self[address]
        asks, looked_at = streams(address)
        return (
            self._tokens(asks, batch, recipe.q.shape[2]),
            self._tokens(looked_at, batch, recipe.k.shape[2]),
        )

    def attentions(self, kind: str) -> tuple[Tensor, ...]:
        """All weights of `encoder.self`, `decoder.self` or `decoder.cross`: per layer (B, H, T, S).

        This is the shape that other tools of the field expect; it costs tokens².
        """
        self._check_captured()
        stack, _, which = kind.partition(".")
        found = [r for a, r in self.recipes.items() if a.startswith(f"{stack}.") and a.endswith(f".{which}")]
        if not found:
            kinds = {f"{a.split('.')[0]}.{a.split('.')[-1]}" for a in self.recipes}
            raise unknown("kind of attention", kind, kinds)
        return tuple(recipe.weights() for recipe in found)

    def _check_captured(self) -> None:
        if not self.recipes:
            raise UsageError("nothing was captured: run the model inside the `with capture(model)` block.")

    def _tokens(self, stream: str, batch: int, count: int) -> list[str]:
        rows = self.tokens.get(stream)
        if rows is None:
            return [str(i) for i in range(count)]
        if not -len(rows) <= batch < len(rows):
            raise UsageError(f"there are tokens of {len(rows)} texts in the {stream}, so there is no text {batch}.")
        return list(rows[batch])[:count]


@dataclass(frozen=True)
class _Edit:
    addresses: Mapping[nn.Module, str]
    address: str
    change: Change

    def see(self, address: str, recipe: ScoreRecipe) -> None:
        pass

    def changes(self, address: str) -> Change | None:
        return self.change if address == self.address else None


@contextlib.contextmanager
def capture(
    model: nn.Module, *, tokens: Mapping[str, Sequence[Sequence[str]]] | None = None, grad: bool = False
) -> Iterator[Trace]:
    """Record every attention of `model` inside the block. A second forward pass replaces the first."""
    trace = Trace(addresses_of(model), tokens or {}, keep_graph=grad)
    with _watching(trace):
        yield trace


@contextlib.contextmanager
def edit(model: nn.Module, address: str, change: Change) -> Iterator[None]:
    """Replace the value at `address` by `change(value)` inside the block.

    At an attention's own address (`decoder.2.cross`) the value is its weights (B, H, T, S); at
    `decoder.2.cross.input` it is what enters it (B, T, D), at `.memory` what a cross-attention looks at (B, S, D),
    at `.values` V (B, H or fewer, S, Dh), at `.heads` what each head gives (B, H, T, Dh); at
    `decoder.2.feed_forward` what the feed-forward gives, and at `decoder.2` what leaves the block (B, T, D).
    """
    addresses = addresses_of(model)
    if address not in addresses.values():
        raise unknown("address", address, addresses.values())
    with _watching(_Edit(addresses, address, change)):
        yield


@dataclass(frozen=True)
class _Observer:
    addresses: Mapping[nn.Module, str]
    wanted: frozenset[str]
    seen: dict[str, Tensor] = field(default_factory=dict)

    def see(self, address: str, recipe: ScoreRecipe) -> None:
        pass

    def changes(self, address: str) -> Change | None:
        return partial(self._note, address) if address in self.wanted else None

    def _note(self, address: str, value: Tensor) -> Tensor:
        self.seen[address] = value.detach()
        return value


@contextlib.contextmanager
def observe(model: nn.Module, *wanted: str) -> Iterator[dict[str, Tensor]]:
    """Keep the values at `wanted`, the addresses that `edit` knows: the last one that passed at each.

    An attention's own address is not among them: its weights do not exist before somebody computes them, which is
    what `capture` is for.
    """
    addresses = addresses_of(model)
    known = [address for tap, address in addresses.items() if isinstance(tap, Tap)]
    for address in wanted:
        if address not in known:
            raise unknown("address", address, known)
    observer = _Observer(addresses, frozenset(wanted))
    with _watching(observer):
        yield observer.seen


@contextlib.contextmanager
def _watching(watcher: _Watcher) -> Iterator[None]:
    _watchers.set((*_watchers.get(), watcher))
    try:
        yield
    finally:  # only this watcher goes, so that blocks may end in any order
        _watchers.set(tuple(other for other in _watchers.get() if other is not watcher))


def is_watched(model: nn.Module) -> bool:
    """Whether somebody captures, edits or observes this model now."""
    taps = {module for module in model.modules() if isinstance(module, Tap | AttentionTap)}
    return any(not taps.isdisjoint(watcher.addresses) for watcher in _watchers.get())


# Words of paths that addresses leave out or shorten. What is beside the encoder of a BERT is a small head, and
# `encoder.3.self` is the same place with every head.
SHORT = {"self_attention": "self", "cross_attention": "cross", "attention_tap": "", "tap": "", "bert": ""}


def addresses_of(model: nn.Module) -> dict[nn.Module, str]:
    """Every tap of a model with its address: the path of its module, in short words."""
    found: dict[nn.Module, str] = {}
    for path, module in model.named_modules():
        if isinstance(module, Tap | AttentionTap):
            words = [SHORT.get(word, word.removesuffix("_tap")) for word in path.split(".")]
            found[module] = ".".join(word for word in words if word)
    return found


def streams(address: str) -> tuple[str, str]:
    """Which stream of tokens asks and which is looked at, for an attention's address."""
    stack = address.split(".")[0]
    return (stack, "encoder") if address.endswith(".cross") else (stack, stack)
