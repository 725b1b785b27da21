"""Memory that stays with the process between steps.

A training step allocates and frees the same large tensors over and over. glibc hands such blocks back to the system
at once, and the system must clear every page of them again: on a CPU that cost the
small models measured here between a tenth and a third of their time.
Here glibc is told to keep what was freed. The process then stays as large as its largest step, which is what a
training needs anyway.
"""

from __future__ import annotations

import ctypes
import platform

from regard.training.choices import Choice

# From glibc's malloc.h.
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3
LARGEST = 2**31 - 1
HUGE_BLOCK = 1 << 30  # blocks from 1 GB on still go back to the system
PAD = 64 << 20


def keep_freed_memory() -> Choice:
    """Ask the allocator to keep freed memory, where it is glibc's."""
    if platform.libc_ver()[0] != "glibc":
        return Choice("memory", "as the system has it", "keeping freed memory is known for glibc only")
    libc = ctypes.CDLL(None)
    settings = ((M_MMAP_THRESHOLD, HUGE_BLOCK), (M_TRIM_THRESHOLD, LARGEST), (M_TOP_PAD, PAD))
    if not all(libc.mallopt(name, value) for name, value in settings):
        return Choice("memory", "as the system has it", "the allocator did not take the settings")
    return Choice("memory", "freed blocks are kept", "clearing them anew at each step would cost time")
