"""How fast a training learns, and how long it will still take.

The speed is that of learning alone: validating and saving do not slow it down. The time that is left counts them.
"""

from __future__ import annotations

WINDOW = 1.0  # seconds of learning that a speed is the mean of


class Throughput:
    """Is told how long each part of a training took, since this process began with it."""

    def __init__(self) -> None:
        self.speed = 0.0  # tokens a second over the last window, or since the beginning while there was none
        self._steps = self._validations = 0
        self._first = self._learning = self._validating = self._saving = 0.0  # seconds
        self._window_tokens, self._window_seconds, self._window_is_full = 0, 0.0, False

    def record_step(self, tokens: int, seconds: float) -> None:
        """A step was made."""
        self._steps += 1
        self._learning += seconds
        self._first = self._first or seconds
        self._window_tokens += tokens
        self._window_seconds += seconds
        full = self._window_seconds >= WINDOW
        if full or not self._window_is_full:
            self.speed = self._window_tokens / max(self._window_seconds, 1e-9)
        if full:
            self._window_tokens, self._window_seconds, self._window_is_full = 0, 0.0, True

    def record_eval(self, seconds: float) -> None:
        self._validations += 1
        self._validating += seconds

    def record_save(self, seconds: float) -> None:
        self._saving += seconds

    def time_left(self, *, steps: int, num_evals: int) -> float:
        """Seconds until so many more steps and validations are done, saving meanwhile as often as before."""
        if self._steps > 1:  # the first step prepares much that the others find done
            a_step = (self._learning - self._first) / (self._steps - 1) + self._saving / self._steps
        else:
            a_step = self._first
        a_validation = self._validating / max(1, self._validations)
        return steps * a_step + max(0, num_evals) * a_validation
