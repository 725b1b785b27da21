"""The training loop. It knows no task: an objective gives batches and losses, callbacks do everything else.

Exactness: a run is a function of its settings and its data. Batches follow from (seed, epoch) and the random numbers of
a step from (seed, step), since the generator is seeded again at each step. So a run that was killed and resumed ends
with exactly the weights of a run that was not.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.checkpoint.folder import is_model_folder
from regard.checkpoint.training_state import Checkpoint, last_good_checkpoint, write_checkpoint
from regard.data.batches import BatchPlan
from regard.nn.state_dict import load_into, trainable_tensors
from regard.training.callbacks import Callback, default_callbacks
from regard.training.config import TrainingConfig
from regard.training.data_parallel import DataParallel, StepLoss, choose_num_replicas
from regard.training.interrupts import InterruptedRunError, finish_step_on_interrupt
from regard.training.objective import Objective
from regard.training.optimizers import load_state_tensors, make_optimizers, set_lr_factor, state_tensors
from regard.training.progress import NullProgress, Progress
from regard.training.request import BUDGET, ResumeCommand, resume_in_python
from regard.training.schedules import lr_factor
from regard.training.throughput import Throughput
from regard.training.weight_averaging import WeightAverager
from regard.utils.config import to_dict
from regard.utils.errors import DivergenceError, UsageError

SEED_STRIDE = 100_000_007  # between the seeds of two runs, which seeds of steps lie between
# Defaults for checkpoints that were written before these settings existed.
EARLIER_DEFAULTS = {"accumulate": 1, "dropout_warmup_epochs": 0, "keep_weights": "last", "patience": 0}


@dataclass
class TrainState:
    """How far a run is: everything that a checkpoint holds besides tensors."""

    step: int = 0  # optimizer steps made
    epoch: int = 0
    batch: int = 0  # batches of this epoch that are used up
    seconds: float = 0.0  # of training so far, over all parts of the run
    tokens: int = 0  # predictions learned from
    train_loss: float = math.nan  # smoothed over the last steps
    best_train_loss: float = math.inf  # the lowest smoothed loss
    steps_above_best: int = 0  # steps since the training loss was near its best
    num_snapshots: int = 0  # in the average of the weights
    num_evals: int = 0  # evaluations that were due so far
    eval_step: int = 0  # step of the last evaluation
    eval_seconds: float = 0.0  # of all evaluations
    last_eval_seconds: float = 0.0
    val_loss: float = math.nan  # of the last evaluation
    best_val_loss: float = math.inf
    best_step: int = 0  # step of the lowest validation loss
    evals_since_best: int = 0


class Trainer:
    """Trains one objective in one run folder."""

    def __init__(
        self,
        objective: Objective,
        config: TrainingConfig,
        run_folder: Path,
        *,
        callbacks: Sequence[Callback] = (),  # besides the default ones
        save_every: float = 60.0,
        progress: Progress | None = None,
        identity: Mapping[str, Any] | None = None,  # settings and data that a resumed run must share
        lr_multipliers: Mapping[Tensor, float] | None = None,  # parameters with a fraction of the learning rate
        rank: int = 0,
        world_size: int = 1,
        replicas: int | None = None,
        resume_command: ResumeCommand = resume_in_python,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        if config.steps is None and config.minutes is None:
            raise UsageError("training needs a budget: give --steps or --minutes.")
        self.objective, self.config, self.run_folder = objective, config, run_folder
        self.model: nn.Module = objective.model
        self.progress = progress or NullProgress()
        self.callbacks = default_callbacks(config, save_every=save_every, progress=self.progress, extra=callbacks)
        self.resume_command, self.clock = resume_command, clock
        self.data_parallel = DataParallel(
            objective, choose_num_replicas(config.batch_tokens) if replicas is None else replicas
        )
        self.plan = BatchPlan(max_tokens=config.batch_tokens, seed=config.seed, rank=rank, world_size=world_size)
        self.optimizers = make_optimizers(
            self.model,
            kind=config.optimizer,
            learning_rate=config.learning_rate,
            muon_learning_rate=config.muon_learning_rate,
            betas=(config.beta1, config.beta2),
            adam_eps=config.adam_eps,
            weight_decay=config.weight_decay,
            lr_multipliers=lr_multipliers,
        )
        self.averager = WeightAverager(self.model, kind=config.weight_averaging, decay=config.ema_decay)
        self.identity = {**to_dict(config), **(identity or {})}
        self.machine = {
            "threads": torch.get_num_threads(),
            "shares": self.data_parallel.count,
            "device": next(self.model.parameters()).device.type,
            "torch": torch.__version__,
        }
        self.state = TrainState()
        self.metrics: dict[str, float] = {}  # measured since the last row of metrics.jsonl
        self.lr_factor = 0.0  # of the last step
        self.throughput = Throughput()
        self.interrupted = False
        self._stopped = False
        self._started = 0.0  # on the clock, as if the whole run had taken place in this process
        self._saved_step = -1

    # The loop -----------------------------------------------------------------------------------------------

    def fit(self, *, resume: bool = False) -> TrainState:
        """Train until the budget is used up; the model then holds the weights to keep."""
        if resume:
            self.load_checkpoint()
        self._started = self.clock() - self.state.seconds
        self.model.train()
        try:
            with finish_step_on_interrupt(self._interrupt):
                self._call("on_train_begin")
                batches = self._batches()
                while not self.is_finished():
                    started, tokens = self.clock(), self.state.tokens
                    self._set_learning_rate()
                    step_batches = itertools.islice(batches, self.config.accumulate)  # next batch
                    loss = self.data_parallel.backward(step_batches, seed=self._step_seed())  # forward, backward
                    self._clip_gradients(loss)
                    self._step(loss)
                    self._tick()
                    self.throughput.record_step(self.state.tokens - tokens, self.clock() - started)
                    self._call("on_step_end")
                    self._tick()
                self._call("on_train_end")
            if self.interrupted:
                raise InterruptedRunError(
                    f"stopped by Ctrl-C; step {self.state.step:,} is saved. Resume with:\n"
                    f"  {self.resume_command(self.run_folder, None)}"
                )
        finally:
            self._call("close")
            self.data_parallel.close()
        self.averager.swap()
        self._call("on_weights_ready")
        self.model.eval()
        return self.state

    def is_finished(self) -> bool:
        return self.fraction() >= 1 or self._stopped or self.interrupted

    def fraction(self) -> float:
        """How much of the budget is used, 0 to 1."""
        if self.config.steps is not None:
            return min(1.0, self.state.step / self.config.steps)
        return min(1.0, self.state.seconds / self._budget_seconds())

    def time_left(self) -> float:
        """Seconds until the budget is used up, as far as can be estimated."""
        if self.config.steps is None:
            return max(0.0, self._budget_seconds() - self.state.seconds)
        return self.throughput.time_left(
            steps=self.config.steps - self.state.step, num_evals=self.config.num_evals - self.state.num_evals
        )

    def stop(self) -> None:
        """End the run after this step, as if its budget were used up."""
        self._stopped = True

    def _batches(self) -> Iterator[Sequence[int]]:
        """The batches of this epoch that are left, then those of the next ones, without end."""
        while True:
            self._call("on_epoch_begin")
            batches = self.objective.batches(self.plan, self.state.epoch)
            if not batches:
                raise UsageError("there are no training examples.")
            while self.state.batch < len(batches):
                self.state.batch += 1
                yield batches[self.state.batch - 1]
            self.state.epoch, self.state.batch = self.state.epoch + 1, 0

    def _set_learning_rate(self) -> None:
        steps, warmup = self.config.steps, self.config.warmup_steps
        self.lr_factor = lr_factor(
            self.config.schedule,
            step=self.state.step,
            progress=self.fraction(),
            warmup_steps=warmup,
            warmed=warmup / steps if steps else 0.0,
        )
        set_lr_factor(self.optimizers, self.lr_factor)

    def _step_seed(self) -> int:
        return self.config.seed * SEED_STRIDE + self.state.step

    def _clip_gradients(self, loss: StepLoss) -> None:
        """Scale gradients down to `max_grad_norm`. A loss or gradient that is not finite must not reach the weights."""
        if not math.isfinite(loss.plain):
            raise self.diverged(f"the loss became {loss.plain}")
        params = [param for param in self.model.parameters() if param.grad is not None]
        norm = torch.nn.utils.get_total_norm([param.grad for param in params if param.grad is not None])
        length = norm.item()
        if not math.isfinite(length):
            raise self.diverged(f"the gradient became {length}")
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
        state.num_snapshots = self.averager.taken

    # For callbacks ------------------------------------------------------------------------------------------

    def evaluate(self) -> None:
        """Measure the validation loss of the averaged weights, and what callbacks measure besides."""
        started, state = self.clock(), self.state
        with self._averaged_weights():
            state.val_loss, state.eval_step = self.objective.validation_loss(), state.step
            if state.val_loss < state.best_val_loss:
                state.best_val_loss, state.best_step, state.evals_since_best = state.val_loss, state.step, 0
            else:
                state.evals_since_best += 1
            metrics = {"validation_loss": state.val_loss}
            for callback in self.callbacks:
                callback.on_evaluate(self, metrics)
        self.metrics |= metrics
        state.last_eval_seconds = self.clock() - started
        state.eval_seconds += state.last_eval_seconds
        self.throughput.record_eval(state.last_eval_seconds)
        self._saved_step = -1  # a checkpoint of this step would lack what was just measured
        self._tick()

    def diverged(self, reason: str) -> DivergenceError:
        """The error that ends a run whose loss or gradient is out of bounds; it names the last good checkpoint."""
        kept = last_good_checkpoint(self.run_folder)
        message = (
            f"{reason} at step {self.state.step:,}; training stopped. Train again with a lower learning rate (now "
            f"{self.config.learning_rate:g}) or a longer warm-up, and another --out."
        )
        if kept is None:
            return DivergenceError(f"{message} No checkpoint was written yet.")
        return DivergenceError(
            f"{message} The weights of step {kept.step:,} are kept in {kept.path}; make a model of them with:\n"
            f"  {self.resume_command(self.run_folder, kept.step)}"
        )

    @contextlib.contextmanager
    def _averaged_weights(self) -> Iterator[None]:
        """The model in eval mode with the averaged weights."""
        self.averager.swap()
        self.model.eval()
        try:
            yield
        finally:
            self.model.train()
            self.averager.swap()

    def _call(self, hook: str) -> None:
        for callback in self.callbacks:
            getattr(callback, hook)(self)

    def _interrupt(self) -> None:
        self.interrupted = True
        with contextlib.suppress(RuntimeError):  # the signal may have arrived while a line was being written
            self.progress.say("finishing this step and saving it; press Ctrl-C again to stop at once")

    def _tick(self) -> None:
        self.state.seconds = self.clock() - self._started

    def _budget_seconds(self) -> float:
        return 60 * (self.config.minutes or 0.0)

    # Checkpoints --------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Write a checkpoint from which the run resumes exactly."""
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
        """Continue from the last good checkpoint of the run folder, if there is one."""
        checkpoint = last_good_checkpoint(self.run_folder)
        if checkpoint is None and is_model_folder(self.run_folder):
            raise UsageError(
                f"{self.run_folder} holds a finished model but no checkpoint to resume from. Replace the model with "
                f"--force, or choose another --out."
            )
        if checkpoint is None:
            self.progress.say(f"no checkpoint in {self.run_folder} yet: starting from step 0")
            return
        for message in checkpoint.skipped:
            self.progress.say(message)
        self._check_settings(checkpoint)
        load_into(self.model, _within(checkpoint, "model/"), learned_only=True)
        load_state_tensors(self.optimizers, self.model, _within(checkpoint, "optimizer/"))
        self.state = TrainState(**checkpoint.state["train_state"])
        if self._has_other_budget(checkpoint) and self.fraction() < 1:
            # Evaluations and snapshots are spread over the new budget.
            self.state.num_snapshots = 0
            self.state.num_evals = math.floor(self.fraction() * self.config.num_evals)
        self.averager.load(_within(checkpoint, "average/"), self.state.num_snapshots)
        for callback in self.callbacks:
            callback.load_tensors(checkpoint.tensors)
        self._saved_step = self.state.step
        self.progress.say(f"resuming from step {self.state.step:,} ({self.state.seconds:.0f} s of training so far)")

    def _has_other_budget(self, checkpoint: Checkpoint) -> bool:
        return any(checkpoint.state["identity"].get(name) != self.identity[name] for name in BUDGET)

    def _check_settings(self, checkpoint: Checkpoint) -> None:
        then, now = {**EARLIER_DEFAULTS, **checkpoint.state["identity"]}, self.identity
        changed = [name for name, value in now.items() if name not in BUDGET and then.get(name) != value]
        if changed:
            listed = "; ".join(f"{name} was {then.get(name)!r}, is {now[name]!r}" for name in changed)
            raise UsageError(
                f"--resume needs the settings and data that the run in {self.run_folder} started with, but {listed}. "
                "Give the same ones, or choose another --out.",
                argument=changed[0],
                value=now[changed[0]],
                allowed=[then.get(changed[0])],
                path=self.run_folder,
            )
        before = checkpoint.state.get("machine", self.machine)
        other = [f"{k} was {before.get(k)}, is {v}" for k, v in self.machine.items() if before.get(k) != v]
        if other:
            self.progress.say(
                f"{'; '.join(other)}: sums are rounded differently, so the result will not be bit for bit that of an "
                "uninterrupted run"
            )


def _within(checkpoint: Checkpoint, prefix: str) -> dict[str, torch.Tensor]:
    return {name[len(prefix) :]: t for name, t in checkpoint.tensors.items() if name.startswith(prefix)}
