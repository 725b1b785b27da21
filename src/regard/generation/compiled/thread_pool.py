"""A thread pool that runs one compiled function in several threads at once.

The calling thread takes part as rank 0. The other threads wait for the next job in a spin loop for about 2 ms before
they sleep, which is faster than waking a sleeping thread for each token. There is one pool per process and one job at a
time, so concurrent calls wait for each other instead of competing for the cores.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from regard.generation.compiled.intrinsics import wait_for

Job = Callable[..., Any]  # takes rank, number of threads and arguments; must release the GIL
MAX_THREADS = 256
SPINS = 40_000  # polls for the next job before a thread sleeps


class SpinThreadPool:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wakeups: list[threading.Semaphore] = []  # one for each thread that may sleep
        self._number = np.zeros(1, dtype=np.int64)  # number of the latest job
        self._done = np.zeros(MAX_THREADS, dtype=np.int64)  # the latest job that each thread has finished
        self._asleep = np.zeros(MAX_THREADS, dtype=bool)
        self._job: tuple[int, int, Job, tuple[Any, ...]] | None = None  # number, threads, function, arguments

    def run(self, size: int, job: Job, *arguments: Any) -> None:
        """Call `job(rank, size, *arguments)` in `size` threads, and return when all are done."""
        with self._lock:
            while len(self._wakeups) < size - 1:
                self._start_thread()
            self._job = (int(self._number[0]) + 1, size, job, arguments)
            self._number += 1
            for rank in range(1, size):
                if self._asleep[rank]:
                    self._wakeups[rank - 1].release()
            job(0, size, *arguments)
            for rank in range(1, size):
                while (before := self._done[rank]) != self._number[0]:
                    wait_for(self._done[rank:].ctypes.data, before, SPINS)

    def wait_until_idle(self, seconds: float = 5.0) -> bool:
        """Wait until all threads have finished an aborted job; returns False on timeout."""
        if self._job is None or self._job[0] != self._number[0]:
            return True  # the job was never started
        until = time.monotonic() + seconds
        number, size, *_ = self._job
        while any(self._done[rank] != number for rank in range(1, size)):
            if time.monotonic() > until:
                return False
            time.sleep(0.001)
        return True

    def _start_thread(self) -> None:
        rank = len(self._wakeups) + 1
        self._done[rank] = self._number[0]
        self._wakeups.append(threading.Semaphore(0))
        threading.Thread(target=self._work, args=(rank,), name=f"regard-worker-{rank}", daemon=True).start()

    def _work(self, rank: int) -> None:
        seen, wakeup = int(self._done[rank]), self._wakeups[rank - 1]
        while True:
            now = wait_for(self._number.ctypes.data, seen, SPINS)
            while now == seen:
                # The GIL orders the steps: either the caller sees that this thread sleeps, or this thread sees the job.
                self._asleep[rank] = True
                if self._number[0] == seen:
                    wakeup.acquire()
                self._asleep[rank] = False
                now = int(self._number[0])
            assert self._job is not None
            seen, size, job, arguments = self._job  # may be a later job, if this thread was not needed before
            if rank < size:
                job(rank, size, *arguments)
            self._done[rank] = seen


_pool = SpinThreadPool()


def thread_pool() -> SpinThreadPool:
    return _pool


def replace_pool() -> None:
    """Create a new pool: after a fork the threads no longer exist, and after an aborted job some may still be busy."""
    global _pool
    _pool = SpinThreadPool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=replace_pool)
