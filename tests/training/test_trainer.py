"""The training loop on ten numbers: budgets, validation, divergence, interruption, exact resume."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from regard.checkpoint.training_state import last_good_checkpoint
from regard.data.batches import BatchPlan
from regard.models.bert.config import BertConfig
from regard.models.bert.model import BertForSequenceClassification
from regard.nn.layers import dropout
from regard.training.callbacks import Callback, ExtraMetrics, NullProgress, read_metrics
from regard.training.config import TrainingConfig
from regard.training.data_parallel import DataParallel, unshared
from regard.training.objective import Loss
from regard.training.report import diagnose
from regard.training.run import resume_in_python
from regard.training.trainer import InterruptedRunError, Trainer, TrainState
from regard.utils.errors import DivergenceError, UsageError


class Listening(NullProgress):
    def __init__(self, said: list[str]) -> None:
        self.said = said

    def say(self, message: str) -> None:
        self.said.append(message)


class Line:
    """Fit y = 3x with noise from the step's own random numbers: a task that shows whether those repeat."""

    name = "line"
    summary = ""
    data = ()
    loss_unit = "tokens"
    reports_perplexity = True
    sparse_embeddings: Sequence[object] = ()
    num_validation_targets = 0

    def __init__(self, *, spoil_at: int | None = None, worse_from: int | None = None) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(1, 5), nn.Tanh(), nn.Linear(5, 1))
        self.calls = 0
        self.spoil_at, self.worse_from = spoil_at, worse_from
        self.interrupt_at: int | None = None
        self.seen: list[tuple[int, ...]] = []

    def size(self, index: int) -> tuple[int, int]:
        return 1, 1

    def batches(self, plan: BatchPlan, epoch: int) -> list[list[int]]:
        return plan.batches([(1, 1)] * 29, epoch)

    def loss(self, indices: Sequence[int]) -> Loss:
        self.calls += 1
        self.seen.append(tuple(indices))
        if self.calls == self.interrupt_at:
            os.kill(os.getpid(), signal.SIGINT)
        x = torch.tensor([[float(i)] for i in indices]) / 29
        noise = 0.1 * dropout(torch.ones_like(x), 0.5)
        value = (self.model(x + noise) - 3 * x).square().mean()
        if self.calls == self.spoil_at:
            value = value * float("nan")
        if self.worse_from is not None and self.calls > self.worse_from:
            value = value + 100.0
        return Loss(value, value.detach(), len(indices))

    def validation_loss(self) -> float:
        x = torch.linspace(0, 1, 7)[:, None]
        with torch.no_grad():
            return float((self.model(x) - 3 * x).square().mean())


def test_replicas_add_up_to_the_gradient_of_the_whole_batch() -> None:
    class Still(Line):
        def loss(self, indices: Sequence[int]) -> Loss:
            x = torch.tensor([[float(i)] for i in indices], dtype=torch.float64) / 29
            value = (self.model(x) - 3 * x).square().mean()
            return Loss(value, value.detach(), len(indices))

    whole, split = Still(), Still()
    whole.model.double(), split.model.double()
    rows = [3, 28, 5, 0, 11, 7, 2]
    one, three = DataParallel(whole, 1).backward([rows], seed=0), DataParallel(split, 3).backward([rows], seed=0)
    assert one.tokens == three.tokens == 7
    assert one.plain == pytest.approx(three.plain, rel=1e-12)
    for a, b in zip(whole.model.parameters(), split.model.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, atol=1e-12, rtol=0)


def test_each_replica_uses_one_thread_and_restores_the_setting() -> None:
    seen: list[int] = []

    class Watching(Line):
        def loss(self, indices: Sequence[int]) -> Loss:
            seen.append(torch.get_num_threads())
            return super().loss(indices)

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        replicas = DataParallel(Watching(), 2)
        for _ in range(3):
            replicas.backward([range(6)], seed=0)
        assert seen == [1] * 6
        assert torch.get_num_threads() == 3
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(torch.get_num_threads).result() == 3, "threads that begin later have theirs, too"
        replicas.close()
    finally:
        torch.set_num_threads(before)


def config(**changes: object) -> TrainingConfig:
    usual: dict[str, object] = dict(steps=23, batch_tokens=10, learning_rate=0.01, log_every=5, warmup_steps=3)
    usual.update(changes)
    return TrainingConfig(**usual)  # type: ignore[arg-type]


