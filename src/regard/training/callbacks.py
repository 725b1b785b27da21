"""Evaluation, logging, progress, checkpoints and early stopping as callbacks of the training loop.

The trainer calls them at each epoch, step and evaluation, in the order of `default_callbacks`. A callback keeps its
state in `trainer.state` or in tensors that it adds to checkpoints, so that a resumed run continues exactly. This module
also defines the progress displays and logs that callbacks write to. Importing this module does not import torch.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from regard.metrics.score import Score
from regard.training.config import TrainingConfig
from regard.utils.atomic_files import storage_errors, write_file
from regard.utils.errors import print_message

if TYPE_CHECKING:
    from torch import Tensor

    from regard.training.trainer import Trainer

METRICS = "metrics.jsonl"
THROUGHPUT_WINDOW = 1.0  # seconds of training over which throughput is measured
DIVERGENCE_STEPS = 50  # a run has diverged if its loss is far above its lowest value for this many consecutive steps
FIRST_SAVE = 10.0  # maximum number of seconds before the first checkpoint
MAX_EVAL_FRACTION = 0.1  # maximum fraction of the elapsed time spent on evaluations, with a time budget


class ExtraScores(NamedTuple):
    """Scores and notes that a callback adds to those of the task."""

    notes: Sequence[str] = ()
    scores: Sequence[Score] = ()


class Callback:
    """The base class of callbacks. The training loop calls these hooks; by default they do nothing."""

    def on_train_begin(self, trainer: Trainer) -> None:
        """Called before the first step of this process, after a checkpoint (if any) is loaded."""

    def on_epoch_begin(self, trainer: Trainer) -> None:
        """Called before the batches of an epoch are built."""

    def on_step_end(self, trainer: Trainer) -> None:
        """Called after each optimizer step."""

    def on_evaluate(self, trainer: Trainer, metrics: dict[str, float]) -> None:
        """Called after the validation loss is measured; the model is in eval mode and has the averaged weights."""

    def on_train_end(self, trainer: Trainer) -> None:
        """Called after the last step, including when Ctrl-C or early stopping ended the run."""

    def on_weights_ready(self, trainer: Trainer) -> None:
        """Called when the run is finished and the averaged weights are loaded into the model."""

    def close(self, trainer: Trainer) -> None:
        """Release resources. Called in any case, including after an error."""

    def on_scores(self) -> ExtraScores:
        """Return additional scores and notes. Called after the trained model is evaluated."""
        return ExtraScores()

    def tensors(self) -> Mapping[str, Tensor]:
        """Return tensors to save with each checkpoint, under names that no other callback uses."""
        return {}

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore state from the tensors of a checkpoint."""


def default_callbacks(
    config: TrainingConfig, *, save_every: float, progress: Progress, extra: Sequence[Callback] = ()
) -> list[Callback]:
    """Return the callbacks of a run in calling order; `extra` callbacks are called before logging."""
    return [
        DropoutWarmup(config.dropout_warmup_epochs),
        StopOnDivergence(),
        Evaluation(config.num_evals),
        *([KeepBestWeights()] if config.keep_weights == "best" else []),
        *([EarlyStopping(config.patience)] if config.patience else []),
        *extra,
        MetricsLogger(config.log_every),
        ProgressReporter(progress),
        Checkpointer(save_every),
    ]


