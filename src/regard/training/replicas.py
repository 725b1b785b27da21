"""Gradients of one batch, computed by several threads that share one model.

A small model's operations are too short to be cut up well: two threads that meet after every operation wait for each
other more than they compute, and one busy neighbour stops both. So each thread takes a share of the *rows*, goes
through the whole forward and backward pass by itself, and they meet once, to add their gradients. The weights are
shared and only read meanwhile.

The result is a function of the batch, the seed and the number of threads: shares are added in a fixed order, and each
draws from a generator of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.models.bert import HeadedBert
from regard.nn.dropout import drawing_from
from regard.nn.threads import one_thread
from regard.tasks.task import Task

MOST = 8  # threads
SMALLEST = 2048  # padded tokens of a share; with less, Python's own lock holds the threads up
SEEDS = 1_000  # seeds kept for the shares of one step


@dataclass(frozen=True)
class Step:
    """What a batch gave."""

    plain: float  # mean cross-entropy
    tokens: int


def choose_replicas(batch_tokens: int) -> int:
    """One for each of torch's threads, if their shares are large enough, otherwise a single one."""
    threads = torch.get_num_threads()
    return threads if batch_tokens >= SMALLEST * threads else 1


class Replicas:
    """Several threads for one task. With a single one, torch's own threads share each operation."""

    def __init__(self, task: Task[Any], count: int) -> None:
        self.task = task
        self.count = max(1, min(count, MOST))
        self._params: list[nn.Parameter] = [param for param in task.model.parameters() if param.requires_grad]
        self._tables: dict[nn.Parameter, _Table] = {}
        if isinstance(task.model, HeadedBert):
            task.model.bert.embedding.sparse = True
        self._pool: ThreadPoolExecutor | None = None

    def backward(self, rows: Sequence[int], seed: int) -> Step:
        """Fill the gradients of the task's model for the examples at `rows`."""
        shares = self._shares(rows)
        seeds = [(seed * SEEDS + number) % 2**63 for number in range(len(shares))]
        if len(shares) == 1:
            results = [self._share(shares[0], seeds[0])]
        else:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.count)
            results = list(self._pool.map(self._single_threaded_share, shares, seeds))
        tokens = sum(tokens for _, _, tokens in results)
        plain = sum(plain * count for _, plain, count in results) / tokens
        self._add([gradients for gradients, _, _ in results], [count / tokens for _, _, count in results])
        return Step(plain, tokens)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def _single_threaded_share(self, rows: Sequence[int], seed: int) -> tuple[tuple[Tensor | None, ...], float, int]:
        # In the worker: an initialiser of the pool may come late, and would then limit the rest of the process.
        with one_thread():
            return self._share(rows, seed)

    def _share(self, rows: Sequence[int], seed: int) -> tuple[tuple[Tensor | None, ...], float, int]:
        device = self._params[0].device
        if device.type != "cpu":
            torch.manual_seed(seed)
        with drawing_from(torch.Generator().manual_seed(seed)):
            loss = self.task.loss(rows)
            gradients = torch.autograd.grad(loss.train, self._params, allow_unused=True)
        return gradients, loss.plain.item(), loss.tokens

    def _add(self, shares: Sequence[tuple[Tensor | None, ...]], weights: Sequence[float]) -> None:
        """The gradients of all shares together, each by its weight; of a single share they are what they are."""
        if len(shares) == 1:
            shares = [tuple(unshared(shares[0]))]
        for param, *gradients in zip(self._params, *shares, strict=True):
            there = [
                (gradient, weight) for gradient, weight in zip(gradients, weights, strict=True) if gradient is not None
            ]
            if there and there[0][0].is_sparse:
                if param not in self._tables:
                    self._tables[param] = _Table(param)
                param.grad = self._tables[param].filled(there)
            elif len(shares) == 1:
                param.grad = gradients[0]
            else:
                param.grad = None
                for gradient, weight in there:
                    param.grad = gradient * weight if param.grad is None else param.grad.add_(gradient, alpha=weight)

    def _shares(self, rows: Sequence[int]) -> list[Sequence[int]]:
        """The rows dealt out like cards from short to long, so that every share is as wide as the others."""
        ordered = sorted(rows, key=lambda row: (self.task.size(row)[::-1], row))
        return [share for share in (ordered[number :: self.count] for number in range(self.count)) if share]


def unshared(gradients: Iterable[Tensor | None]) -> Iterator[Tensor | None]:
    """Gradients that may be changed in place: one that is a view, or that two parameters have in common, is copied."""
    seen = set()
    for gradient in gradients:
        if gradient is not None and not gradient.is_sparse:
            if not gradient.is_contiguous() or gradient.data_ptr() in seen:
                gradient = gradient.clone(memory_format=torch.contiguous_format)
            seen.add(gradient.data_ptr())
        yield gradient


class _Table:
    """The gradient of a large table of which a step looks up few rows: only those are written, and cleared again.

    A new gradient for every step would be cleared as a whole, and be as large as all others together.
    """

    def __init__(self, param: nn.Parameter) -> None:
        self.gradient = torch.zeros_like(param)
        self.rows: list[Tensor] = []  # that are not zero

    def filled(self, shares: Sequence[tuple[Tensor, float]]) -> Tensor:
        """The sum of sparse gradients, each by its weight."""
        for rows in self.rows:
            self.gradient.index_fill_(0, rows, 0.0)
        self.rows = []
        for share, weight in shares:
            rows, values = share._indices()[0], share._values()
            self.gradient.index_add_(0, rows, values, alpha=weight)
            self.rows.append(rows)
        return self.gradient