def test_a_run_learns_and_writes_metrics(tmp_path: Path) -> None:
    task = Line()
    before = task.validation_loss()
    state = Trainer(task, config(steps=200), tmp_path).fit()
    assert state.step == 200
    assert task.validation_loss() < before / 2
    rows = read_metrics(tmp_path)
    steps = [row["step"] for row in rows]
    assert steps == sorted(set(steps))
    assert steps[-1] == 200
    assert sum("validation_loss" in row for row in rows) == 10
    assert all({"loss", "learning_rate", "seconds"} <= row.keys() for row in rows)
    assert all(row["tokens_per_second"] > 0 for row in rows)


@pytest.mark.parametrize("weight_averaging", ["none", "ema", "tail"])
@pytest.mark.parametrize(("optimizer", "replicas"), [("muon", 1), ("adamw", 1), ("muon", 3)])
def test_resumed_equals_uninterrupted_bit_for_bit(
    tmp_path: Path, optimizer: str, weight_averaging: str, replicas: int
) -> None:
    settings = config(optimizer=optimizer, weight_averaging=weight_averaging)
    straight = Line()
    Trainer(straight, settings, tmp_path / "straight", replicas=replicas).fit()
    for stop in (1, 7, 19):
        run = tmp_path / f"stopped-{stop}"
        stopped = Line()
        stopped.interrupt_at = stop
        with pytest.raises(InterruptedRunError) as interrupted:
            Trainer(stopped, settings, run, replicas=replicas).fit()
        assert interrupted.value.hint == resume_in_python(run)
        checkpoint = last_good_checkpoint(run)
        assert checkpoint is not None
        resumed = Line()
        state = Trainer(resumed, settings, run, replicas=replicas).fit(resume=True)
        assert state.step == 23
        if replicas == 1:
            assert checkpoint.step == stop
            assert resumed.calls == 23 - stop
            assert stopped.seen + resumed.seen == straight.seen
        for a, b in zip(straight.model.parameters(), resumed.model.parameters(), strict=True):
            assert torch.equal(a, b)


