"""Temporarily limit torch to one thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Inside the block, torch runs the operations of this Python thread on one core.

    Short operations do not gain from more threads, and torch's threads spin for a while after each operation, which
    takes cores from the next computation.

    torch stores the number of threads twice: for each Python thread, and for the process. A Python thread copies the
    number of the process at its first torch operation. `torch.set_num_threads` sets the numbers of the calling thread
    and of the process; no call sets only that of the thread. So a block does not affect threads that have used torch
    before, but a thread whose first operation runs during another thread's block stays at one thread. Code that starts
    Python threads should therefore set the number at the start of each thread, or use this block in each of them, as
    `training/data_parallel.py` does. The threads of `generation/compiled/thread_pool.py` do not use torch.
    """
    before = torch.get_num_threads()
    if before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
