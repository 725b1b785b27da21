"""What happens around the training loop: evaluation, logging, progress, checkpoints, early stopping.

The trainer calls its callbacks at each epoch, step and evaluation, in the order of `default_callbacks`. What a callback
has to remember belongs into `trainer.state`, or into the tensors that it adds to checkpoints, so that a resumed run
continues exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

from regard.metrics.score import Score
from regard.nn.dropout import set_dropout_scale
from regard.nn.state_dict import load_into, trainable_tensors
from regard.training.config import TrainingConfig
from regard.training.metrics_log import MetricsLog
from regard.training.progress import Progress

if TYPE_CHECKING:
    from regard.training.trainer import Trainer

DIVERGENCE_STEPS = 50  # steps with a loss far above the best before a run counts as diverging
MAX_EVAL_SHARE = 0.1  # of the time of a run with a time budget


class ExtraScores(NamedTuple):
    """What a callback measured besides the task's own scores."""

    notes: Sequence[str] = ()
    scores: Sequence[Score] = ()


class Callback:
    """Hooks of the training loop. Override those that are needed."""

    def on_train_begin(self, trainer: Trainer) -> None:
        """Before the first step of this process, after a checkpoint was loaded."""

    def on_epoch_begin(self, trainer: Trainer) -> None:
        """Before the batches of an epoch are made."""

    def on_step_end(self, trainer: Trainer) -> None:
        """After each optimizer step."""

    def on_evaluate(self, trainer: Trainer, metrics: dict[str, float]) -> None:
        """After the validation loss was measured; the model is in eval mode and has the averaged weights."""

    def on_train_end(self, trainer: Trainer) -> None:
        """After the last step, also if Ctrl-C or early stopping ended the run."""

    def on_weights_ready(self, trainer: Trainer) -> None:
        """When a run has come to its end and the model holds its final, averaged weights."""

    def close(self, trainer: Trainer) -> None:
        """Release resources, also after an error."""

    def on_scores(self) -> ExtraScores:
        """Once the trained model has been evaluated: further scores, and notes for the user."""
        return ExtraScores()

    def tensors(self) -> Mapping[str, Tensor]:
        """Tensors to be saved with each checkpoint, by names that no other callback uses."""
        return {}

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Take the tensors of a checkpoint: those of all callbacks."""


def default_callbacks(
    config: TrainingConfig, *, save_every: float, progress: Progress, extra: Sequence[Callback] = ()
) -> list[Callback]:
    """The callbacks of every run in the order in which they are called; `extra` ones come before logging."""
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
    """No dropout in the first epoch, then linearly more until it acts in full. Examples that are seen for the first
    time cannot be memorized yet."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    def on_epoch_begin(self, trainer: Trainer) -> None:
        scale = min(1.0, trainer.state.epoch / self.epochs) if self.epochs else 1.0
        set_dropout_scale(trainer.model, scale)

    def close(self, trainer: Trainer) -> None:
        set_dropout_scale(trainer.model, 1.0)


class StopOnDivergence(Callback):
    """Ends a run whose training loss stays far above its best."""

    def on_step_end(self, trainer: Trainer) -> None:
        state = trainer.state
        state.steps_above_best = state.steps_above_best + 1 if _is_far_above_best(trainer) else 0
        if state.steps_above_best >= DIVERGENCE_STEPS:
            raise trainer.diverged(
                f"the loss rose from {state.best_train_loss:.3f} to {state.train_loss:.3f} and stayed there"
            )


def _is_far_above_best(trainer: Trainer) -> bool:
    return trainer.state.train_loss > 1.5 * trainer.state.best_train_loss + 1


class Evaluation(Callback):
    """Measures the validation loss `num_evals` times, evenly over the budget.

    In a run with a time budget an evaluation waits as long as it would bring the time of all evaluations above a tenth
    of the time used so far; the last evaluation always takes place. A run with a number of steps never depends on time.
    """

    def __init__(self, num_evals: int) -> None:
        self.num_evals = num_evals

    def on_step_end(self, trainer: Trainer) -> None:
        due = int(trainer.fraction() * self.num_evals + 1e-9)
        if due > trainer.state.num_evals and (trainer.fraction() >= 1 or self._affordable(trainer)):
            trainer.state.num_evals = due
            trainer.evaluate()

    def on_train_end(self, trainer: Trainer) -> None:
        # Saving a checkpoint may have used up the rest of a time budget after the last step.
        state = trainer.state
        if trainer.config.minutes is not None and trainer.fraction() >= 1 and state.num_evals < self.num_evals:
            state.num_evals = self.num_evals
            if state.eval_step != state.step:
                trainer.evaluate()

    def _affordable(self, trainer: Trainer) -> bool:
        state = trainer.state
        if trainer.config.minutes is None or not state.eval_step:  # the first one tells how long they take
            return True
        return state.eval_seconds + state.last_eval_seconds <= MAX_EVAL_SHARE * state.seconds


class KeepBestWeights(Callback):
    """Keeps the weights with the lowest validation loss, and loads them into the model at the end."""

    PREFIX = "best/"

    def __init__(self) -> None:
        self.weights: dict[str, Tensor] = {}

    def on_evaluate(self, trainer: Trainer, metrics: dict[str, float]) -> None:
        if trainer.state.evals_since_best == 0:
            self.weights = {name: tensor.detach().clone() for name, tensor in trainable_tensors(trainer.model).items()}

    def on_weights_ready(self, trainer: Trainer) -> None:
        if self.weights:
            load_into(trainer.model, self.weights, learned_only=True)

    def tensors(self) -> Mapping[str, Tensor]:
        return {self.PREFIX + name: tensor for name, tensor in self.weights.items()}

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        self.weights = {
            name.removeprefix(self.PREFIX): tensor for name, tensor in tensors.items() if name.startswith(self.PREFIX)
        }


class EarlyStopping(Callback):
    """Ends a run after `patience` evaluations in a row without a lower validation loss."""

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
    """Measures something else before the first step and at each evaluation, such as what a model forgets."""

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
            self._write(trainer, _row(trainer))

    def on_train_end(self, trainer: Trainer) -> None:
        if trainer.metrics:
            self._write(trainer, _row(trainer))

    def close(self, trainer: Trainer) -> None:
        if self._log is not None:
            self._log.close()

    def _write(self, trainer: Trainer, row: dict[str, float]) -> None:
        assert self._log is not None, "opened by on_train_begin"
        self._log.write({**row, **trainer.metrics})
        trainer.metrics.clear()


def _row(trainer: Trainer) -> dict[str, float]:
    state = trainer.state
    return {
        "step": state.step,
        "epoch": state.epoch,
        "seconds": round(state.seconds, 2),
        "tokens": state.tokens,
        "loss": state.train_loss,
        "learning_rate": trainer.lr_factor * trainer.config.learning_rate,
        "tokens_per_second": round(trainer.throughput.speed, 1),
    }


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
    """Saves a checkpoint every `every` seconds and at the end."""

    def __init__(self, every: float) -> None:
        self.every = every
        self._saved = 0.0

    def on_train_begin(self, trainer: Trainer) -> None:
        self._saved = trainer.clock()

    def on_step_end(self, trainer: Trainer) -> None:
        # While the loss is far above its best, the checkpoint from before is the one worth keeping.
        if trainer.clock() - self._saved < self.every or trainer.state.steps_above_best:
            return
        started = trainer.clock()
        trainer.save()
        self._saved = trainer.clock()
        trainer.throughput.record_save(self._saved - started)

    def on_train_end(self, trainer: Trainer) -> None:
        trainer.save()
