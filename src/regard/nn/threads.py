"""Limit torch to one thread inside a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Inside the block, torch runs the operations of this Python thread on one core.

    Short operations do not gain from more threads, and torch's threads spin for a while after each operation, which
    takes cores from the next computation.

    `torch.set_num_threads` sets the number of the calling Python thread and the default of the process, which a new
    Python thread copies at its first torch operation. So if the first torch operation of a Python thread runs during
    another thread's block, that thread stays limited to one core. Code that starts threads must set the number in each
    of them, or use this block there.
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
