"""Data parallelism over threads that share one model, and gradient accumulation.

The operations of a small model are too short to be split among threads. Instead, each thread runs the complete forward
and backward pass on a shard of the examples, on one core; the threads synchronize once, to add their gradients.

The gradients of the micro-batches of a step add up to those of one large batch: the gradient of each micro-batch is
weighted by the number of predictions that its loss averages over.

The result depends only on the batches, the seed and the number of threads: the gradients of shards are added in a fixed
order, and each shard has its own random generator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.nn.layers import use_generator
from regard.nn.threads import one_thread
from regard.training.objective import Objective

MAX_THREADS = 8
MIN_SHARD = 2048  # minimum number of padded tokens per shard; with fewer, the threads wait for the GIL
SEEDS_PER_BATCH = 1_000  # one seed per shard
MICRO_BATCH_STRIDE = 0x1E3779B97F4A7C15  # distance between the seeds of the micro-batches of a step
NUM_SEEDS = 2**63


class StepLoss(NamedTuple):
    """The loss of one step."""

    plain: float  # mean cross-entropy
    tokens: int  # number of predictions


class _Shard(NamedTuple):
    """The result of one thread for its part of a micro-batch."""

    gradients: tuple[Tensor | None, ...]
    plain: float
    tokens: int


def choose_num_replicas(batch_tokens: int) -> int:
    """Return one replica per torch thread if the shards are large enough, otherwise 1."""
    threads = torch.get_num_threads()
    return threads if batch_tokens >= MIN_SHARD * threads else 1


class DataParallel:
    """Computes gradients in `count` threads. If `count` is 1, torch parallelizes each operation instead."""

    def __init__(self, objective: Objective, count: int) -> None:
        self.objective = objective
        self.count = max(1, min(count, MAX_THREADS))
        self._params: list[nn.Parameter] = [param for param in objective.model.parameters() if param.requires_grad]
        self._tables: dict[nn.Parameter, _TableGradient] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._use_sparse_gradients(True)

    def backward(self, batches: Iterable[Sequence[int]], seed: int) -> StepLoss:
        """Set the gradients of the model to those of the mean loss over all predictions of the micro-batches."""
        plain, total = 0.0, 0
        sparse: dict[nn.Parameter, list[tuple[Tensor, int]]] = {}
        for number, rows in enumerate(batches):
            shards = self._run(rows, seed * SEEDS_PER_BATCH + number * MICRO_BATCH_STRIDE)
            tokens = sum(shard.tokens for shard in shards)
            total += tokens
            plain += sum(shard.plain * shard.tokens for shard in shards)
            for param, mean, table in self._means(shards, tokens):
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

    def _run(self, rows: Sequence[int], seed: int) -> list[_Shard]:
        """Run the forward and backward pass for one micro-batch, with one thread per shard."""
        parts = self._split(rows)
        seeds = [(seed + number) % NUM_SEEDS for number in range(len(parts))]
        if len(parts) == 1:
            return [self._shard(parts[0], seeds[0])]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.count)
        return list(self._pool.map(self._single_threaded_shard, parts, seeds))

    def _single_threaded_shard(self, rows: Sequence[int], seed: int) -> _Shard:
        # Do not do this in an initializer of the pool: it may run late and would then limit the rest of the process.
        with one_thread():
            return self._shard(rows, seed)

    def _shard(self, rows: Sequence[int], seed: int) -> _Shard:
        device = self._params[0].device
        if device.type != "cpu":
            torch.manual_seed(seed)
        with use_generator(torch.Generator().manual_seed(seed)):
            loss = self.objective.loss(rows)
            gradients = torch.autograd.grad(loss.train, self._params, allow_unused=True)
        return _Shard(gradients, loss.plain.item(), loss.num_targets)

    def _means(
        self, shards: Sequence[_Shard], tokens: int
    ) -> Iterator[tuple[nn.Parameter, Tensor | None, list[tuple[Tensor, int]]]]:
        """Yield each parameter with its mean gradient over a micro-batch, or its sparse gradients and token counts."""
        by_shard = [shard.gradients for shard in shards]
        if len(shards) == 1:
            by_shard = [tuple(unshared(by_shard[0]))]
        counts = [shard.tokens for shard in shards]
        for param, *gradients in zip(self._params, *by_shard, strict=True):
            present = [(grad, count) for grad, count in zip(gradients, counts, strict=True) if grad is not None]
            if present and present[0][0].is_sparse:
                yield param, None, present
                continue
            mean: Tensor | None = gradients[0]
            if len(shards) > 1:
                mean = None
                for grad, count in present:
                    weight = count / tokens
                    mean = grad * weight if mean is None else mean.add_(grad, alpha=weight)
            yield param, mean, []

    def _split(self, rows: Sequence[int]) -> list[Sequence[int]]:
        """Sort the examples by length and split them round-robin, so that shards have about the same padded length."""
        ordered = sorted(rows, key=lambda row: (self.objective.size(row)[::-1], row))
        return [shard for shard in (ordered[number :: self.count] for number in range(self.count)) if shard]


def unshared(gradients: Iterable[Tensor | None]) -> Iterator[Tensor | None]:
    """Yield gradients that can be changed in place: copy views, and tensors that two parameters share."""
    seen = set()
    for gradient in gradients:
        if gradient is not None and not gradient.is_sparse:
            if not gradient.is_contiguous() or gradient.data_ptr() in seen:
                gradient = gradient.clone(memory_format=torch.contiguous_format)
            seen.add(gradient.data_ptr())
        yield gradient


class _TableGradient:
    """The dense gradient of a large embedding table, reused at every step.

    Each step writes and clears only the few rows that it uses. A new tensor would have to be set to zero completely.
    """

    def __init__(self, param: nn.Parameter) -> None:
        self.gradient = torch.zeros_like(param)
        self.rows: list[Tensor] = []  # indices of the nonzero rows

    def fill(self, gradients: Sequence[tuple[Tensor, float]]) -> Tensor:
        """Return the weighted sum of sparse gradients in a dense tensor, which the next call overwrites."""
        for rows in self.rows:
            self.gradient.index_fill_(0, rows, 0.0)
        self.rows = [gradient._indices()[0] for gradient, _ in gradients]
        for rows, (gradient, weight) in zip(self.rows, gradients, strict=True):
            self.gradient.index_add_(0, rows, gradient._values(), alpha=weight)
        return self.gradient
