"""The thread pool: each rank runs each job once, for any number of threads per job."""

from __future__ import annotations

import os
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.generation.compiled import thread_pool as module
from regard.generation.compiled.thread_pool import SpinThreadPool, thread_pool


@given(sizes=st.lists(st.integers(1, 5), max_size=30))
def test_every_rank_runs_each_job_once(sizes: list[int]) -> None:
    pool = thread_pool()
    for size in sizes:
        seen: list[tuple[int, int, str]] = []
        pool.run(size, lambda rank, count, word, seen=seen: seen.append((rank, count, word)), "job")
        assert sorted(seen) == [(rank, size, "job") for rank in range(size)]


def test_sleeping_threads_wake_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SPINS", 1)
    pool, ranks = SpinThreadPool(), []
    for _ in range(5):
        pool.run(3, lambda rank, size: ranks.append(rank))
        time.sleep(0.02)
    assert sorted(ranks) == [0] * 5 + [1] * 5 + [2] * 5


def test_concurrent_jobs_run_one_after_another() -> None:
    pool, inside, most = SpinThreadPool(), [0], [0]
    lock = threading.Lock()

    def job(rank: int, size: int) -> None:
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        time.sleep(0.002)
        with lock:
            inside[0] -= 1

    callers = [threading.Thread(target=lambda: [pool.run(2, job) for _ in range(10)]) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert most[0] <= 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_starts_its_own_threads() -> None:
    thread_pool().run(2, lambda rank, size: None)
    child = os.fork()
    if child == 0:
        ranks: list[int] = []
        thread_pool().run(2, lambda rank, size: ranks.append(rank))
        os._exit(0 if sorted(ranks) == [0, 1] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