class DropoutWarmup(Callback):
    """Increases dropout linearly over epochs. It is 0 in the first epoch, when no example can be memorized yet."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    def on_epoch_begin(self, trainer: Trainer) -> None:
        self._set_scale(trainer, min(1.0, trainer.state.epoch / self.epochs) if self.epochs else 1.0)

    def close(self, trainer: Trainer) -> None:
        self._set_scale(trainer, 1.0)

    def _set_scale(self, trainer: Trainer, scale: float) -> None:
        from regard.nn.layers import set_dropout_scale

        set_dropout_scale(trainer.model, scale)


class StopOnDivergence(Callback):
    """Ends a run with an error if the training loss stays far above its lowest value."""

    def on_step_end(self, trainer: Trainer) -> None:
        state = trainer.state
        is_far_above = state.train_loss > 1.5 * state.best_train_loss + 1
        state.steps_above_best = state.steps_above_best + 1 if is_far_above else 0
        if state.steps_above_best >= DIVERGENCE_STEPS:
            raise trainer.diverged("loss", state.train_loss, f"rose from {state.best_train_loss:.3f} and stayed at")


class Evaluation(Callback):
    """Measures the validation loss `num_evals` times, evenly spaced over the budget.

    With a time budget, an evaluation is postponed as long as all evaluations together would take more than a tenth of
    the elapsed time. There is always an evaluation at the end if there was none before, or if the best weights are
    kept. With a budget in steps, evaluations do not depend on time.
    """

    def __init__(self, num_evals: int) -> None:
        self.num_evals = num_evals

    def on_step_end(self, trainer: Trainer) -> None:
        due = int(trainer.fraction() * self.num_evals + 1e-9)
        if due > trainer.state.num_evals and self._affordable(trainer):
            trainer.state.num_evals = due
            trainer.evaluate()

    def on_train_end(self, trainer: Trainer) -> None:
        # A time budget may end after `on_step_end`, for example while a checkpoint is written.
        state = trainer.state
        if trainer.config.minutes is not None and trainer.fraction() >= 1 and state.num_evals < self.num_evals:
            state.num_evals = self.num_evals
            if state.eval_step != state.step and self._affordable(trainer):
                trainer.evaluate()

    def _affordable(self, trainer: Trainer) -> bool:
        state = trainer.state
        is_needed = not state.eval_step or trainer.config.keep_weights == "best"  # the last weights may be the best
        if trainer.config.minutes is None or (trainer.fraction() >= 1 and is_needed):
            return True
        expected = state.last_eval_seconds if state.eval_step else trainer.estimated_eval_seconds()
        return state.eval_seconds + expected <= MAX_EVAL_FRACTION * state.seconds


class KeepBestWeights(Callback):
    """Keeps the weights with the lowest validation loss, and loads them into the model at the end."""

    PREFIX = "best/"

    def __init__(self) -> None:
        self.weights: dict[str, Tensor] = {}

    def on_evaluate(self, trainer: Trainer, metrics: dict[str, float]) -> None:
        from regard.nn.state_dict import trainable_tensors

        if trainer.state.evals_since_best == 0:
            self.weights = {name: tensor.detach().clone() for name, tensor in trainable_tensors(trainer.model).items()}

    def on_weights_ready(self, trainer: Trainer) -> None:
        from regard.nn.state_dict import load_into

        if self.weights:
            load_into(trainer.model, self.weights, trainable_only=True)

    def tensors(self) -> Mapping[str, Tensor]:
        return {self.PREFIX + name: tensor for name, tensor in self.weights.items()}

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        self.weights = {
            name.removeprefix(self.PREFIX): tensor for name, tensor in tensors.items() if name.startswith(self.PREFIX)
        }


class EarlyStopping(Callback):
    """Ends a run after `patience` consecutive evaluations without a lower validation loss."""

    def __init__(self, patience: int) -> None:
        self.patience = patience

    def on_train_begin(self, trainer: Trainer) -> None:
        self._check(trainer)

    def on_evaluate(self, trainer: Trainer, metrics: dict[str, float]) -> None:
        self._check(trainer)

    def _check(self, trainer: Trainer) -> None:
        if trainer.state.evals_since_best >= self.patience:
            trainer.stop()


class ExtraMetrics(Callback):
    """Measures additional metrics, such as forgetting, before the first step and at each evaluation."""

    def __init__(self, measure: Callable[[], Mapping[str, float]]) -> None:
        self.measure = measure

    def on_train_begin(self, trainer: Trainer) -> None:
        if not trainer.state.step:
            trainer.model.eval()
            trainer.metrics.update(self.measure())
            trainer.model.train()

    def on_evaluate(self, trainer: Trainer, metrics: dict[str, float]) -> None:
        metrics.update(self.measure())


class MetricsLogger(Callback):
    """Writes metrics.jsonl: a row every `every` steps, at each evaluation, and at the end."""

    def __init__(self, every: int) -> None:
        self.every = every
        self._log: MetricsLog | None = None

    def on_train_begin(self, trainer: Trainer) -> None:
        self._log = MetricsLog(trainer.run_folder, last_step=trainer.state.step)
        if trainer.metrics:
            self._write(trainer, {"step": 0, "epoch": 0, "seconds": 0.0, "tokens": 0})

    def on_step_end(self, trainer: Trainer) -> None:
        if trainer.state.step % self.every == 0 or trainer.metrics or trainer.fraction() >= 1:
            self._write(trainer)

    def on_train_end(self, trainer: Trainer) -> None:
        if trainer.metrics:
            self._write(trainer)

    def close(self, trainer: Trainer) -> None:
        if self._log is not None:
            self._log.close()

    def _write(self, trainer: Trainer, row: dict[str, float] | None = None) -> None:
        assert self._log is not None, "opened by on_train_begin"
        state = trainer.state
        row = row or {
            "step": state.step,
            "epoch": state.epoch,
            "seconds": round(state.seconds, 2),
            "tokens": state.tokens,
            "loss": state.train_loss,
            "learning_rate": trainer.lr_factor * trainer.config.learning_rate,
            "tokens_per_second": round(trainer.throughput.speed, 1),
        }
        self._log.write({**row, **trainer.metrics})
        trainer.metrics.clear()


class ProgressReporter(Callback):
    """Shows loss, speed, time left and validation losses to the user."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def on_evaluate(self, trainer: Trainer, metrics: dict[str, float]) -> None:
        loss = trainer.state.val_loss
        perplexity = f", perplexity {math.exp(min(loss, 50)):.2f}" if trainer.objective.reports_perplexity else ""
        self.progress.say(f"step {trainer.state.step:,}: validation loss {loss:.4f}{perplexity}")

    def on_step_end(self, trainer: Trainer) -> None:
        self.progress.update(
            progress=trainer.fraction(),
            step=trainer.state.step,
            loss=trainer.state.train_loss,
            speed=f"{trainer.throughput.speed:,.0f} {trainer.objective.loss_unit}/s",
            time_left=trainer.time_left(),
        )


