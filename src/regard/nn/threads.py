"""How many threads torch computes with, for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Inside the block no operation of this Python thread is cut up; afterwards it has its threads back.

    Short operations gain nothing from more threads, and torch's threads wait busily for a while after each: they would
    take the cores from whoever computes next.

    Torch keeps the number in two places: one for each Python thread that has computed before, and one for the process,
    from which a thread takes its own at its first operation. `torch.set_num_threads` sets both, that of the caller and
    that of the process. So threads that have computed before notice nothing of somebody else's block; but one whose
    very first operation falls into it computes with one thread for good, and would have to set its number itself.
    Torch has no call that sets the thread's own number alone. Whoever keeps threads that compute should therefore let
    each set its own number at the start, or compute inside a block of its own as `training/replicas.py` does. The
    threads of `generation/crew.py` run compiled kernels and never meet torch.
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
