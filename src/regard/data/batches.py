"""Split examples into training and validation, and group rows of similar length into batches.

The batches depend only on lengths, seed and epoch, so a resumed run continues with the same batches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.utils.errors import DataError, UsageError, number_of

ROW_POOL = 50  # number of batches whose rows `row_batches` sorts by length together

Lengths = Sequence[int] | Sequence[tuple[int, int]]
Array = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, kw_only=True)
class BatchPlan:
    """The settings for grouping examples into batches.

    With `world_size` processes, each process gets every world_size-th batch, and all get the same number of batches. If
    the number of batches is not a multiple of `world_size`, the first batches are used twice.
    """

    max_tokens: int  # padded size of a batch: rows × (longest source + longest target)
    seed: int = 0
    shuffle: bool = True  # False means that every epoch has the same batches, from short to long
    pool_batches: int = 100  # number of batches whose examples are sorted by length together
    rank: int = 0  # index of this process
    world_size: int = 1  # number of processes

    def __post_init__(self) -> None:
        for name, least in (("max_tokens", 1), ("pool_batches", 1), ("world_size", 1), ("seed", 0), ("rank", 0)):
            _require(name, getattr(self, name), least)
        if self.rank >= self.world_size:
            message = f"rank must be below world_size ({self.world_size}), got {self.rank}."
            raise UsageError(message, argument="rank", value=self.rank)

    def batches(self, lengths: Lengths, epoch: int) -> list[list[int]]:
        """Return the batches of an epoch as lists of indices into `lengths`, with at most `max_tokens` in each.

        A length is a number or a pair (source, target). The size of a batch is rows × longest row, or for pairs rows ×
        (longest source + longest target). A row that exceeds the limit becomes a batch with one row.

        Examples are shuffled and divided into pools of about `pool_batches` batches. Each pool is sorted by length,
        with ties in random order, and split into batches; the first batch has a random size. Then the batches are
        shuffled. So the rows of a batch have similar lengths, and the batches differ between epochs. Each index is in
        exactly one batch.
        """
        _require("epoch", epoch, 0)
        sizes = _as_columns(lengths)
        if not len(sizes):
            return []
        generator = np.random.default_rng([self.seed, epoch])
        batches: list[list[int]] = []
        pools = [np.arange(len(sizes))]
        if self.shuffle:
            num_pools = max(1, round(int(sizes.sum()) / (self.max_tokens * self.pool_batches)))
            pools = np.array_split(generator.permutation(len(sizes)), min(len(sizes), num_pools))
        for pool in pools:
            # A first batch of half to full size shifts all later batch boundaries, so that epochs differ.
            first = self.max_tokens
            if self.shuffle:
                first = int(generator.integers(self.max_tokens // 2, self.max_tokens + 1))
            batches.extend(_cut(sizes, _sorted_by_length(sizes, pool), self.max_tokens, first))
        if self.shuffle:
            batches = [batches[place] for place in generator.permutation(len(batches))]
        return self._share(batches)

    def row_batches(self, lengths: Sequence[int], rows: int, epoch: int) -> list[list[int]]:
        """Return the batches of an epoch, each with `rows` examples of similar length; one batch may have fewer.

        Examples are shuffled and divided into pools; each pool is sorted by length, and the batches are shuffled.
        """
        _require("rows", rows, 1)
        sizes = np.asarray(lengths, dtype=np.int64)
        generator = np.random.default_rng([self.seed, epoch])
        shuffled = generator.permutation(len(sizes))
        pool = rows * ROW_POOL
        order = [
            place
            for start in range(0, len(shuffled), pool)
            for place in sorted(shuffled[start : start + pool].tolist(), key=lambda place: -sizes[place])
        ]
        batches = [order[start : start + rows] for start in range(0, len(order), rows)]
        return self._share([batches[place] for place in generator.permutation(len(batches))])

    def _share(self, batches: list[list[int]]) -> list[list[int]]:
        """Return the batches of this process."""
        rounds = -(-len(batches) // self.world_size)
        return [batches[(turn * self.world_size + self.rank) % len(batches)] for turn in range(rounds)]


def _require(name: str, value: int, least: int) -> None:
    if value < least:
        raise UsageError(f"{name} must be at least {least}, got {value}.", argument=name, value=value)


def _as_columns(lengths: Lengths) -> Array:
    """Convert lengths to an array with the shape (examples, 1) or (examples, 2)."""
    try:
        sizes: Array = np.asarray(lengths, dtype=np.int64)
    except (TypeError, ValueError) as problem:
        raise UsageError(f"lengths must be numbers or pairs of numbers ({problem}).", argument="lengths") from problem
    if sizes.size == 0:
        return np.zeros((0, 1), dtype=np.int64)
    if sizes.ndim == 1:
        sizes = sizes[:, None]
    if sizes.ndim != 2 or sizes.shape[1] > 2:
        raise UsageError(f"lengths must be numbers or pairs, got an array of shape {sizes.shape}.", argument="lengths")
    if sizes.min() < 0:
        raise UsageError("lengths must be at least 0.", argument="lengths", value=int(sizes.min()))
    return sizes


def _sorted_by_length(sizes: Array, pool: Array) -> Array:
    """Sort `pool` by the longer of the two lengths, then by their difference, alternately ascending and descending.

    Alternating the direction keeps neighbors similar in both lengths, which saves padding in source and target.
    """
    first, last = sizes[pool, 0], sizes[pool, -1]
    longer, difference = np.maximum(first, last), first - last
    turned = np.where(longer % 2 == 0, difference, -difference)
    return pool[np.lexsort((turned, longer))]


def _cut(sizes: Array, order: Array, max_tokens: int, first_tokens: int) -> list[list[int]]:
    """Split `order` into batches of at most `max_tokens`; the first batch has at most `first_tokens`."""
    batches: list[list[int]] = []
    batch: list[int] = []
    longest_first = longest_last = 0
    limit = first_tokens
    paired = sizes.shape[1] == 2
    for index, (first, last) in zip(order.tolist(), sizes[order][:, [0, -1]].tolist(), strict=True):
        longest_first, longest_last = max(longest_first, first), max(longest_last, last)
        width = longest_first + longest_last if paired else longest_last
        if batch and (len(batch) + 1) * width > limit:
            batches.append(batch)
            batch, limit = [], max_tokens
            longest_first, longest_last = first, last
        batch.append(index)
    batches.append(batch)
    return batches


def validation_size(count: int, fraction: float, maximum: int) -> int:
    """The number of validation examples: a fraction of `count`, at most `maximum`."""
    if not 0 < fraction < 1:
        message = f"val_fraction must be between 0 and 1, such as 0.1, not {fraction}."
        raise UsageError(message, argument="val_fraction", value=fraction)
    return min(round(fraction * count), maximum)


def split_validation(
    count: int, *, fraction: float = 0.05, maximum: int = 2000, seed: int = 0, kinds: Sequence[object] | None = None
) -> tuple[list[int], list[int]]:
    """Indices (train, validation) of `count` examples, each in ascending order.

    A random `fraction` of the examples, at least 1 and at most `maximum`, is for validation. If the `kinds` of examples
    are given, such as their labels, the fraction is the same for each kind.
    """
    num_validation = validation_size(count, fraction, maximum)
    _require("maximum", maximum, 1)
    _require("seed", seed, 0)
    if count < 2:
        message = f"{number_of(count, 'example')} cannot be split into training and validation. Give more examples."
        raise DataError(message, value=count)
    num_validation = max(1, min(num_validation, count - 1))
    shuffled = np.random.default_rng(seed).permutation(count).tolist()
    if kinds is None:
        return sorted(shuffled[num_validation:]), sorted(shuffled[:num_validation])
    numbers = {kind: number for number, kind in enumerate(dict.fromkeys(kinds))}
    by_kind = sorted(shuffled, key=lambda index: numbers[kinds[index]])
    validation = {by_kind[(2 * place + 1) * count // (2 * num_validation)] for place in range(num_validation)}
    return [index for index in range(count) if index not in validation], sorted(validation)


def hold_out(
    keys: Sequence[Hashable],
    labels: Sequence[Iterable[str]],
    *,
    fraction: float = 0.05,
    kinds: Sequence[object] | None = None,
) -> tuple[list[int], list[int]]:
    """Indices (train, validation) as in `split_validation`, but without leaks and without labels that occur only in
    validation.

    Examples with equal `keys`, such as equal texts, go to the same split. Each of the `labels` keeps at least one
    training example.
    """
    groups: dict[Hashable, list[int]] = {}
    for index, key in enumerate(keys):
        groups.setdefault(key, []).append(index)
    members = list(groups.values())
    group_labels = [{label for index in group for label in labels[index]} for group in members]
    num_train = Counter(label for names in group_labels for label in names)
    free = [place for place, names in enumerate(group_labels) if all(num_train[label] > 1 for label in names)]
    if len(members) < 2 or not free:
        why = "each is the only example of one of its labels" if len(members) > 1 else "all of them are equal"
        advice = "Give more examples, or a validation file."
        message = f"none of {len(keys):,} examples can be held out for validation: {why}. {advice}"
        raise DataError(message, value=len(keys))
    chosen = [0]
    if len(free) > 1:
        free_kinds = None if kinds is None else [kinds[members[place][0]] for place in free]
        _, chosen = split_validation(len(free), fraction=fraction, kinds=free_kinds)
    validation: set[int] = set()
    for place in (free[number] for number in chosen):
        if all(num_train[label] > 1 for label in group_labels[place]):
            num_train.subtract(group_labels[place])
            validation.update(members[place])
    return [index for index in range(len(keys)) if index not in validation], sorted(validation)
