"""Threads that run one compiled function together.

The caller is the first of them. The others wait for its call: busily for two thousandths of a second, which is quicker
than being woken for the next token, then asleep. There is one crew for the whole process and one job at a time, so
calls from several threads wait for each other instead of fighting for the cores.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from regard.generation.barrier import wait_for

Job = Callable[..., Any]  # takes its rank, the size of the crew and the arguments; must not hold Python's lock
MOST = 256
SPINS = 40_000  # looks for the next job before a thread goes to sleep


class Crew:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: list[threading.Semaphore] = []  # for those who sleep
        self._number = np.zeros(1, dtype=np.int64)  # of the job that was called last
        self._done = np.zeros(MOST, dtype=np.int64)  # the last job that each has finished
        self._asleep = np.zeros(MOST, dtype=bool)
        self._job: tuple[int, int, Job, tuple[Any, ...]] | None = None  # its number, how many it takes, what it is

    def run(self, size: int, job: Job, *arguments: Any) -> None:
        """Call `job(rank, size, *arguments)` in `size` threads, and return when all are done."""
        with self._lock:
            while len(self._calls) < size - 1:
                self._hire()
            self._job = (int(self._number[0]) + 1, size, job, arguments)
            self._number += 1
            for rank in range(1, size):
                if self._asleep[rank]:
                    self._calls[rank - 1].release()
            job(0, size, *arguments)
            for rank in range(1, size):
                while (before := self._done[rank]) != self._number[0]:
                    wait_for(self._done[rank:].ctypes.data, before, SPINS)

    def settle(self, seconds: float = 5.0) -> bool:
        """Wait until all have ended a job that the caller has left; False if some have not."""
        if self._job is None or self._job[0] != self._number[0]:
            return True  # nobody was called
        until = time.monotonic() + seconds
        number, size, *_ = self._job
        while any(self._done[rank] != number for rank in range(1, size)):
            if time.monotonic() > until:
                return False
            time.sleep(0.001)
        return True

    def _hire(self) -> None:
        rank = len(self._calls) + 1
        self._done[rank] = self._number[0]
        self._calls.append(threading.Semaphore(0))
        threading.Thread(target=self._work, args=(rank,), name=f"regard-crew-{rank}", daemon=True).start()

    def _work(self, rank: int) -> None:
        seen, call = int(self._done[rank]), self._calls[rank - 1]
        while True:
            now = wait_for(self._number.ctypes.data, seen, SPINS)
            while now == seen:
                # Python's lock orders this: either the caller sees that this thread sleeps, or this sees the call.
                self._asleep[rank] = True
                if self._number[0] == seen:
                    call.acquire()
                self._asleep[rank] = False
                now = int(self._number[0])
            assert self._job is not None
            seen, size, job, arguments = self._job  # a later one, if the one that was called did not need this thread
            if rank < size:
                job(rank, size, *arguments)
            self._done[rank] = seen


_crew = Crew()


def crew() -> Crew:
    return _crew


def start_anew() -> None:
    """Another crew: a forked process has none of its parent's threads, and a job that was broken off may hold some."""
    global _crew
    _crew = Crew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=start_anew)
