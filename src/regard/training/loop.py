"""The training loop. Nothing here is specific to a task: it asks the task for losses and moves its weights.

Exactness: a run is a function of its settings and its data. Batches follow from (seed, epoch); the random numbers
of a step follow from (seed, step), because the generator is seeded anew at each one. So a run that was killed and
resumed ends with the very weights of a run that was not.
"""

from __future__ import annotations

import contextlib
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
from torch import Tensor

from regard.checkpoint.folder import is_model_folder, learned_tensors, load_into
from regard.checkpoint.training_state import Checkpoint, last_good_checkpoint, write_checkpoint
from regard.config import to_dict
from regard.data.batches import BatchPlan
from regard.errors import DivergenceError, RegardError, UsageError
from regard.nn.dropout import set_strength
from regard.tasks.task import Task
from regard.training.averaging import Averager
from regard.training.metrics_log import MetricsLog
from regard.training.optimisers import load_state_tensors, make_optimisers, set_rate, state_tensors
from regard.training.options import BUDGET, GoOn, go_on_in_python
from regard.training.pace import Pace
from regard.training.progress import Progress, Silent
from regard.training.replicas import Replicas, choose_replicas
from regard.training.schedules import rate_factor
from regard.training.settings import TrainingConfig

SEED_STRIDE = 100_000_007  # keeps the seeds of neighbouring runs apart
GAP = 0.1  # of validation loss above training loss: less is not worth a word
PATIENCE = 50  # updates with a loss far above the best before a run counts as diverging


class InterruptedRunError(RegardError):
    """Ctrl-C: the step was finished and saved."""

    exit_code = 130


@dataclass
class Position:
    """Where a run is. Everything but the tensors of a checkpoint."""

    step: int = 0  # updates made
    epoch: int = 0
    batch: int = 0  # batches of this epoch that are used up
    seconds: float = 0.0  # trained so far, over all parts of the run
    tokens: int = 0  # predictions learned from
    validations: int = 0
    loss: float = math.nan  # smoothed over the last steps
    best: float = math.inf  # the lowest smoothed loss
    worse: int = 0  # updates since the loss was near its best
    averages: int = 0  # snapshots in the average
    validation: float = math.nan  # the last validation loss
    lowest: float = math.inf  # the lowest one
    lowest_step: int = 0  # when it was measured
    since_lowest: int = 0  # validations after it


