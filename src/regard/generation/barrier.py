"""Where compiled threads wait for each other: busily, since a step has hundreds of such places and each is short."""

from __future__ import annotations

from numba import njit

from regard.generation.intrinsics import count_up, look, pause, yield_core

_SPINS = 2_000  # looks at the barrier before the core is offered to others
ABANDONED = 1 << 62  # a count at which nobody waits any more

compiled = njit(fastmath=True, nogil=True, cache=True, error_model="numpy", boundscheck=False)


@compiled
def meet(barrier, size):
    """Wait until all threads have come here."""
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
    """The number at an address as soon as it is not `seen` any more, or after so many looks."""
    for _ in range(spins):
        now = look(counter)
        if now != seen:
            return now
        pause()
    return seen
