"""The barrier of compiled threads. It spins, since a step has hundreds of barriers with short waits."""

from __future__ import annotations

from numba import njit

from regard.generation.compiled.intrinsics import count_up, look, pause, yield_core

_SPINS = 2_000  # polls before the thread yields its core
ABANDONED = 1 << 62  # a count that releases all waiting threads

compiled = njit(fastmath=True, nogil=True, cache=True, error_model="numpy", boundscheck=False)


@compiled
def meet(barrier, size):
    """Wait until all `size` threads have reached the barrier."""
    if size > 1:
        ticket = count_up(barrier)
        goal = min((ticket // size + 1) * size, ABANDONED)
        spins = 0
        while look(barrier) < goal:
            pause()
            spins += 1
            if spins > _SPINS:
                yield_core()


@compiled
def wait_for(counter, seen, spins):
    """Poll the number at an address until it differs from `seen`, at most `spins` times; returns the number."""
    for _ in range(spins):
        now = look(counter)
        if now != seen:
            return now
        pause()
    return seen
