"""Which examples go into which batch: by tokens, with rows of like length together, repeatable.

A plan is a function of lengths, seed and epoch alone, so that a resumed run finds its place again. Nothing
here touches an example, a tensor or a file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.errors import DataError, UsageError

Lengths = Sequence[int] | Sequence[tuple[int, int]]
Array = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, kw_only=True)
class BatchPlan:
    """The settings of `token_batches` that stay the same from epoch to epoch."""

    max_tokens: int  # the padded size of a batch: rows × (longest source + longest target)
    seed: int = 0  # another seed gives other batches
    shuffle: bool = True  # off: batches from short to long, the same in every epoch
    pool_batches: int = 100  # so many batches' worth of examples are sorted by length together
    rank: int = 0  # which process this is
    world_size: int = 1  # how many processes share the batches

    def batches(self, lengths: Lengths, epoch: int) -> list[list[int]]:
        """The batches of one epoch: lists of indices into `lengths`."""
        return token_batches(
            lengths,
            max_tokens=self.max_tokens,
            seed=self.seed,
            epoch=epoch,
            shuffle=self.shuffle,
            pool_batches=self.pool_batches,
            rank=self.rank,
            world_size=self.world_size,
        )


def token_batches(
    lengths: Lengths,
    *,
    max_tokens: int,
    seed: int,
    epoch: int,
    shuffle: bool = True,
    pool_batches: int = 100,
    rank: int = 0,
    world_size: int = 1,
) -> list[list[int]]:
    """Cut the indices of `lengths` into batches of at most `max_tokens` padded tokens.

    A length is a number, or a pair (source, target); a batch costs its rows × its longest row, for pairs
    rows × (longest source + longest target). A row that is over the limit alone is a batch of its own.

    The examples are shuffled and dealt into pools of about `pool_batches` batches; each pool is sorted by
    length (ties stay shuffled) and cut, the first batch at a random size; the batches are shuffled. So rows
    in a batch are of like length, and their company changes from epoch to epoch. Each index occurs once.

    With `world_size` processes, each gets every world_size-th batch, all the same number: where the batches
    do not divide evenly, the first few are given out a second time.
    """
    sizes = _as_columns(lengths)
    _check(max_tokens=max_tokens, pool_batches=pool_batches, rank=rank, world_size=world_size)
    if seed < 0 or epoch < 0:
        raise UsageError(f"seed is {seed} and epoch is {epoch}; both must be 0 or more.")
    if not len(sizes):
        return []
    generator = np.random.default_rng([seed, epoch])
    batches: list[list[int]] = []
    pools = _pools(sizes, generator, max_tokens * pool_batches) if shuffle else [np.arange(len(sizes))]
    for pool in pools:
        # A first batch of half to full size shifts all cuts after it: neighbours part in another epoch.
        first_tokens = int(generator.integers(max_tokens // 2, max_tokens + 1)) if shuffle else max_tokens
        batches.extend(_cut(sizes, _sorted_by_length(sizes, pool), max_tokens, first_tokens))
    if shuffle:
        batches = [batches[place] for place in generator.permutation(len(batches))]
    return _share_of_rank(batches, rank, world_size)


def row_batches(
    lengths: Sequence[int],
    *,
    rows: int,
    seed: int,
    epoch: int,
    pool_batches: int = 50,
    rank: int = 0,
    world_size: int = 1,
) -> list[list[int]]:
    """Batches of `rows` examples of like length; the last one may have fewer.

    The examples are shuffled and dealt into pools of `pool_batches` batches; each pool is sorted by length, and the
    batches are shuffled. Each index occurs once, and processes share the batches as `token_batches` has it.
    """
    _check(max_tokens=rows, pool_batches=pool_batches, rank=rank, world_size=world_size)
    sizes = np.asarray(lengths, dtype=np.int64)
    generator = np.random.default_rng([seed, epoch])
    shuffled = generator.permutation(len(sizes))
    pool = rows * pool_batches
    order = [
        place
        for start in range(0, len(shuffled), pool)
        for place in sorted(shuffled[start : start + pool].tolist(), key=lambda place: -sizes[place])
    ]
    batches = [order[start : start + rows] for start in range(0, len(order), rows)]
    return _share_of_rank([batches[place] for place in generator.permutation(len(batches))], rank, world_size)


def split_validation(
    count: int, *, share: float = 0.05, maximum: int = 2000, seed: int = 0, kinds: Sequence[object] | None = None
) -> tuple[list[int], list[int]]:
    """Indices (train, validation) of `count` examples, each in ascending order.

    `share` of the examples, `maximum` at most and 1 at least, are drawn for validation. Where the kind of each example
    is given, such as its label, every kind gives its share.
    """
    if not 0.0 < share < 1.0:
        raise UsageError(f"share is {share}; it must lie between 0 and 1, as 0.05 does.")
    if maximum < 1:
        raise UsageError(f"maximum is {maximum}; at least 1 example is needed for validation.")
    if seed < 0:
        raise UsageError(f"seed is {seed}; it must be 0 or more.")
    if count < 2:
        raise DataError(
            f"{count} example{'' if count == 1 else 's'} cannot be split into training and validation; "
            "at least 2 are needed. Give more examples, or a validation file of their own."
        )
    num_validation = min(max(1, round(count * share)), maximum, count - 1)
    drawn = np.random.default_rng(seed).permutation(count).tolist()
    if kinds is None:
        return sorted(drawn[num_validation:]), sorted(drawn[:num_validation])
    numbers = {kind: number for number, kind in enumerate(dict.fromkeys(kinds))}
    by_kind = sorted(drawn, key=lambda index: numbers[kinds[index]])
    held = {by_kind[(2 * place + 1) * count // (2 * num_validation)] for place in range(num_validation)}
    return [index for index in range(count) if index not in held], sorted(held)


def hold_out(
    keys: Sequence[Hashable],
    labels: Sequence[Iterable[str]],
    *,
    share: float = 0.05,
    kinds: Sequence[object] | None = None,
) -> tuple[list[int], list[int]]:
    """Indices (train, validation) as `split_validation` draws them, but so that validation is a fair test.

    Examples with equal `keys`, such as equal texts, stay together: what was learned by heart is no answer. And each of
    the `labels` keeps an example in training, without which it could not be learned.
    """
    groups: dict[Hashable, list[int]] = {}
    for index, key in enumerate(keys):
        groups.setdefault(key, []).append(index)
    members = list(groups.values())
    borne = [{label for index in group for label in labels[index]} for group in members]
    left = Counter(label for found in borne for label in found)
    free = [place for place, found in enumerate(borne) if all(left[label] > 1 for label in found)]
    if len(members) < 2 or not free:
        why = "each is the only one with some label" if len(members) > 1 else "no two of them differ"
        raise DataError(
            f"none of {len(keys):,} examples can be held out for validation: {why}. Give more examples, or a "
            "validation file of their own."
        )
    drawn = [0]
    if len(free) > 1:
        free_kinds = None if kinds is None else [kinds[members[place][0]] for place in free]
        _, drawn = split_validation(len(free), share=share, kinds=free_kinds)
    held: set[int] = set()
    for place in (free[number] for number in drawn):
        if all(left[label] > 1 for label in borne[place]):
            left.subtract(borne[place])
            held.update(members[place])
    return [index for index in range(len(keys)) if index not in held], sorted(held)


def _as_columns(lengths: Lengths) -> Array:
    """Lengths as (examples, 1 or 2)."""
    try:
        sizes: Array = np.asarray(lengths, dtype=np.int64)
    except (TypeError, ValueError) as problem:
        raise UsageError(f"lengths must be numbers, or pairs of numbers ({problem}).") from problem
    if sizes.size == 0:
        return np.zeros((0, 1), dtype=np.int64)
    if sizes.ndim == 1:
        sizes = sizes[:, None]
    if sizes.ndim != 2 or sizes.shape[1] > 2:
        raise UsageError(f"lengths must be numbers, or pairs of numbers; got the shape {sizes.shape}.")
    if sizes.min() < 0:
        where = int(sizes.min(axis=1).argmin())
        raise UsageError(f"length {where} is {sizes[where].tolist()}; a length cannot be negative.")
    return sizes


def _check(*, max_tokens: int, pool_batches: int, rank: int, world_size: int) -> None:
    for name, value in (
        ("max_tokens", max_tokens),
        ("pool_batches", pool_batches),
        ("world_size", world_size),
    ):
        if value < 1:
            raise UsageError(f"{name} is {value}; it must be 1 or more.")
    if not 0 <= rank < world_size:
        raise UsageError(f"rank is {rank}; with world_size {world_size} it runs from 0 to {world_size - 1}.")


def _pools(sizes: Array, generator: np.random.Generator, pool_tokens: int) -> list[Array]:
    """The examples in random order, cut into equal pools of about `pool_tokens` tokens."""
    shuffled = generator.permutation(len(sizes))
    number = min(len(sizes), max(1, round(int(sizes.sum()) / pool_tokens)))
    return np.array_split(shuffled, number)


def _sorted_by_length(sizes: Array, pool: Array) -> Array:
    """By the longer of the two lengths, and where that is equal by their difference, up and down in turn.

    Turning round keeps neighbours alike in both lengths, so that little is padded on either side.
    """
    first, last = sizes[pool, 0], sizes[pool, -1]
    longer, difference = np.maximum(first, last), first - last
    turned = np.where(longer % 2 == 0, difference, -difference)
    return pool[np.lexsort((turned, longer))]


def _cut(sizes: Array, order: Array, max_tokens: int, first_tokens: int) -> list[list[int]]:
    batches: list[list[int]] = []
    batch: list[int] = []
    longest_first = longest_last = 0
    limit = first_tokens
    paired = sizes.shape[1] == 2
    for index, (first, last) in zip(order.tolist(), sizes[order][:, [0, -1]].tolist(), strict=True):
        reach_first, reach_last = max(longest_first, first), max(longest_last, last)
        width = reach_first + reach_last if paired else reach_last
        if batch and (len(batch) + 1) * width > limit:
            batches.append(batch)
            batch = []
            limit = max_tokens
            reach_first, reach_last = first, last
        batch.append(index)
        longest_first, longest_last = reach_first, reach_last
    batches.append(batch)
    return batches


def _share_of_rank(batches: list[list[int]], rank: int, world_size: int) -> list[list[int]]:
    rounds = -(-len(batches) // world_size)
    return [batches[(turn * world_size + rank) % len(batches)] for turn in range(rounds)]
