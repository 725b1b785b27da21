"""Which examples are for training and which for validation, where the user gives no validation file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from regard.utils.errors import DataError, UsageError, number_of


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
    for name, value, least in (("maximum", maximum, 1), ("seed", seed, 0)):
        if value < least:
            raise UsageError(f"{name} is {value}; it must be at least {least}.", argument=name, value=value)
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
    """Indices (train, validation) as in `split_validation`, but without leaks and without labels that are not trained.

    Examples with equal `keys`, such as equal texts, go to the same side. Each of the `labels` keeps at least one
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
        why = "each is the only one with some label" if len(members) > 1 else "they are all the same"
        raise DataError(
            f"none of {len(keys):,} examples can be held out for validation: {why}. Give more examples, or a "
            "validation file.",
            value=len(keys),
        )
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