class Checkpointer(Callback):
    """Saves a checkpoint after at most `FIRST_SAVE` seconds, then every `every` seconds, and at the end."""

    def __init__(self, every: float) -> None:
        self.every = every
        self._due = 0.0

    def on_train_begin(self, trainer: Trainer) -> None:
        self._due = trainer.clock() + min(FIRST_SAVE, self.every)

    def on_step_end(self, trainer: Trainer) -> None:
        # Do not replace good checkpoints while the loss is far above its lowest value.
        started = trainer.clock()
        if started < self._due or trainer.state.steps_above_best:
            return
        trainer.save()
        saved = trainer.clock()
        self._due = saved + self.every
        trainer.throughput.record_save(saved - started)

    def on_train_end(self, trainer: Trainer) -> None:
        trainer.save()


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

    Only the current process is measured. The speed includes only steps; time left includes evaluations and checkpoints.
    """

    def __init__(self) -> None:
        self.speed = 0.0  # tokens per second over the last full window, or since the start if there was none
        self._num_steps = self._num_evals = 0
        self._first_step = self._steps = self._evals = self._saves = 0.0  # seconds
        self._window_tokens, self._window_seconds, self._had_window = 0, 0.0, False

    def record_step(self, tokens: int, seconds: float) -> None:
        self._num_steps += 1
        self._steps += seconds
        self._first_step = self._first_step or seconds
        self._window_tokens += tokens
        self._window_seconds += seconds
        is_full = self._window_seconds >= THROUGHPUT_WINDOW
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
        print_message(message)

    def update(self, *, progress: float, step: int, loss: float, speed: str, time_left: float) -> None:
        now = time.perf_counter()
        if self._next == math.inf:
            self._next = now + self.first
        if now >= self._next or progress >= 1:
            self._next = now + self.every
            self.say(f"step {step:,}  {progress:4.0%}  loss {loss:.3f}  {speed}  {format_duration(time_left)} left")


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
        state = f"step {step:,}  loss {loss:.3f}  {speed}  {format_duration(time_left)} left"
        self._rich.update(self._task, completed=progress, state=state)

    def close(self) -> None:
        self._rich.stop()


def default_progress() -> Progress:
    """Return a progress bar if stderr is a terminal, otherwise line output."""
    return ProgressBar() if sys.stderr.isatty() else LineProgress()


def format_duration(seconds: float) -> str:
    """Format seconds as 1:02 or 1:02:03."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"
