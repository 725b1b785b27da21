"""The task-independent training loop: an objective provides batches and losses, callbacks do everything else.

With a budget in steps, a run is deterministic: batches depend only on (seed, epoch), and the random numbers of a step
only on (seed, step), because the generator is reseeded at each step. A run that is killed and resumed therefore ends
with exactly the same weights as an uninterrupted run.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn

from regard.checkpoint.folder import is_model_folder
from regard.checkpoint.training_state import Checkpoint, last_good_checkpoint, write_checkpoint
from regard.data.batches import BatchPlan
from regard.nn.state_dict import load_into, trainable_tensors
from regard.training.callbacks import Callback, NullProgress, Progress, Throughput, default_callbacks
from regard.training.config import TrainingConfig
from regard.training.data_parallel import DataParallel, StepLoss, choose_num_replicas
from regard.training.objective import Objective
from regard.training.optimizers import (
    WeightAverager,
    load_state_tensors,
    lr_factor,
    make_optimizers,
    set_lr_factor,
    state_tensors,
)
from regard.training.run import BUDGET, ResumeCommand, resume_in_python
from regard.utils.config import to_dict
from regard.utils.errors import DivergenceError, RegardError, UsageError

SEED_STRIDE = 100_000_007  # the step seeds of a run start at seed * SEED_STRIDE
# Defaults for checkpoints written before these settings existed.
EARLIER_DEFAULTS = {"accumulate": 1, "dropout_warmup_epochs": 0, "keep_weights": "last", "patience": 0}


class InterruptedRunError(RegardError):
    """A run was stopped by Ctrl-C (exit code 130) or SIGTERM (143) after its last step was saved."""

    exit_code = 130


@dataclass
class TrainState:
    """The counters and losses of a run, which a checkpoint stores together with the tensors."""

    step: int = 0  # optimizer steps taken
    epoch: int = 0
    batch: int = 0  # batches of this epoch already used
    seconds: float = 0.0  # training time so far, including time before a resume
    tokens: int = 0  # predictions that the losses of all steps were averaged over
    train_loss: float = math.nan  # smoothed exponentially over steps
    best_train_loss: float = math.inf  # lowest smoothed training loss so far
    steps_above_best: int = 0  # consecutive steps with a training loss far above the best
    num_snapshots: int = 0  # snapshots in the weight average
    num_evals: int = 0  # scheduled evaluations so far, including skipped ones
    eval_step: int = 0  # step of the last evaluation
    eval_seconds: float = 0.0  # total time of all evaluations
    last_eval_seconds: float = 0.0
    val_loss: float = math.nan  # validation loss of the last evaluation
    best_val_loss: float = math.inf
    best_step: int = 0  # step with the lowest validation loss
    evals_since_best: int = 0


class Trainer:
    """A training run: it trains the model of one objective and writes to one run folder."""

    def __init__(
        self,
        objective: Objective,
        config: TrainingConfig,
        run_folder: Path,
        *,
        callbacks: Sequence[Callback] = (),  # in addition to the default callbacks
        save_every: float = 60.0,
        progress: Progress | None = None,
        identity: Mapping[str, Any] | None = None,  # settings and data that a resumed run may not change
        lr_multipliers: Mapping[Tensor, float] | None = None,  # learning-rate factors of parameters
        replicas: int | None = None,
        resume_command: ResumeCommand = resume_in_python,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        if (config.steps is None) == (config.minutes is None):
            raise UsageError("training needs a budget. Give --steps or --minutes.", argument="steps")
        self.objective, self.config, self.run_folder = objective, config, run_folder
        self.model: nn.Module = objective.model
        self.progress = progress or NullProgress()
        self.callbacks = default_callbacks(config, save_every=save_every, progress=self.progress, extra=callbacks)
        self.resume_command, self.clock = resume_command, clock
        num_replicas = choose_num_replicas(config.batch_tokens) if replicas is None else replicas
        self.data_parallel = DataParallel(objective, num_replicas)
        self.plan = BatchPlan(max_tokens=config.batch_tokens, seed=config.seed)
        self.optimizers = make_optimizers(self.model, config, lr_multipliers=lr_multipliers)
        self.averager = WeightAverager(self.model, kind=config.weight_averaging, decay=config.ema_decay)
        self.identity = {**to_dict(config), **(identity or {})}
        self.machine = {
            "threads": torch.get_num_threads(),
            "shares": self.data_parallel.count,
            "device": next(self.model.parameters()).device.type,
            "torch": torch.__version__,
        }
        self.state = TrainState()
        self.metrics: dict[str, float] = {}  # metrics measured since the last row of metrics.jsonl
        self.lr_factor = 0.0  # fraction of the peak learning rate at the last step
        self.throughput = Throughput()
        self.interrupted = 0  # the signal that ends the run, if any
        self._stopped = False
        self._started = 0.0  # start time on `clock`, shifted back by the training time before a resume
        self._saved_step = -1

    # The loop -----------------------------------------------------------------------------------------------

    def fit(self, *, resume: bool = False) -> TrainState:
        """Train until the budget is used up or the run is stopped, then load the final weights into the model."""
        if resume:
            self.load_checkpoint()
        self._started = self.clock() - self.state.seconds
        self.model.train()
        try:
            with self._finish_step_on_interrupt():
                self._call("on_train_begin")
                batches = self._batches()
                while not self.is_finished():
                    started, tokens = self.clock(), self.state.tokens
                    self._set_learning_rate()
                    step_batches = itertools.islice(batches, self.config.accumulate)  # next batch
                    seed = self.config.seed * SEED_STRIDE + self.state.step
                    loss = self.data_parallel.backward(step_batches, seed=seed)  # forward, backward
                    self._clip_gradients(loss)
                    self._step(loss)
                    self._update_seconds()
                    self.throughput.record_step(self.state.tokens - tokens, self.clock() - started)
                    self._call("on_step_end")
                    self._update_seconds()
                self._call("on_train_end")
            if self.interrupted:
                command = self.resume_command(self.run_folder, None)
                name = "SIGTERM" if self.interrupted == signal.SIGTERM else "Ctrl-C"
                error = InterruptedRunError(
                    f"stopped by {name}; step {self.state.step:,} is saved. Resume with:\n  {command}", hint=command
                )
                error.exit_code = 128 + self.interrupted
                raise error
        finally:
            self._call("close")
            self.data_parallel.close()
        self.averager.swap()
        self._call("on_weights_ready")
        self.model.eval()
        return self.state

    def is_finished(self) -> bool:
        return self.fraction() >= 1 or self._stopped or bool(self.interrupted)

    def fraction(self) -> float:
        """Return the used fraction of the budget, from 0 to 1."""
        if self.config.steps is not None:
            return min(1.0, self.state.step / self.config.steps)
        return min(1.0, self.state.seconds / self._budget_seconds())

    def time_left(self) -> float:
        """Return the estimated number of seconds until the budget is used up."""
        if self.config.steps is None:
            return max(0.0, self._budget_seconds() - self.state.seconds)
        return self.throughput.time_left(
            steps=self.config.steps - self.state.step, num_evals=self.config.num_evals - self.state.num_evals
        )

    def estimated_eval_seconds(self) -> float:
        """Estimate the time of the first evaluation: a forward pass takes about a third of a training step."""
        return self.objective.num_validation_targets / max(3 * self.throughput.speed, 1e-9)

    def stop(self) -> None:
        """End the run after the current step, even if some of the budget is left."""
        self._stopped = True

    def _batches(self) -> Iterator[Sequence[int]]:
        """Yield the remaining batches of this epoch, then the batches of the following epochs, without end."""
        while True:
            self._call("on_epoch_begin")
            batches = self.objective.batches(self.plan, self.state.epoch)
            if not batches:
                raise UsageError("the training data is empty. Give at least one example.", argument="data")
            while self.state.batch < len(batches):
                self.state.batch += 1
                yield batches[self.state.batch - 1]
            self.state.epoch, self.state.batch = self.state.epoch + 1, 0

    def _set_learning_rate(self) -> None:
        steps, warmup_steps = self.config.steps, self.config.warmup_steps
        self.lr_factor = lr_factor(
            self.config.schedule,
            step=self.state.step,
            progress=self.fraction(),
            warmup_steps=warmup_steps,
            warmed=warmup_steps / steps if steps else 0.0,
        )
        set_lr_factor(self.optimizers, self.lr_factor)

    def _clip_gradients(self, loss: StepLoss) -> None:
        """Clip the gradient norm to `max_grad_norm`, or raise if the loss or the gradient norm is not finite."""
        if not math.isfinite(loss.plain):
            raise self.diverged("loss", loss.plain)
        params = [param for param in self.model.parameters() if param.grad is not None]
        norm = torch.nn.utils.get_total_norm([param.grad for param in params if param.grad is not None])
        length = norm.item()
        if not math.isfinite(length):
            raise self.diverged("gradient", length)
        if 0 < self.config.max_grad_norm < length:
            torch.nn.utils.clip_grads_with_norm_(params, self.config.max_grad_norm, norm)

    def _step(self, loss: StepLoss) -> None:
        """Update the weights and their average."""
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        state = self.state
        state.step += 1
        state.tokens += loss.tokens
        state.train_loss = loss.plain if math.isnan(state.train_loss) else 0.95 * state.train_loss + 0.05 * loss.plain
        state.best_train_loss = min(state.best_train_loss, state.train_loss)
        self.averager.update(state.step, self.fraction())
        state.num_snapshots = self.averager.num_snapshots

    # For callbacks ------------------------------------------------------------------------------------------

    def evaluate(self) -> None:
        """Measure the validation loss and the metrics of callbacks, using the averaged weights."""
        started, state = self.clock(), self.state
        self.averager.swap()
        self.model.eval()
        try:
            state.val_loss, state.eval_step = self.objective.validation_loss(), state.step
            if state.val_loss < state.best_val_loss:
                state.best_val_loss, state.best_step, state.evals_since_best = state.val_loss, state.step, 0
            else:
                state.evals_since_best += 1
            metrics = {"validation_loss": state.val_loss}
            for callback in self.callbacks:
                callback.on_evaluate(self, metrics)
        finally:
            self.model.train()
            self.averager.swap()
        self.metrics |= metrics
        state.last_eval_seconds = self.clock() - started
        state.eval_seconds += state.last_eval_seconds
        self.throughput.record_eval(state.last_eval_seconds)
        self._saved_step = -1  # a checkpoint already saved at this step lacks these results
        self._update_seconds()

    def diverged(self, quantity: str, value: float, verb: str = "became") -> DivergenceError:
        """Return the error for a run whose loss or gradient diverged; it mentions the last good checkpoint."""
        checkpoint = last_good_checkpoint(self.run_folder)
        message = (
            f"the {quantity} {verb} {value:.3f} at step {self.state.step:,}; training stopped. Train again with a "
            f"lower learning rate (now {self.config.learning_rate:g}) or a longer warm-up, and another --out."
        )
        if checkpoint is None:
            return DivergenceError(f"{message} No checkpoint was written yet.", argument=quantity, value=value)
        command = self.resume_command(self.run_folder, checkpoint.step)
        return DivergenceError(
            f"{message} The weights of step {checkpoint.step:,} are saved in {checkpoint.path}. To write them as a "
            f"model, run:\n  {command}",
            argument=quantity,
            value=value,
            path=checkpoint.path,
            hint=command,
        )

    def _call(self, hook: str) -> None:
        for callback in self.callbacks:
            getattr(callback, hook)(self)

    @contextlib.contextmanager
    def _finish_step_on_interrupt(self) -> Iterator[None]:
        """Within the block, end the run after the current step on Ctrl-C or SIGTERM, and at once on the second one."""

        def handle(number: int, frame: FrameType | None) -> None:
            if self.interrupted:
                raise KeyboardInterrupt
            self.interrupted = number
            again = "; press Ctrl-C again to stop at once" if number == signal.SIGINT else ""
            with contextlib.suppress(RuntimeError):  # the signal may arrive while a line is being written
                self.progress.say(f"finishing and saving the current step{again}")

        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        if threading.current_thread() is not threading.main_thread():
            handlers = {}
        for number, handler in handlers.items():
            if handler is not signal.SIG_IGN:  # as under nohup, or in a background job
                signal.signal(number, handle)
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _update_seconds(self) -> None:
        self.state.seconds = self.clock() - self._started

    def _budget_seconds(self) -> float:
        return 60 * (self.config.minutes or 0.0)

    # Checkpoints --------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Write a checkpoint from which the run can resume exactly, unless this step is already saved."""
        if self.state.step in (0, self._saved_step):
            return
        tensors = {f"model/{name}": tensor for name, tensor in trainable_tensors(self.model).items()}
        tensors |= {f"optimizer/{k}": v for k, v in state_tensors(self.optimizers, self.model).items()}
        tensors |= {f"average/{name}": tensor for name, tensor in self.averager.tensors().items()}
        for callback in self.callbacks:
            tensors |= callback.tensors()
        state = {"train_state": to_dict(self.state), "identity": self.identity, "machine": self.machine}
        write_checkpoint(self.run_folder, self.state.step, tensors=tensors, state=state)
        self._saved_step = self.state.step

    def load_checkpoint(self) -> None:
        """Load the last good checkpoint in the run folder, if there is one."""
        checkpoint = last_good_checkpoint(self.run_folder)
        if checkpoint is None:
            if is_model_folder(self.run_folder):
                raise UsageError(
                    f"{self.run_folder} has a finished model but no checkpoint to resume from. Replace the model with "
                    "--force, or choose another --out.",
                    argument="resume",
                    path=self.run_folder,
                )
            self.progress.say(f"no checkpoint in {self.run_folder} yet: starting from step 0")
            return
        for message in checkpoint.skipped:
            self.progress.say(message)
        self._check_settings(checkpoint)
        load_into(self.model, _with_prefix(checkpoint, "model/"), trainable_only=True)
        load_state_tensors(self.optimizers, self.model, _with_prefix(checkpoint, "optimizer/"))
        self.state = TrainState(**checkpoint.state["train_state"])
        if self.config.steps is not None and self.config.steps < self.state.step:
            raise UsageError(
                f"--steps {self.config.steps:,} is less than the {self.state.step:,} steps of the run in "
                f"{self.run_folder}. Use at least {self.state.step:,}, or choose another --out.",
                argument="steps",
                value=self.config.steps,
                path=self.run_folder,
            )
        earlier = checkpoint.state["identity"]
        if any(earlier.get(name) != self.identity[name] for name in BUDGET) and self.fraction() < 1:
            # Spread evaluations and snapshots over the new budget.
            self.state.num_snapshots = 0
            self.state.num_evals = math.floor(self.fraction() * self.config.num_evals)
        self.averager.load(_with_prefix(checkpoint, "average/"), self.state.num_snapshots)
        for callback in self.callbacks:
            callback.load_tensors(checkpoint.tensors)
        self._saved_step = self.state.step
        self.progress.say(f"resuming from step {self.state.step:,} ({self.state.seconds:.0f} s of training so far)")

    def _check_settings(self, checkpoint: Checkpoint) -> None:
        earlier, current = {**EARLIER_DEFAULTS, **checkpoint.state["identity"]}, self.identity
        changed = [name for name, value in current.items() if name not in BUDGET and earlier.get(name) != value]
        if changed:
            listed = "; ".join(f"{name} was {earlier.get(name)!r} and is now {current[name]!r}" for name in changed)
            raise UsageError(
                f"--resume needs the same settings and data as the earlier run in {self.run_folder}, but {listed}. "
                "Restore them, or choose another --out.",
                argument=changed[0],
                value=current[changed[0]],
                allowed=[earlier.get(changed[0])],
                path=self.run_folder,
            )
        before = checkpoint.state.get("machine", self.machine)
        differences = [f"{k} was {before.get(k)} and is now {v}" for k, v in self.machine.items() if before.get(k) != v]
        if differences:
            self.progress.say(
                f"{'; '.join(differences)}: rounding may differ, so the result may not be bitwise identical to "
                "that of an uninterrupted run"
            )


def _with_prefix(checkpoint: Checkpoint, prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): t for name, t in checkpoint.tensors.items() if name.startswith(prefix)}
