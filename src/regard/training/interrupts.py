"""Ctrl-C during training: the first one finishes the step, the second one stops at once."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

from regard.utils.errors import RegardError


class InterruptedRunError(RegardError):
    """Ctrl-C: the step was finished and saved."""

    exit_code = 130


@contextlib.contextmanager
def finish_step_on_interrupt(request_stop: Callable[[], None]) -> Iterator[None]:
    """Within the block the first SIGINT calls `request_stop`, and the next one raises KeyboardInterrupt."""
    requested = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal requested
        if requested:
            raise KeyboardInterrupt
        requested = True
        request_stop()

    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # as under nohup or in a shell's background
    if ignored or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