def test_ctrl_c_in_mid_step_finishes_the_step_and_saves_it(tmp_path: Path) -> None:
    task = Line()
    task.interrupt_at = 4
    with pytest.raises(InterruptedRunError) as caught:
        Trainer(task, config(), tmp_path).fit()
    assert caught.value.exit_code == 130
    assert task.calls == 4
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_sigterm_saves_like_ctrl_c(tmp_path: Path) -> None:
    class Terminated(Callback):
        def on_step_end(self, trainer: Trainer) -> None:
            if trainer.state.step == 3:
                signal.raise_signal(signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(InterruptedRunError) as caught:
        Trainer(Line(), config(), tmp_path, callbacks=[Terminated()]).fit()
    assert caught.value.exit_code == 143
    checkpoint = last_good_checkpoint(tmp_path)
    assert checkpoint is not None and checkpoint.step == 3
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_resumed_run_needs_at_least_the_steps_it_has_taken(tmp_path: Path) -> None:
    Trainer(Line(), config(steps=5), tmp_path).fit()
    with pytest.raises(UsageError) as caught:
        Trainer(Line(), config(steps=4), tmp_path).fit(resume=True)
    assert (caught.value.argument, caught.value.value, caught.value.path) == ("steps", 4, tmp_path)
    assert Trainer(Line(), config(steps=5), tmp_path).fit(resume=True).step == 5


def test_the_first_checkpoint_comes_after_ten_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, saved, save = Clock(), [], Trainer.save

    def record(self: Trainer) -> None:
        saved.append(self.state.step)
        save(self)

    monkeypatch.setattr(Trainer, "save", record)
    Trainer(Timed(clock, step=1.0, evaluation=0.0), config(steps=100), tmp_path, clock=clock, save_every=40.0).fit()
    assert saved == [10, 50, 90, 100]


def test_nan_stops_with_the_last_good_weights(tmp_path: Path) -> None:
    with pytest.raises(DivergenceError) as error:
        Trainer(Line(spoil_at=12), config(), tmp_path, save_every=1e-9).fit()
    assert (error.value.argument, error.value.path) == ("loss", tmp_path / "checkpoint-11")
    assert error.value.hint == resume_in_python(tmp_path, 11)
    checkpoint = last_good_checkpoint(tmp_path)
    assert checkpoint is not None
    assert all(tensor.isfinite().all() for tensor in checkpoint.tensors.values())


@pytest.mark.parametrize("max_grad_norm", [0.0, 1.0])
def test_a_gradient_that_is_not_finite_never_reaches_the_weights(max_grad_norm: float, tmp_path: Path) -> None:
    task = Line()
    calls = 0

    def spoil(gradient: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return gradient * float("nan") if calls == 8 else gradient

    task.model[0].weight.register_hook(spoil)
    with pytest.raises(DivergenceError) as error:
        Trainer(task, config(max_grad_norm=max_grad_norm), tmp_path, save_every=1e-9).fit()
    assert (error.value.argument, error.value.path) == ("gradient", tmp_path / "checkpoint-7")
    checkpoint = last_good_checkpoint(tmp_path)
    assert checkpoint is not None
    assert all(tensor.isfinite().all() for tensor in checkpoint.tensors.values())


def test_no_checkpoint_of_a_diverging_run_replaces_a_good_one(tmp_path: Path) -> None:
    with pytest.raises(DivergenceError):
        Trainer(Line(worse_from=20), config(steps=500), tmp_path, save_every=1e-9).fit()
    checkpoint = last_good_checkpoint(tmp_path)
    assert checkpoint is not None
    assert checkpoint.step <= 21


def test_a_diverging_loss_stops_the_run(tmp_path: Path) -> None:
    with pytest.raises(DivergenceError) as error:
        Trainer(Line(worse_from=20), config(steps=500), tmp_path).fit()
    assert (error.value.argument, error.value.value > 50) == ("loss", True)


def test_resume_refuses_other_settings_but_takes_a_longer_budget(tmp_path: Path) -> None:
    Trainer(Line(), config(), tmp_path).fit()
    with pytest.raises(UsageError) as error:
        Trainer(Line(), config(learning_rate=0.5), tmp_path).fit(resume=True)
    assert (error.value.argument, error.value.value, error.value.allowed) == ("learning_rate", 0.5, (0.01,))
    assert Trainer(Line(), config(steps=30), tmp_path).fit(resume=True).step == 30


@pytest.mark.parametrize("weight_averaging", ["none", "ema", "tail"])
def test_a_longer_budget_changes_the_weights_and_is_validated(weight_averaging: str, tmp_path: Path) -> None:
    first, second = Line(), Line()
    Trainer(first, config(steps=20, weight_averaging=weight_averaging, num_evals=4), tmp_path).fit()
    Trainer(second, config(steps=60, weight_averaging=weight_averaging, num_evals=4), tmp_path).fit(resume=True)
    assert not torch.equal(first.model[0].weight, second.model[0].weight)
    validated = [row["step"] for row in read_metrics(tmp_path) if "validation_loss" in row]
    assert validated == [5, 10, 15, 20, 30, 45, 60]


def test_another_number_of_threads_is_reported_but_does_not_stop_a_resumed_run(tmp_path: Path) -> None:
    Trainer(Line(), config(steps=5), tmp_path).fit()
    said: list[str] = []
    trainer = Trainer(Line(), config(steps=8), tmp_path)
    trainer.machine["threads"] = 99
    trainer.progress = Listening(said)
    trainer.fit(resume=True)
    (line,) = [line for line in said if "99" in line]
    assert "threads" in line and "torch" not in line


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        (dict(steps=0), "steps"),
        (dict(steps=None, minutes=-1.0), "minutes"),
        (dict(learning_rate=0.0), "learning_rate"),
        (dict(batch_tokens=0), "batch_tokens"),
        (dict(accumulate=0), "accumulate"),
        (dict(max_grad_norm=-1.0), "max_grad_norm"),
        (dict(patience=-1), "patience"),
        (dict(keep_weights="bset"), "keep_weights"),
    ],
)
def test_bad_settings_are_named(changes: dict[str, object], argument: str) -> None:
    with pytest.raises(UsageError) as caught:
        config(**changes)
    assert caught.value.argument == argument


