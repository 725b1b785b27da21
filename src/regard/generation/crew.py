"""Threads that run one compiled function together.

The caller is the first of them; the others sleep until they are called. There is one crew for the whole process and
one job at a time, so calls from several threads wait for each other instead of fighting for the cores.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

Job = Callable[..., Any]  # takes its rank, the size of the crew and the arguments; must not hold Python's lock


class Crew:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: list[threading.Semaphore] = []
        self._done = threading.Semaphore(0)
        self._job: tuple[Job, int, tuple[Any, ...]] | None = None

    def run(self, size: int, job: Job, *arguments: Any) -> None:
        """Call `job(rank, size, *arguments)` in `size` threads, and return when all are done."""
        with self._lock:
            while len(self._calls) < size - 1:
                self._hire()
            self._job = (job, size, arguments)
            for call in self._calls[: size - 1]:
                call.release()
            job(0, size, *arguments)
            for _ in range(size - 1):
                self._done.acquire()
            self._job = None

    def _hire(self) -> None:
        call, rank = threading.Semaphore(0), len(self._calls) + 1

        def work() -> None:
            while True:
                call.acquire()
                if self._job is not None:
                    job, size, arguments = self._job
                    job(rank, size, *arguments)
                self._done.release()

        threading.Thread(target=work, name=f"regard-crew-{rank}", daemon=True).start()
        self._calls.append(call)


_crew = Crew()


def crew() -> Crew:
    return _crew


def _start_anew() -> None:
    """A forked process has none of its parent's threads."""
    global _crew
    _crew = Crew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)
