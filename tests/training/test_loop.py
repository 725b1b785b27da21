"""The loop on a task of ten numbers: budgets, validation, divergence, interruption, exact resume."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import nn

from regard.checkpoint.training_state import last_good_checkpoint
from regard.data.batches import BatchPlan
from regard.errors import DivergenceError, UsageError
from regard.metrics.translation import Score
from regard.models.bert import BertForSequence
from regard.models.bert_settings import BertConfig
from regard.nn.dropout import dropout
from regard.tasks.task import FolderContents, Loss, Sample
from regard.training.loop import InterruptedRunError, Trainer
from regard.training.metrics_log import read_metrics
from regard.training.progress import Silent
from regard.training.replicas import Replicas, unshared
from regard.training.settings import TrainingConfig


class Listening(Silent):
    def __init__(self, said: list[str]) -> None:
        self.said = said

    def say(self, message: str) -> None:
        self.said.append(message)


class Line:
    """Fit y = 3x with noise from the step's own random numbers: a task that shows whether those repeat."""

    name = "line"
    summary = ""
    data = ()
    counted = "tokens"
    perplexes = True

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

    def evaluate(self) -> tuple[list[Score], list[Sample]]:
        return [], []

    def contents(self) -> FolderContents:
        return FolderContents(config={})


def test_replicas_add_up_to_the_gradient_of_the_whole_batch() -> None:
    class Still(Line):
        def loss(self, indices: Sequence[int]) -> Loss:
            x = torch.tensor([[float(i)] for i in indices], dtype=torch.float64) / 29
            value = (self.model(x) - 3 * x).square().mean()
            return Loss(value, value.detach(), len(indices))

    whole, split = Still(), Still()
    whole.model.double(), split.model.double()
    rows = [3, 28, 5, 0, 11, 7, 2]
    one, three = Replicas(whole, 1).backward(rows, seed=0), Replicas(split, 3).backward(rows, seed=0)
    assert one.tokens == three.tokens == 7
    assert one.plain == pytest.approx(three.plain, rel=1e-12)
    for a, b in zip(whole.model.parameters(), split.model.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, atol=1e-12, rtol=0)


def test_each_replica_computes_with_one_thread_and_leaves_the_others_theirs() -> None:
    seen: list[int] = []

    class Watching(Line):
        def loss(self, indices: Sequence[int]) -> Loss:
            seen.append(torch.get_num_threads())
            return super().loss(indices)

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        replicas = Replicas(Watching(), 2)
        for _ in range(3):
            replicas.backward(range(6), seed=0)
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


def test_a_run_learns_and_leaves_its_metrics(tmp_path: Path) -> None:
    task = Line()
    before = task.validation_loss()
    position = Trainer(task, config(steps=200), tmp_path).run()
    assert position.step == 200
    assert task.validation_loss() < before / 2
    rows = read_metrics(tmp_path)
    steps = [row["step"] for row in rows]
    assert steps == sorted(set(steps))
    assert steps[-1] == 200
    assert sum("validation_loss" in row for row in rows) == 10
    assert all({"loss", "learning_rate", "seconds"} <= row.keys() for row in rows)
    assert all(row["tokens_per_second"] > 0 for row in rows)


@pytest.mark.parametrize("averaging", ["none", "exponential", "tail"])
@pytest.mark.parametrize(("optimiser", "replicas"), [("muon", 1), ("adamw", 1), ("muon", 3)])
def test_resumed_equals_uninterrupted_bit_for_bit(
    tmp_path: Path, optimiser: str, averaging: str, replicas: int
) -> None:
    settings = config(optimiser=optimiser, averaging=averaging)
    straight = Line()
    Trainer(straight, settings, tmp_path / "straight", replicas=replicas).run()
    for stop in (1, 7, 19):
        run = tmp_path / f"stopped-{stop}"
        stopped = Line()
        stopped.interrupt_at = stop
        with pytest.raises(InterruptedRunError, match="resume=True"):
            Trainer(stopped, settings, run, replicas=replicas).run()
        checkpoint = last_good_checkpoint(run)
        assert checkpoint is not None
        resumed = Line()
        position = Trainer(resumed, settings, run, replicas=replicas).run(resume=True)
        assert position.step == 23
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
        Trainer(task, config(), tmp_path).run()
    assert caught.value.exit_code == 130
    assert task.calls == 4
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_nan_stops_with_the_last_good_weights(tmp_path: Path) -> None:
    with pytest.raises(
        DivergenceError, match=r"(?s)nan at step 11.*learning rate.*weights of step 11 are kept.*steps=11"
    ):
        Trainer(Line(spoil_at=12), config(), tmp_path, save_every=1e-9).run()
    checkpoint = last_good_checkpoint(tmp_path)
    assert checkpoint is not None
    assert all(tensor.isfinite().all() for tensor in checkpoint.tensors.values())