@pytest.mark.parametrize("budgets", [dict(steps=None), dict(steps=3, minutes=1.0)])
def test_a_run_needs_one_budget(budgets: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        Trainer(Line(), config(**budgets), tmp_path)
    assert error.value.argument == "steps"


class Scripted(Line):
    """A task with given validation losses."""

    def __init__(self, *losses: float) -> None:
        super().__init__()
        self.losses = iter(losses)
        self.weights: list[torch.Tensor] = []

    def validation_loss(self) -> float:
        self.weights.append(self.model[0].weight.detach().clone())
        return next(self.losses)


def test_m150_the_best_weights_are_kept(tmp_path: Path) -> None:
    best, last = Scripted(3.0, 1.0, 2.0, 4.0), Scripted(3.0, 1.0, 2.0, 4.0)
    shared = dict(steps=20, num_evals=4, weight_averaging="none")
    state = Trainer(best, config(keep_weights="best", **shared), tmp_path / "best").fit()
    Trainer(last, config(**shared), tmp_path / "last").fit()
    assert (state.best_val_loss, state.best_step, state.evals_since_best, state.step) == (1.0, 10, 2, 20)
    assert torch.equal(best.model[0].weight, best.weights[1])
    assert torch.equal(last.model[0].weight, last.weights[3])
    assert not torch.equal(best.weights[1], best.weights[3])


def test_m150_patience_ends_a_training_early(tmp_path: Path) -> None:
    task = Scripted(3.0, 1.0, 2.0, 1.5, 0.5)
    state = Trainer(task, config(steps=20, num_evals=5, patience=2, keep_weights="best"), tmp_path).fit()
    assert state.step == 16
    assert state.best_step == 8


def test_m150_the_best_weights_survive_a_resume(tmp_path: Path) -> None:
    shared = dict(steps=20, num_evals=4, weight_averaging="none", keep_weights="best")
    first = Scripted(3.0, 1.0)
    first.interrupt_at = 12
    with pytest.raises(InterruptedRunError):
        Trainer(first, config(**shared), tmp_path).fit()
    second = Scripted(2.0, 4.0)
    Trainer(second, config(**shared), tmp_path).fit(resume=True)
    assert torch.equal(second.model[0].weight, first.weights[1])


def test_m150_overfitting_is_reported(tmp_path: Path) -> None:
    def kinds(name: str, *losses: float, **changes: object) -> list[str]:
        settings = config(steps=20, num_evals=len(losses), **changes)
        notes = diagnose(Trainer(Scripted(*losses), settings, tmp_path / name).fit(), settings)
        assert all("14" in note for note in notes if not note.startswith("gap"))
        return [note.split(":")[0] for note in notes]

    assert kinds("bad", 90.0, 80.0, 95.0) == ["overfitting"]
    assert kinds("kept", 90.0, 80.0, 95.0, keep_weights="best") == ["kept", "overfitting"]
    assert kinds("good", 90.0, 80.0, 81.0) == ["gap"]
    assert kinds("slow", 0.0001, 0.00012) == [], "the training loss is above it, too"


def test_losses_of_different_steps_are_not_compared() -> None:
    state = TrainState(step=9, eval_step=9, epoch=1, train_loss=1.0, val_loss=5.0, best_val_loss=5.0)
    assert len(diagnose(state, config())) == 1
    assert diagnose(replace(state, eval_step=2), config()) == []


def test_a_loss_of_labels_has_no_perplexity(tmp_path: Path) -> None:
    for reports_perplexity in (True, False):
        said: list[str] = []
        task = Line()
        task.reports_perplexity = reports_perplexity
        Trainer(task, config(steps=2, num_evals=1), tmp_path / str(reports_perplexity), progress=Listening(said)).fit()
        assert [", perplexity " in line for line in said if "validation loss" in line] == [reports_perplexity]


def test_extra_metrics_are_logged_from_the_start(tmp_path: Path) -> None:
    measured = iter([5.0, 6.0, 7.0])
    Trainer(
        Line(), config(steps=20, num_evals=2), tmp_path, callbacks=[ExtraMetrics(lambda: {"known": next(measured)})]
    ).fit()
    assert [(row["step"], row["known"]) for row in read_metrics(tmp_path) if "known" in row] == [
        (0, 5),
        (10, 6),
        (20, 7),
    ]


def test_gradients_may_be_changed_in_place() -> None:
    one, other, far = torch.ones(3), torch.zeros(2, 3), torch.ones(1)
    found = list(unshared([one, one, None, other.mT, far.expand(4)]))
    assert found[0] is one and found[2] is None
    for gradient in found:
        if gradient is not None:
            gradient.mul_(2)
    values = [gradient.unique().tolist() for gradient in found if gradient is not None]
    assert values == [[2], [2], [0], [2]]
    assert far.item() == 1


@pytest.mark.parametrize("count", [1, 3])
def test_rows_of_a_table_are_cleared_before_the_next_step(count: int) -> None:
    """The gradients of an encoder at each step equal the dense gradients of autograd."""

    class Labels(Line):
        def __init__(self) -> None:
            super().__init__()
            config = BertConfig(
                vocab_size=50, num_layers=2, d_model=8, d_ff=12, num_heads=2, head_dim=4, context_length=9, dropout=0.0
            )
            torch.manual_seed(0)
            self.model = BertForSequenceClassification(config, 2)  # type: ignore[assignment]
            self.sparse_embeddings = (self.model.bert.embedding,)  # type: ignore[union-attr]

        def loss(self, indices: Sequence[int]) -> Loss:
            ids = torch.stack([torch.tensor([1, index, (7 * index) % 50]) for index in indices])
            each = self.model(ids).square().mean()
            return Loss(each, each.detach(), len(indices))

    line, plain = Labels(), Labels()
    plain.model.load_state_dict(line.model.state_dict())
    replicas = DataParallel(line, count)  # type: ignore[arg-type]
    for rows in ([3, 4, 5, 6], [10, 11, 12], [3, 40]):
        line.model.train(), plain.model.train()
        replicas.backward([rows], seed=0)
        expected = torch.autograd.grad(plain.loss(rows).train, list(plain.model.parameters()))
        for param, due in zip(line.model.parameters(), expected, strict=True):
            assert param.grad is not None and not param.grad.is_sparse
            torch.testing.assert_close(param.grad, due, atol=1e-6, rtol=1e-5)
    replicas.close()


# --- gradient accumulation ------------------------------------------------------------------------------------


class Exact(Line):
    """In float64 and without noise, so that only the order of sums differs; each example is weighted by its number."""

    def __init__(self) -> None:
        super().__init__()
        self.model.double()

    def loss(self, indices: Sequence[int]) -> Loss:
        self.calls += 1
        self.seen.append(tuple(indices))
        x = torch.tensor([[float(i)] for i in indices], dtype=torch.float64) / 29
        weights = torch.tensor([1.0 + i % 3 for i in indices], dtype=torch.float64)
        value = (weights * (self.model(x) - 3 * x).square().mean(dim=1)).sum() / weights.sum()
        return Loss(value, value.detach(), int(weights.sum()))

    def validation_loss(self) -> float:
        return 1.0


@pytest.mark.parametrize("replicas", [1, 3])
def test_gradients_of_micro_batches_add_up_to_those_of_one_large_batch(replicas: int) -> None:
    whole, parts = Exact(), Exact()
    rows = [3, 28, 5, 0, 11, 7, 2, 9, 13]
    one = DataParallel(whole, 1)
    several = DataParallel(parts, replicas)
    expected = one.backward([rows], seed=0)
    found = several.backward(iter([rows[:2], rows[2:7], rows[7:]]), seed=0)
    several.close()
    assert found.tokens == expected.tokens == sum(1 + i % 3 for i in rows)
    assert found.plain == pytest.approx(expected.plain, rel=1e-12)
    for a, b in zip(whole.model.parameters(), parts.model.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, atol=1e-12, rtol=0)


def test_a_parameter_that_only_some_micro_batches_use() -> None:
    class Two(Exact):
        def __init__(self) -> None:
            super().__init__()
            self.model = nn.ModuleList([nn.Linear(1, 1), nn.Linear(1, 1)]).double()  # type: ignore[assignment]

        def loss(self, indices: Sequence[int]) -> Loss:
            used = {i % 2 for i in indices}
            value = sum(self.model[n](torch.ones(1, 1, dtype=torch.float64)).sum() for n in sorted(used))
            assert isinstance(value, torch.Tensor)
            return Loss(value, value.detach(), len(indices))

    objective = Two()
    DataParallel(objective, 1).backward([[0], [1, 3, 5]], seed=0)
    first, second = (objective.model[n].weight.grad.item() for n in range(2))  # type: ignore[union-attr]
    assert (first, second) == (pytest.approx(0.25), pytest.approx(0.75))


@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
def test_accumulated_batches_train_like_one_large_batch(optimizer: str, tmp_path: Path) -> None:
    class Planned(Exact):
        """28 examples in batches of 7 or 14, always in the same order."""

        def batches(self, plan: BatchPlan, epoch: int) -> list[list[int]]:
            return [list(range(start, start + plan.max_tokens)) for start in range(0, 28, plan.max_tokens)]

    large, small = Planned(), Planned()
    shared = dict(steps=9, optimizer=optimizer, max_grad_norm=0.5)
    state = Trainer(large, config(batch_tokens=14, **shared), tmp_path / "large").fit()
    accumulated = Trainer(small, config(batch_tokens=7, accumulate=2, **shared), tmp_path / "small").fit()
    assert (state.step, state.tokens, state.epoch) == (accumulated.step, accumulated.tokens, accumulated.epoch)
    assert accumulated.train_loss == pytest.approx(state.train_loss, rel=1e-9)
    for a, b in zip(large.model.parameters(), small.model.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("replicas", [1, 3])
def test_a_run_with_accumulation_resumes_bit_for_bit(tmp_path: Path, replicas: int) -> None:
    settings = config(accumulate=3)
    straight = Line()
    Trainer(straight, settings, tmp_path / "straight", replicas=replicas).fit()
    stopped, resumed = Line(), Line()
    stopped.interrupt_at = 8
    with pytest.raises(InterruptedRunError):
        Trainer(stopped, settings, tmp_path / "stopped", replicas=replicas).fit()
    assert Trainer(resumed, settings, tmp_path / "stopped", replicas=replicas).fit(resume=True).step == 23
    assert sorted(stopped.seen + resumed.seen) == sorted(straight.seen)
    for a, b in zip(straight.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_micro_batches_of_a_step_draw_different_random_numbers() -> None:
    seen: list[torch.Tensor] = []

    class Watching(Line):
        def loss(self, indices: Sequence[int]) -> Loss:
            seen.append(dropout(torch.ones(64), 0.5))
            return super().loss(indices)

    DataParallel(Watching(), 1).backward([[1, 2], [1, 2]], seed=5)
    assert not torch.equal(seen[0], seen[1])


# --- evaluation and time --------------------------------------------------------------------------------------


class Clock:
    """A clock that advances only when a test sets it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Timed(Line):
    """An objective whose steps and evaluations take the given number of seconds on a simulated clock."""

    def __init__(self, clock: Clock, *, step: float, evaluation: float) -> None:
        super().__init__()
        self.clock, self.step, self.evaluation = clock, step, evaluation
        self.evaluated: list[float] = []  # when

    def loss(self, indices: Sequence[int]) -> Loss:
        self.clock.now += self.step
        return super().loss(indices)

    def validation_loss(self) -> float:
        self.evaluated.append(self.clock.now - 1000)
        self.clock.now += self.evaluation
        return super().validation_loss()


def test_a_budget_in_minutes(tmp_path: Path) -> None:
    clock = Clock()
    settings = config(steps=None, minutes=0.5, log_every=1)
    state = Trainer(Timed(clock, step=1.0, evaluation=0.0), settings, tmp_path, clock=clock).fit()
    assert (state.step, state.seconds) == (30, 30.0)
    rates = {row["step"]: row["learning_rate"] for row in read_metrics(tmp_path) if row["step"] > 3}
    assert rates == {step: pytest.approx(0.01 * (1 - (step - 1) / 30)) for step in range(4, 31)}, "after the warm-up"


def test_evaluations_take_a_tenth_of_a_time_budget_at_most(tmp_path: Path) -> None:
    clock = Clock()
    task = Timed(clock, step=1.0, evaluation=2.0)
    settings = config(steps=None, minutes=2.0, num_evals=20)
    state = Trainer(task, settings, tmp_path, clock=clock, save_every=1e9).fit()
    assert task.evaluated[0] == 6.0, "the first one is due after a twentieth, and shows how long they take"
    for number, when in enumerate(task.evaluated[1:-1], 2):
        assert 2.0 * number <= 0.1 * when
    assert len(task.evaluated) == 6
    assert task.evaluated[-1] == 120.0, "the last one fits into the tenth"
    assert state.step == 110
    rows = [row["step"] for row in read_metrics(tmp_path) if "validation_loss" in row]
    assert len(rows) == 6 and rows[-1] == 110


def test_a_slow_evaluation_takes_place_once(tmp_path: Path) -> None:
    clock = Clock()
    task = Timed(clock, step=1.0, evaluation=8.0)
    state = Trainer(task, config(steps=None, minutes=1.0, num_evals=10), tmp_path, clock=clock).fit()
    assert task.evaluated == [6.0], "the others would take more than a tenth of the minute"
    assert (state.step, state.eval_step) == (52, 6)


def test_the_last_evaluation_takes_place_if_the_best_weights_are_kept(tmp_path: Path) -> None:
    clock = Clock()
    task = Timed(clock, step=1.0, evaluation=8.0)
    settings = config(steps=None, minutes=1.0, num_evals=10, keep_weights="best")
    Trainer(task, settings, tmp_path, clock=clock).fit()
    assert task.evaluated == [6.0, 60.0]


def test_an_evaluation_that_is_estimated_to_be_slow_waits_until_the_end(tmp_path: Path) -> None:
    clock = Clock()
    task = Timed(clock, step=1.0, evaluation=8.0)
    task.num_validation_targets = 10_000  # three seconds each for the targets of one step
    state = Trainer(task, config(steps=None, minutes=1.0, num_evals=10), tmp_path, clock=clock).fit()
    assert task.evaluated == [60.0]
    assert (state.step, state.eval_step) == (60, 60)


def test_quick_evaluations_take_place_as_planned(tmp_path: Path) -> None:
    clock = Clock()
    task = Timed(clock, step=1.0, evaluation=0.125)
    Trainer(task, config(steps=None, minutes=1.0, num_evals=10), tmp_path, clock=clock).fit()
    assert len(task.evaluated) == 10


def test_evaluations_of_a_number_of_steps_do_not_depend_on_time(tmp_path: Path) -> None:
    clock = Clock()
    task = Timed(clock, step=1.0, evaluation=1000.0)
    Trainer(task, config(steps=20, num_evals=5), tmp_path, clock=clock).fit()
    assert [row["step"] for row in read_metrics(tmp_path) if "validation_loss" in row] == [4, 8, 12, 16, 20]


def test_the_last_evaluation_takes_place_even_if_a_checkpoint_uses_up_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    task = Timed(clock, step=1.0, evaluation=0.0)
    save = Trainer.save

    def slow_save(self: Trainer) -> None:
        clock.now += 30.0
        save(self)

    monkeypatch.setattr(Trainer, "save", slow_save)
    settings = config(steps=None, minutes=1.0, num_evals=1)
    state = Trainer(task, settings, tmp_path, clock=clock, save_every=15.0).fit()
    assert state.step == 25, "the second checkpoint takes the rest of the minute"
    assert [row["step"] for row in read_metrics(tmp_path) if "validation_loss" in row] == [25]


def test_callbacks_see_the_run_in_order(tmp_path: Path) -> None:
    seen: list[str] = []

    class Watching(Callback):
        def on_train_begin(self, trainer: Trainer) -> None:
            seen.append("begin")

        def on_epoch_begin(self, trainer: Trainer) -> None:
            seen.append(f"epoch {trainer.state.epoch}")

        def on_step_end(self, trainer: Trainer) -> None:
            seen.append(f"step {trainer.state.step}")

        def on_evaluate(self, trainer: Trainer, metrics: dict[str, float]) -> None:
            assert not trainer.model.training
            seen.append(f"evaluate {sorted(metrics)}")

        def on_train_end(self, trainer: Trainer) -> None:
            seen.append("end")

        def close(self, trainer: Trainer) -> None:
            seen.append("close")

    class Short(Line):
        def batches(self, plan: BatchPlan, epoch: int) -> list[list[int]]:
            return [[1, 2], [3, 4], [5]]

    Trainer(Short(), config(steps=4, num_evals=1), tmp_path, callbacks=[Watching()]).fit()
    assert seen == [
        "begin", "epoch 0", "step 1", "step 2", "step 3", "epoch 1", "evaluate ['validation_loss']", "step 4", "end",
        "close",
    ]  # fmt: skip
