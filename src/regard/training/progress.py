"""Reports during a training run: metrics.jsonl, throughput, time left, and progress on stderr."""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path
from typing import Any

from regard.utils.atomic_files import storage_errors, write_file

METRICS = "metrics.jsonl"
WINDOW = 1.0  # seconds of training over which throughput is measured


# --- Metrics ------------------------------------------------------------------------------------------------


class MetricsLog:
    """Appends rows to metrics.jsonl, after removing rows later than `last_step`, the step that a run resumes from."""

    def __init__(self, run: Path, *, last_step: int) -> None:
        run.mkdir(parents=True, exist_ok=True)
        self.path = run / METRICS
        rows = [row for row in read_metrics(run) if row["step"] <= last_step]
        write_file(self.path, "".join(json.dumps(row) + "\n" for row in rows))
        # Unbuffered: after a failed write, closing the file has nothing left to write and cannot fail again.
        self._file = self.path.open("ab", buffering=0)

    def write(self, row: dict[str, Any]) -> None:
        line = (json.dumps(row) + "\n").encode("utf-8")
        with storage_errors(self.path, len(line), "The checkpoints of this run are intact: resume it with --resume."):
            self._file.write(line)

    def close(self) -> None:
        self._file.close()


def read_metrics(run: Path) -> list[dict[str, Any]]:
    """Return the rows of metrics.jsonl. Skip lines that are truncated because the process was killed."""
    path = run / METRICS
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and isinstance(row.get("step"), int):
            rows.append(row)
    return rows


# --- Throughput ---------------------------------------------------------------------------------------------


class Throughput:
    """Estimates of tokens per second and time left, from the durations of steps, evaluations and checkpoints.

    Only the current process is measured. The speed covers only steps; time left includes evaluations and checkpoints.
    """

    def __init__(self) -> None:
        self.speed = 0.0  # tokens per second over the last full window; before that, since the start
        self._num_steps = self._num_evals = 0
        self._first_step = self._steps = self._evals = self._saves = 0.0  # seconds
        self._window_tokens, self._window_seconds, self._had_window = 0, 0.0, False

    def record_step(self, tokens: int, seconds: float) -> None:
        self._num_steps += 1
        self._steps += seconds
        self._first_step = self._first_step or seconds
        self._window_tokens += tokens
        self._window_seconds += seconds
        is_full = self._window_seconds >= WINDOW
        if is_full or not self._had_window:
            self.speed = self._window_tokens / max(self._window_seconds, 1e-9)
        if is_full:
            self._window_tokens, self._window_seconds, self._had_window = 0, 0.0, True

    def record_eval(self, seconds: float) -> None:
        self._num_evals += 1
        self._evals += seconds

    def record_save(self, seconds: float) -> None:
        self._saves += seconds

    def time_left(self, *, steps: int, num_evals: int) -> float:
        """Estimate the seconds for the remaining steps and evaluations, with checkpoints as often as before."""
        per_step = self._first_step
        if self._num_steps > 1:  # the first step is slower than the others
            per_step = (self._steps - self._first_step) / (self._num_steps - 1) + self._saves / self._num_steps
        return steps * per_step + max(0, num_evals) * self._evals / max(1, self._num_evals)


# --- Progress on stderr -------------------------------------------------------------------------------------


class Progress:
    """The base class of progress displays."""

    def say(self, message: str) -> None:
        """Show a permanent line."""

    def update(self, *, progress: float, step: int, loss: float, speed: str, time_left: float) -> None:
        """Show the current state; `progress` is from 0 to 1, `time_left` in seconds."""

    def close(self) -> None:
        """Release the terminal."""


class NullProgress(Progress):
    """A progress display that shows nothing."""


class LineProgress(Progress):
    """Prints a line every `every` seconds, for logs and pipes. The first line follows after `first` seconds."""

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


class ProgressBar(Progress):
    """A live progress bar for terminals."""

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
    """Return a progress bar if stderr is a terminal, otherwise line output."""
    return ProgressBar() if sys.stderr.isatty() else LineProgress()


def clock(seconds: float) -> str:
    """Format seconds as 1:02 or 1:02:03."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"
