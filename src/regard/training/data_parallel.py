"""The gradients of a batch, computed by several threads that share one model.

The operations of a small model are too short to be split among threads: the threads would wait for each other at every
operation. Here each thread takes a share of the *examples* and runs the whole forward and backward pass on one core;
the threads meet once, to add their gradients. The weights are shared and only read in the meantime.

Several micro-batches of a step are processed one after the other, and their gradients add up to those of one large
batch (gradient accumulation): each counts by the number of predictions that its loss averages over.

The result is a function of the batches, the seed and the number of threads: shares are added in a fixed order, and each
draws its random numbers from a generator of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.nn.dropout import use_generator
from regard.nn.threads import one_thread
from regard.training.objective import Objective

MAX_THREADS = 8
MIN_SHARE = 2048  # padded tokens of a share; with fewer, the GIL holds the threads up
SEEDS_PER_BATCH = 1_000  # one for each share
MICRO_BATCH_STRIDE = 0x1E3779B97F4A7C15  # between the seeds of two micro-batches of a step
NUM_SEEDS = 2**63


@dataclass(frozen=True)
class StepLoss:
    """The loss of one step."""

    plain: float  # mean cross-entropy
    tokens: int  # predictions that it averages over


class _Share(NamedTuple):
    """What one thread computed for its part of a micro-batch."""

    gradients: tuple[Tensor | None, ...]
    plain: float
    tokens: int


def choose_num_replicas(batch_tokens: int) -> int:
    """One for each of torch's threads if their shares are large enough, otherwise one."""
    threads = torch.get_num_threads()
    return threads if batch_tokens >= MIN_SHARE * threads else 1


class DataParallel:
    """Several threads for one objective. With a single one, torch's own threads split each operation."""

    def __init__(self, objective: Objective, count: int) -> None:
        self.objective = objective
        self.count = max(1, min(count, MAX_THREADS))
        self._params: list[nn.Parameter] = [param for param in objective.model.parameters() if param.requires_grad]
        self._tables: dict[nn.Parameter, _TableGradient] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._use_sparse_gradients(True)

    def backward(self, batches: Iterable[Sequence[int]], seed: int) -> StepLoss:
        """Set the gradients of the model to those of the mean loss over all examples of the (micro-)batches."""
        plain, total = 0.0, 0
        sparse: dict[nn.Parameter, list[tuple[Tensor, int]]] = {}
        for number, rows in enumerate(batches):
            shares = self._run(rows, seed * SEEDS_PER_BATCH + number * MICRO_BATCH_STRIDE)
            tokens = sum(share.tokens for share in shares)
            total += tokens
            plain += sum(share.plain * share.tokens for share in shares)
            for param, mean, table in self._means(shares, tokens):
                if table:
                    sparse.setdefault(param, []).extend(table)
                elif number == 0:
                    param.grad = mean
                elif mean is not None and param.grad is not None:
                    param.grad.lerp_(mean, tokens / total)
                elif mean is not None:
                    param.grad = mean * (tokens / total)
                elif param.grad is not None:
                    param.grad.mul_(1 - tokens / total)
        for param, gradients in sparse.items():
            if param not in self._tables:
                self._tables[param] = _TableGradient(param)
            param.grad = self._tables[param].fill([(gradient, count / total) for gradient, count in gradients])
        return StepLoss(plain / total, total)

    def close(self) -> None:
        self._use_sparse_gradients(False)
        if self._pool is not None:
            self._pool.shutdown()

    def _use_sparse_gradients(self, sparse: bool) -> None:
        for embedding in self.objective.sparse_embeddings:
            embedding.sparse = sparse

    def _run(self, rows: Sequence[int], seed: int) -> list[_Share]:
        """Forward and backward pass of one micro-batch, in as many threads as it has shares."""
        parts = self._split(rows)
        seeds = [(seed + number) % NUM_SEEDS for number in range(len(parts))]
        if len(parts) == 1:
            return [self._share(parts[0], seeds[0])]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.count)
        return list(self._pool.map(self._single_threaded_share, parts, seeds))

    def _single_threaded_share(self, rows: Sequence[int], seed: int) -> _Share:
        # In the worker: an initializer of the pool may run late, and would then limit the rest of the process.
        with one_thread():
            return self._share(rows, seed)

    def _share(self, rows: Sequence[int], seed: int) -> _Share:
        device = self._params[0].device
        if device.type != "cpu":
            torch.manual_seed(seed)
        with use_generator(torch.Generator().manual_seed(seed)):
            loss = self.objective.loss(rows)
            gradients = torch.autograd.grad(loss.train, self._params, allow_unused=True)
        return _Share(gradients, loss.plain.item(), loss.num_targets)

    def _means(
        self, shares: Sequence[_Share], tokens: int
    ) -> Iterator[tuple[nn.Parameter, Tensor | None, list[tuple[Tensor, int]]]]:
        """For each parameter the mean gradient of a micro-batch, or its sparse gradients with their counts."""
        gradients = [share.gradients for share in shares]
        if len(shares) == 1:
            gradients = [tuple(unshared(gradients[0]))]
        for param, *parts in zip(self._params, *gradients, strict=True):
            present = [
                (gradient, share.tokens) for gradient, share in zip(parts, shares, strict=True) if gradient is not None
            ]
            if present and present[0][0].is_sparse:
                yield param, None, present
                continue
            if len(shares) == 1:
                yield param, parts[0], []
                continue
            mean: Tensor | None = None
            for gradient, count in present:
                weight = count / tokens
                mean = gradient * weight if mean is None else mean.add_(gradient, alpha=weight)
            yield param, mean, []

    def _split(self, rows: Sequence[int]) -> list[Sequence[int]]:
        """Deal the examples out from short to long, so that every share is padded to about the same width."""
        ordered = sorted(rows, key=lambda row: (self.objective.size(row)[::-1], row))
        return [share for share in (ordered[number :: self.count] for number in range(self.count)) if share]


def unshared(gradients: Iterable[Tensor | None]) -> Iterator[Tensor | None]:
    """Gradients that may be changed in place: views, and tensors that two parameters share, are copied."""
    seen = set()
    for gradient in gradients:
        if gradient is not None and not gradient.is_sparse:
            if not gradient.is_contiguous() or gradient.data_ptr() in seen:
                gradient = gradient.clone(memory_format=torch.contiguous_format)
            seen.add(gradient.data_ptr())
        yield gradient


class _TableGradient:
    """The gradient of a large embedding table of which a step uses few rows: only those are written and cleared again.

    A new dense gradient for every step would have to be cleared as a whole.
    """

    def __init__(self, param: nn.Parameter) -> None:
        self.gradient = torch.zeros_like(param)
        self.rows: list[Tensor] = []  # that are not zero

    def fill(self, shares: Sequence[tuple[Tensor, float]]) -> Tensor:
        """The sum of sparse gradients, each with its weight."""
        for rows in self.rows:
            self.gradient.index_fill_(0, rows, 0.0)
        self.rows = []
        for share, weight in shares:
            rows, values = share._indices()[0], share._values()
            self.gradient.index_add_(0, rows, values, alpha=weight)
            self.rows.append(rows)
        return self.gradient