class Trainer:
    """Trains one task in one run folder."""

    def __init__(
        self,
        task: Task[Any],
        config: TrainingConfig,
        run: Path,
        *,
        save_every: float = 60.0,
        progress: Progress | None = None,
        identity: Mapping[str, Any] | None = None,  # what else must be the same when the run is resumed
        rates: Mapping[Tensor, float] | None = None,  # parameters that learn at a part of the rate
        rank: int = 0,
        world_size: int = 1,
        replicas: int | None = None,
        go_on: GoOn = go_on_in_python,
        also: Callable[[], Mapping[str, float]] = dict,  # what else is measured at each validation, and logged
    ) -> None:
        if config.steps is None and config.minutes is None:
            raise UsageError("a training needs a budget: give --steps or --minutes.")
        self.task, self.config, self.run_folder = task, config, run
        self.save_every, self.go_on, self.also = save_every, go_on, also
        self.replicas = Replicas(task, choose_replicas(config.batch_tokens) if replicas is None else replicas)
        self.identity = {**to_dict(config), **(identity or {})}
        self.machine = {
            "threads": torch.get_num_threads(),
            "shares": self.replicas.count,
            "device": next(task.model.parameters()).device.type,
            "torch": torch.__version__,
        }
        self.progress = progress or Silent()
        self.plan = BatchPlan(max_tokens=config.batch_tokens, seed=config.seed, rank=rank, world_size=world_size)
        self.optimisers = make_optimisers(
            task.model,
            kind=config.optimiser,
            learning_rate=config.learning_rate,
            matrix_learning_rate=config.matrix_learning_rate,
            betas=(config.beta1, config.beta2),
            epsilon=config.epsilon,
            weight_decay=config.weight_decay,
            rates=rates,
        )
        self.averager = Averager(task.model, kind=config.averaging, decay=config.average_decay)
        self.at = Position()
        self._stop_asked = False
        self._saved_step = -1
        self._best: Mapping[str, Tensor] = {}  # the weights with the lowest validation loss, if they are to be kept

    # The run ------------------------------------------------------------------------------------------------

    def run(self, *, resume: bool = False) -> Position:
        """Train to the end of the budget; the task's model then holds the weights to keep."""
        if resume:
            self._resume()
        log = MetricsLog(self.run_folder, last_step=self.at.step)
        self.task.model.train()
        try:
            with self._finishing_the_step():
                self._train(log)
                self.save()
                if self._stop_asked:
                    raise InterruptedRunError(
                        f"stopped by Ctrl-C after step {self.at.step:,}, which is saved. Go on with:\n"
                        f"  {self.go_on(self.run_folder, None)}"
                    )
        finally:
            set_strength(self.task.model, 1.0)
            log.close()
            self.replicas.close()
        self.averager.swap()
        if self._best:
            load_into(self.task.model, self._best, learned_only=True)
        self.task.model.eval()
        return self.at

    def kept(self) -> str:
        """In words which weights were kept, where the validation examples chose them."""
        if not self._best:
            return ""
        return (
            f"kept: the weights of step {self.at.lowest_step:,}, whose validation loss was the lowest; scores on the "
            "same examples are a little flattered"
        )

    def overfitting(self) -> str:
        """In words whether the model learned its examples by heart, or nothing."""
        at = self.at
        if not at.validation > 1.05 * at.lowest or at.loss > at.lowest:
            return self._gap()
        kept = "are kept" if self._best else "would be kept with --keep best"
        return (
            f"overfitting: the validation loss rose from {at.lowest:.4f} at step {at.lowest_step:,} to "
            f"{at.validation:.4f}, while the training loss fell to {at.loss:.4f}. The weights of step "
            f"{at.lowest_step:,} {kept}; more data, fewer epochs or a lower rate help."
        )

    def _gap(self) -> str:
        """Examples that come again and are known far better than others, although these get no worse."""
        at = self.at
        if not at.epoch or not (at.validation > 2 * at.loss and at.validation - at.loss > GAP):
            return ""
        return (
            f"gap: the training loss is {at.loss:.4f}, the validation loss {at.validation:.4f}: a part of what it "
            f"learned are its own examples. More data or fewer epochs help."
        )

    def _begin_epoch(self) -> Sequence[Sequence[int]]:
        """The batches of the present epoch. What is read for the first time cannot be learned by heart, so dropout
        starts at nothing and comes to its full strength only as the examples come again and again."""
        epochs = self.config.dropout_epochs
        set_strength(self.task.model, min(1.0, self.at.epoch / epochs) if epochs else 1.0)
        return self.task.batches(self.plan, self.at.epoch)

    def _train(self, log: MetricsLog) -> None:
        started = time.perf_counter() - self.at.seconds
        saved = time.perf_counter()
        batches = self._begin_epoch()
        pace = Pace()
        if not self.at.step and (others := self._before()):
            log.write({"step": 0, "epoch": 0, "seconds": 0.0, "tokens": 0, **others})
        while self.fraction() < 1 and not self._stop_asked and not self._out_of_patience():
            begun, known = time.perf_counter(), self.at.tokens
            if self.at.batch >= len(batches):
                self.at.epoch, self.at.batch = self.at.epoch + 1, 0
                batches = self._begin_epoch()
            factor = self._update(batches[self.at.batch])
            learned = time.perf_counter()
            pace.learned(self.at.tokens - known, learned - begun)
            self.at.batch += 1
            self.at.seconds = learned - started
            fraction = self.fraction()
            validation = self._validate_if_due(fraction)
            if validation:
                pace.validated(time.perf_counter() - learned)
            if self.at.step % self.config.log_every == 0 or validation or fraction >= 1:
                log.write(self._row(factor, pace.speed) | validation)
            self.at.seconds = time.perf_counter() - started
            self.progress.update(
                progress=fraction,
                step=self.at.step,
                loss=self.at.loss,
                speed=f"{pace.speed:,.0f} {self.task.counted}/s",
                left=self._left(pace),
            )
            # While the loss is far above its best, the checkpoint from before is the one worth having.
            if time.perf_counter() - saved >= self.save_every and not self.at.worse:
                begun = time.perf_counter()
                self.save()
                saved = time.perf_counter()
                pace.saved(saved - begun)

    def _update(self, indices: Sequence[int]) -> float:
        """One step: loss, gradients, new weights. Returns the factor of the learning rate."""
        factor = rate_factor(
            self.config.schedule,
            step=self.at.step,
            progress=self.fraction(),
            warmup_steps=self.config.warmup_steps,
            warmed=self.config.warmup_steps / self.config.steps if self.config.steps else 0.0,
        )
        set_rate(self.optimisers, factor)
        step = self.replicas.backward(indices, seed=self.config.seed * SEED_STRIDE + self.at.step)
        if not math.isfinite(step.plain):
            raise self._diverged(f"the loss became {step.plain}")
        self._check_and_clip()
        for optimiser in self.optimisers:
            optimiser.step()
            optimiser.zero_grad()
        self.at.step += 1
        self.at.tokens += step.tokens
        self._watch(step.plain)
        self.averager.update(self.at.step, self.fraction())
        self.at.averages = self.averager.taken
        return factor

    def _check_and_clip(self) -> None:
        """Shorten gradients that are too long; one that is not finite must never reach the weights."""
        params = [param for param in self.task.model.parameters() if param.grad is not None]
        norm = torch.nn.utils.get_total_norm([param.grad for param in params if param.grad is not None])
        length = norm.item()
        if not math.isfinite(length):
            raise self._diverged(f"the gradient became {length}")
        if 0 < self.config.clip < length:
            torch.nn.utils.clip_grads_with_norm_(params, self.config.clip, norm)

    def fraction(self) -> float:
        """How much of the budget is used, 0 to 1."""
        if self.config.steps is not None:
            return min(1.0, self.at.step / self.config.steps)
        return min(1.0, self.at.seconds / (60 * (self.config.minutes or 0.0)))

    def _left(self, pace: Pace) -> float:
        """Seconds until the budget is used up."""
        if self.config.steps is None:
            return max(0.0, 60 * (self.config.minutes or 0.0) - self.at.seconds)
        validations = self.config.validations - self.at.validations
        return pace.left(steps=self.config.steps - self.at.step, validations=validations)

    def _out_of_patience(self) -> bool:
        return 0 < self.config.patience <= self.at.since_lowest

    # Watching -----------------------------------------------------------------------------------------------

    def _watch(self, plain: float) -> None:
        """Smooth the loss, and stop when it stays far above its best."""
        self.at.loss = plain if math.isnan(self.at.loss) else 0.95 * self.at.loss + 0.05 * plain
        self.at.best = min(self.at.best, self.at.loss)
        self.at.worse = self.at.worse + 1 if self.at.loss > 1.5 * self.at.best + 1 else 0
        if self.at.worse >= PATIENCE:
            raise self._diverged(f"the loss rose from {self.at.best:.3f} to {self.at.loss:.3f} and stayed there")

    def _diverged(self, what: str) -> DivergenceError:
        kept = last_good_checkpoint(self.run_folder)
        message = (
            f"{what} at step {self.at.step:,}; training stopped. To train anew, choose another --out, a lower learning "
            f"rate (now {self.config.learning_rate:g}) or a longer warm-up."
        )
        if kept is None:
            return DivergenceError(f"{message} No checkpoint was written yet.")
        return DivergenceError(
            f"{message} The weights of step {kept.step:,} are kept in {kept.path}; make a model of them with:\n"
            f"  {self.go_on(self.run_folder, kept.step)}"
        )

    def _before(self) -> Mapping[str, float]:
        """What else is measured at each validation, before the first step."""
        self.task.model.eval()
        others = self.also()
        self.task.model.train()
        return others

    def _validate_if_due(self, fraction: float) -> dict[str, float]:
        due = math.floor(fraction * self.config.validations + 1e-9)
        if due <= self.at.validations:
            return {}
        self.at.validations = due
        self.averager.swap()
        self.task.model.eval()
        value = self.task.validation_loss()
        self._remember(value)
        others = self.also()
        self.task.model.train()
        self.averager.swap()
        perplexity = f", perplexity {math.exp(min(value, 50)):.2f}" if self.task.perplexes else ""
        self.progress.say(f"step {self.at.step:,}: validation loss {value:.4f}{perplexity}")
        return {"validation_loss": value, **others}

    def _remember(self, value: float) -> None:
        """Whether a validation loss is the lowest so far; the weights that gave it may be kept."""
        self.at.validation = value
        if not value < self.at.lowest:
            self.at.since_lowest += 1
            return
        self.at.lowest, self.at.lowest_step, self.at.since_lowest = value, self.at.step, 0
        if self.config.keep == "best":
            learned = learned_tensors(self.task.model)
            self._best = {name: tensor.detach().clone() for name, tensor in learned.items()}

    def _row(self, factor: float, speed: float) -> dict[str, Any]:
        return {
            "step": self.at.step,
            "epoch": self.at.epoch,
            "seconds": round(self.at.seconds, 2),
            "tokens": self.at.tokens,
            "loss": self.at.loss,
            "learning_rate": factor * self.config.learning_rate,
            "tokens_per_second": round(speed, 1),
        }

    # Saving and going on ------------------------------------------------------------------------------------

    def save(self) -> None:
        """Write a checkpoint from which the run goes on exactly."""
        if self.at.step in (0, self._saved_step):
            return
        tensors = {f"model/{name}": tensor for name, tensor in learned_tensors(self.task.model).items()}
        tensors |= {f"optimiser/{k}": v for k, v in state_tensors(self.optimisers, self.task.model).items()}
        tensors |= {f"average/{name}": tensor for name, tensor in self.averager.tensors().items()}
        tensors |= {f"best/{name}": tensor for name, tensor in self._best.items()}
        state = {"position": to_dict(self.at), "identity": self.identity, "machine": self.machine}
        write_checkpoint(self.run_folder, self.at.step, tensors=tensors, state=state)
        self._saved_step = self.at.step

    def _resume(self) -> None:
        checkpoint = last_good_checkpoint(self.run_folder)
        if checkpoint is None and is_model_folder(self.run_folder):
            raise UsageError(
                f"{self.run_folder} holds a finished model but no checkpoint to go on from. Replace the model with "
                f"--force, or choose another --out."
            )
        if checkpoint is None:
            self.progress.say(f"no checkpoint in {self.run_folder} yet: starting from step 0")
            return
        for message in checkpoint.skipped:
            self.progress.say(message)
        self._check_settings(checkpoint)
        load_into(self.task.model, _within(checkpoint, "model/"), learned_only=True)
        load_state_tensors(self.optimisers, self.task.model, _within(checkpoint, "optimiser/"))
        self.at = Position(**checkpoint.state["position"])
        if self._other_budget(checkpoint) and self.fraction() < 1:
            # What was due of the old budget is due again of the new one, or more training would change nothing.
            self.at.averages = 0
            self.at.validations = math.floor(self.fraction() * self.config.validations)
        self.averager.load(_within(checkpoint, "average/"), self.at.averages)
        self._best = _within(checkpoint, "best/")
        self._saved_step = self.at.step
        self.progress.say(f"going on from step {self.at.step:,} ({self.at.seconds:.0f} s trained)")

    def _other_budget(self, checkpoint: Checkpoint) -> bool:
        return any(checkpoint.state["identity"].get(name) != self.identity[name] for name in BUDGET)

    def _check_settings(self, checkpoint: Checkpoint) -> None:
        # What once was all there was.
        then = {"dropout_epochs": 0, "keep": "last", "patience": 0, **checkpoint.state["identity"]}
        now = self.identity
        changed = [f"{k} was {then.get(k)!r}, is {v!r}" for k, v in now.items() if k not in BUDGET and then.get(k) != v]
        if changed:
            raise UsageError(
                f"--resume goes on with the same settings and data, but {'; '.join(changed)}. "
                f"Give what the run in {self.run_folder} began with, or choose another --out."
            )
        before = checkpoint.state.get("machine", self.machine)
        other = [f"{k} was {before.get(k)}, is {v}" for k, v in self.machine.items() if before.get(k) != v]
        if other:
            self.progress.say(f"{'; '.join(other)}: sums round differently, so not bit for bit as without the stop")

    @contextlib.contextmanager
    def _finishing_the_step(self) -> Iterator[None]:
        """Ctrl-C asks to stop after the step; a second one stops at once."""

        def ask(number: int, frame: FrameType | None) -> None:
            if self._stop_asked:
                raise KeyboardInterrupt
            self._stop_asked = True
            with contextlib.suppress(RuntimeError):  # the signal may have come in the midst of a line
                self.progress.say("finishing the step and saving it; Ctrl-C again stops at once")

        ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # as under nohup or in a shell's background
        if ignored or threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGINT, ask)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def _within(checkpoint: Checkpoint, prefix: str) -> dict[str, torch.Tensor]:
    return {name[len(prefix) :]: t for name, t in checkpoint.tensors.items() if name.startswith(prefix)}
