"""One training at a time in a folder: two would overwrite each other's checkpoints.

The lock is the operating system's, on a small file in the folder, so it ends with the process that holds it however
that ends, and a file that a killed run left behind locks nothing. It knows nothing of what the folder holds.
"""

from __future__ import annotations

import contextlib
import errno
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from regard.utils.errors import UsageError

LOCK = ".regard-lock"
_TAKEN = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)


@contextlib.contextmanager
def sole_writer(folder: Path) -> Iterator[None]:
    """Hold the folder for the block; raise when another process (or another block of this one) holds it."""
    try:
        file = (folder / LOCK).open("a+b")
    except OSError:  # read-only, or the like: writing will say so better
        yield
        return
    with file:
        try:
            _lock(file)
        except OSError as problem:
            if problem.errno in _TAKEN:
                raise UsageError(
                    f"another training writes into {folder}. Wait until it ends, or choose another --out.",
                    argument="out",
                    value=str(folder),
                    path=folder,
                ) from None
            # The file system has no locks: better to train without one than not at all.
        yield


if sys.platform == "win32":
    import msvcrt

    def _lock(file: IO[bytes]) -> None:
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(file: IO[bytes]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
