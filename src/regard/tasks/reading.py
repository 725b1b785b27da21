"""Many texts through one encoder: texts of like length together, and each batch in a thread of its own.

Reading is bound by arithmetic, so what is computed for padding is lost: texts are sorted, and a batch holds texts of
one length, or of nearly one where there are few. Threads that share every operation wait for each other after each of
them; here each takes whole batches and they never meet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch
from torch import Tensor

from regard.nn.threads import one_thread

R = TypeVar("R")

LARGEST = 2048  # tokens of a batch: more do not make the matrix products faster
SMALLEST = 256  # fewer make them slower: then texts of other lengths join, and are padded


def alike(lengths: Sequence[int], *, shares: int = 1) -> list[list[int]]:
    """The numbers of the texts, dealt into batches of like length, the longest first; at least `shares` if possible."""
    largest = min(LARGEST, max(SMALLEST, -(-sum(lengths) // shares)))
    found: list[list[int]] = []
    for number in sorted(range(len(lengths)), key=lambda number: (-lengths[number], number)):
        if not (found and _joins(lengths[number], len(found[-1]), lengths[found[-1][0]], largest)):
            found.append([])
        found[-1].append(number)
    return found


def _joins(length: int, texts: int, longest: int, largest: int) -> bool:
    """Whether a text of `length` joins a batch of so many texts, padded to `longest`."""
    if (texts + 1) * longest > largest:
        return False
    return length == longest or texts * longest < SMALLEST


def padded(rows: Sequence[Sequence[int]], pad_id: int, device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Rows of ids side by side, and how many of each are real; None if all are."""
    longest = max(map(len, rows))
    ids = torch.tensor([[*row, *[pad_id] * (longest - len(row))] for row in rows], device=device)
    lengths = [len(row) for row in rows]
    return ids, None if min(lengths) == longest else torch.tensor(lengths, device=device)


def in_threads(run: Callable[[list[int]], R], batches: Sequence[list[int]]) -> Iterator[R]:
    """`run` of each batch, in order; as many at a time as torch has threads, each computed by one of them."""
    threads = min(torch.get_num_threads(), len(batches))
    if threads < 2:
        yield from map(run, batches)
        return
    with one_thread(), ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        yield from pool.map(run, batches)
