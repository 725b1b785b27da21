"""What a person sees while a training runs: a bar with loss, speed and time left, on stderr."""

from __future__ import annotations

import math
import sys
import time
from typing import Protocol


class Progress(Protocol):
    def say(self, message: str) -> None:
        """A line that stays."""

    def update(self, *, progress: float, step: int, loss: float, speed: str, time_left: float) -> None:
        """The newest state; `speed` as it is to be read, `left` in seconds."""

    def close(self) -> None: ...


class NullProgress:
    """Shows nothing."""

    def say(self, message: str) -> None:
        pass

    def update(self, *, progress: float, step: int, loss: float, speed: str, time_left: float) -> None:
        pass

    def close(self) -> None:
        pass


class LineProgress:
    """A line now and then, for logs and pipes; the first when speed and time left have settled."""

    def __init__(self, *, every: float = 15.0, first: float = 2.0) -> None:
        self.every, self.first = every, first
        self._next = math.inf

    def say(self, message: str) -> None:
        sys.stderr.write(message + "\n")
        sys.stderr.flush()

    def update(self, *, progress: float, step: int, loss: float, speed: str, time_left: float) -> None:
        now = time.perf_counter()
        if self._next == math.inf:
            self._next = now + self.first
        if now >= self._next or progress >= 1:
            self._next = now + self.every
            self.say(f"step {step:,}  {progress:4.0%}  loss {loss:.3f}  {speed}  {clock(time_left)} left")

    def close(self) -> None:
        pass


class ProgressBar:
    """A live bar, for terminals."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as RichProgress

        self._rich = RichProgress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%  {task.fields[state]}"),
            console=Console(stderr=True),
            refresh_per_second=4,
        )
        self._task = self._rich.add_task("training", total=1.0, state="starting")
        self._rich.start()

    def say(self, message: str) -> None:
        self._rich.console.print(message, markup=False, highlight=False)

    def update(self, *, progress: float, step: int, loss: float, speed: str, time_left: float) -> None:
        state = f"step {step:,}  loss {loss:.3f}  {speed}  {clock(time_left)} left"
        self._rich.update(self._task, completed=progress, state=state)

    def close(self) -> None:
        self._rich.stop()


def for_terminal() -> Progress:
    """A bar where a person watches, lines where a file does."""
    return ProgressBar() if sys.stderr.isatty() else LineProgress()


def clock(seconds: float) -> str:
    minutes, rest = divmod(max(0, round(seconds)), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"