@pytest.mark.parametrize("clip", [0.0, 1.0])
def test_a_gradient_that_is_not_finite_never_reaches_the_weights(clip: float, tmp_path: Path) -> None:
    task = Line()
    calls = 0

    def spoil(gradient: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return gradient * float("nan") if calls == 8 else gradient

    task.model[0].weight.register_hook(spoil)
    with pytest.raises(DivergenceError, match=r"the gradient became nan at step 7.*weights of step 7 are kept"):
        Trainer(task, config(clip=clip), tmp_path, save_every=1e-9).run()
    checkpoint = last_good_checkpoint(tmp_path)
    assert checkpoint is not None
    assert all(tensor.isfinite().all() for tensor in checkpoint.tensors.values())


def test_no_checkpoint_of_a_loss_that_runs_away_replaces_a_good_one(tmp_path: Path) -> None:
    with pytest.raises(DivergenceError, match="rose from"):
        Trainer(Line(worse_from=20), config(steps=500), tmp_path, save_every=1e-9).run()
    checkpoint = last_good_checkpoint(tmp_path)
    assert checkpoint is not None
    assert checkpoint.step <= 21


def test_a_loss_that_runs_away_stops_the_run(tmp_path: Path) -> None:
    with pytest.raises(DivergenceError, match="rose from"):
        Trainer(Line(worse_from=20), config(steps=500), tmp_path).run()


def test_minutes_are_a_budget_too(tmp_path: Path) -> None:
    position = Trainer(Line(), config(steps=None, minutes=0.01), tmp_path).run()
    assert 0.6 <= position.seconds < 3
    rows = [row for row in read_metrics(tmp_path) if row["step"] > 3]
    rates = [row["learning_rate"] for row in rows]
    assert rates == sorted(rates, reverse=True), "after the warm-up the rate falls with the clock"
    assert all(row["learning_rate"] >= 0.01 * (1 - row["seconds"] / 0.6) - 1e-4 for row in rows)


def test_resume_refuses_other_settings_but_takes_a_longer_budget(tmp_path: Path) -> None:
    Trainer(Line(), config(), tmp_path).run()
    with pytest.raises(UsageError, match=r"learning_rate was 0\.01, is 0\.5"):
        Trainer(Line(), config(learning_rate=0.5), tmp_path).run(resume=True)
    assert Trainer(Line(), config(steps=30), tmp_path).run(resume=True).step == 30


@pytest.mark.parametrize("averaging", ["none", "exponential", "tail"])
def test_a_longer_budget_changes_the_weights_and_is_validated(averaging: str, tmp_path: Path) -> None:
    first, second = Line(), Line()
    Trainer(first, config(steps=20, averaging=averaging, validations=4), tmp_path).run()
    Trainer(second, config(steps=60, averaging=averaging, validations=4), tmp_path).run(resume=True)
    assert not torch.equal(first.model[0].weight, second.model[0].weight)
    validated = [row["step"] for row in read_metrics(tmp_path) if "validation_loss" in row]
    assert validated == [5, 10, 15, 20, 30, 45, 60]


def test_other_threads_are_remarked_on_but_do_not_stop_a_resumed_run(tmp_path: Path) -> None:
    Trainer(Line(), config(steps=5), tmp_path).run()
    said: list[str] = []
    trainer = Trainer(Line(), config(steps=8), tmp_path)
    trainer.machine["threads"] = 99
    trainer.progress = Listening(said)
    trainer.run(resume=True)
    assert any("is 99: sums round differently" in line for line in said)
    assert not any("torch was" in line for line in said)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(minutes=1.0), "not both"),
        (dict(steps=0), "steps must be at least 1"),
        (dict(steps=None, minutes=-1.0), "minutes must be more than 0"),
        (dict(learning_rate=0.0), "learning_rate must be more than 0"),
        (dict(batch_tokens=0), "batch_tokens must be at least 1"),
        (dict(label_smoothing=1.0), "label_smoothing must be at least 0 and below 1"),
        (dict(clip=-1.0), "clip must not be negative"),
    ],
)
def test_bad_settings_are_named(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        config(**changes)


def test_a_run_needs_a_budget(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="budget"):
        Trainer(Line(), config(steps=None), tmp_path)


class Scripted(Line):
    """A task whose validation losses are written down beforehand."""

    def __init__(self, *losses: float) -> None:
        super().__init__()
        self.losses = iter(losses)
        self.weights: list[torch.Tensor] = []

    def validation_loss(self) -> float:
        self.weights.append(self.model[0].weight.detach().clone())
        return next(self.losses)


def test_m150_the_best_weights_are_kept(tmp_path: Path) -> None:
    best, last = Scripted(3.0, 1.0, 2.0, 4.0), Scripted(3.0, 1.0, 2.0, 4.0)
    shared = dict(steps=20, validations=4, averaging="none")
    position = Trainer(best, config(keep="best", **shared), tmp_path / "best").run()
    Trainer(last, config(**shared), tmp_path / "last").run()
    assert (position.lowest, position.lowest_step, position.since_lowest, position.step) == (1.0, 10, 2, 20)
    assert torch.equal(best.model[0].weight, best.weights[1])
    assert torch.equal(last.model[0].weight, last.weights[3])
    assert not torch.equal(best.weights[1], best.weights[3])


def test_m150_patience_ends_a_training_early(tmp_path: Path) -> None:
    task = Scripted(3.0, 1.0, 2.0, 1.5, 0.5)
    position = Trainer(task, config(steps=20, validations=5, patience=2, keep="best"), tmp_path).run()
    assert position.step == 16
    assert position.lowest_step == 8


def test_m150_the_best_weights_survive_a_resume(tmp_path: Path) -> None:
    shared = dict(steps=20, validations=4, averaging="none", keep="best")
    first = Scripted(3.0, 1.0)
    first.interrupt_at = 12
    with pytest.raises(InterruptedRunError):
        Trainer(first, config(**shared), tmp_path).run()
    second = Scripted(2.0, 4.0)
    Trainer(second, config(**shared), tmp_path).run(resume=True)
    assert torch.equal(second.model[0].weight, first.weights[1])


def test_m150_overfitting_is_said_in_words(tmp_path: Path) -> None:
    def flagged(name: str, *losses: float, **changes: object) -> str:
        trainer = Trainer(Scripted(*losses), config(steps=20, validations=len(losses), **changes), tmp_path / name)
        trainer.run()
        return trainer.overfitting()

    said = flagged("bad", 90.0, 80.0, 95.0)
    assert said.startswith("overfitting: the validation loss rose from 80.0000 at step 14 to 95.0000, while the")
    assert "--keep best" in said
    assert "are kept" in flagged("kept", 90.0, 80.0, 95.0, keep="best")
    best = Trainer(Scripted(90.0, 80.0, 95.0), config(steps=20, validations=3, keep="best"), tmp_path / "best")
    last = Trainer(Scripted(90.0, 80.0, 95.0), config(steps=20, validations=3), tmp_path / "last")
    best.run()
    last.run()
    assert best.kept().startswith("kept: the weights of step 14, whose validation loss was the lowest")
    assert last.kept() == ""
    gap = flagged("good", 90.0, 80.0, 81.0)
    assert gap.startswith("gap: the training loss is ") and "the validation loss 81.0000" in gap
    assert flagged("slow", 0.0001, 0.00012) == "", "the training loss is above it, too"


def test_a_loss_of_labels_has_no_perplexity(tmp_path: Path) -> None:
    for perplexes in (True, False):
        said: list[str] = []
        task = Line()
        task.perplexes = perplexes
        Trainer(task, config(steps=2, validations=1), tmp_path / str(perplexes), progress=Listening(said)).run()
        assert [", perplexity " in line for line in said if "validation loss" in line] == [perplexes]


def test_what_else_is_measured_is_logged_from_the_start(tmp_path: Path) -> None:
    measured = iter([5.0, 6.0, 7.0])
    Trainer(Line(), config(steps=20, validations=2), tmp_path, also=lambda: {"known": next(measured)}).run()
    assert [(row["step"], row["known"]) for row in read_metrics(tmp_path) if "known" in row] == [
        (0, 5),
        (10, 6),
        (20, 7),
    ]


def test_a_patience_that_is_none() -> None:
    with pytest.raises(UsageError, match="patience must not be negative"):
        config(patience=-1)
    with pytest.raises(UsageError, match="unknown keep 'bset'"):
        config(keep="bset")


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
    """The gradients of an encoder, step after step, as autograd gives them for the whole table."""

    class Labels(Line):
        def __init__(self) -> None:
            super().__init__()
            config = BertConfig(
                vocab_size=50, layers=2, width=8, hidden=12, heads=2, head_width=4, context=9, dropout=0.0
            )
            torch.manual_seed(0)
            self.model = BertForSequence(config, 2)  # type: ignore[assignment]

        def loss(self, indices: Sequence[int]) -> Loss:
            ids = torch.stack([torch.tensor([1, index, (7 * index) % 50]) for index in indices])
            each = self.model(ids).square().mean()
            return Loss(each, each.detach(), len(indices))

    line, plain = Labels(), Labels()
    plain.model.load_state_dict(line.model.state_dict())
    replicas = Replicas(line, count)  # type: ignore[arg-type]
    for rows in ([3, 4, 5, 6], [10, 11, 12], [3, 40]):
        line.model.train(), plain.model.train()
        replicas.backward(rows, seed=0)
        expected = torch.autograd.grad(plain.loss(rows).train, list(plain.model.parameters()))
        for param, due in zip(line.model.parameters(), expected, strict=True):
            assert param.grad is not None and not param.grad.is_sparse
            torch.testing.assert_close(param.grad, due, atol=1e-6, rtol=1e-5)
    replicas.close()
