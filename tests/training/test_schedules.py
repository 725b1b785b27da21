"""Schedules by their formulas, and averages against plain sums."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from regard.tasks.translate.spec import paper_learning_rate
from regard.training.optimizers import SCHEDULES, WeightAverager, lr_factor


@given(st.integers(0, 100_000), st.integers(1, 8000), st.integers(16, 1024))
def test_the_paper_formula(step: int, warmup: int, width: int) -> None:
    """d^-½ · min(n^-½, n · w^-1.5) for the n-th step, counted from 1."""
    n = step + 1
    paper = width**-0.5 * min(n**-0.5, n * warmup**-1.5)
    rate = lr_factor("inverse-square-root", step=step, progress=0.0, warmup_steps=warmup)
    assert math.isclose(rate * paper_learning_rate(width, warmup), paper, rel_tol=1e-9)


@pytest.mark.parametrize("name", ["linear", "cosine", "trapezoid"])
def test_schedules_start_full_and_end_at_zero(name: str) -> None:
    assert SCHEDULES[name](0.0) == 1.0
    assert abs(SCHEDULES[name](1.0)) < 1e-12


@given(st.sampled_from(sorted(SCHEDULES)), st.floats(0, 1), st.floats(0, 1))
def test_schedules_never_rise_and_stay_between_zero_and_one(name: str, a: float, b: float) -> None:
    early, late = sorted((a, b))
    assert 0 <= SCHEDULES[name](late) <= SCHEDULES[name](early) <= 1


def test_warm_up_is_linear() -> None:
    rates = [lr_factor("constant", step=step, progress=0.0, warmup_steps=4) for step in range(6)]
    assert rates == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


def test_linear_from_peak_equals_the_schedule_of_transformers() -> None:
    """The warm-up of transformers starts at zero and ends one step later, so only later steps are compared with it."""
    transformers = pytest.importorskip("transformers")
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, num_warmup_steps=10, num_training_steps=50)
    for step in range(50):
        ours = lr_factor("linear-from-peak", step=step, progress=step / 50, warmup_steps=10, warmed=0.2)
        expected = schedule.get_last_lr()[0] if step >= 10 else (step + 1) / 10
        assert ours == pytest.approx(expected, abs=1e-12)
        optimizer.step()
        schedule.step()


def run(averager: WeightAverager, model: nn.Linear, values: list[float]) -> None:
    for step, value in enumerate(values, start=1):
        nn.init.constant_(model.weight, value)
        averager.update(step, step / len(values))


def test_tail_average_is_the_mean_of_evenly_spaced_snapshots() -> None:
    model = nn.Linear(1, 1, bias=False)
    averager = WeightAverager(model, kind="tail")
    run(averager, model, [float(i) for i in range(1, 101)])
    # progress 0.80, 0.85, 0.90, 0.95 and 1.00 of 100 steps
    assert averager.mean[0].item() == pytest.approx((80 + 85 + 90 + 95 + 100) / 5)
    assert averager.num_snapshots == 5


def test_the_exponential_average_by_hand() -> None:
    model = nn.Linear(1, 1, bias=False)
    averager = WeightAverager(model, kind="ema", decay=0.5)
    expected = model.weight.item()
    for step, value in enumerate([3.0, 5.0, 7.0], start=1):
        weight = max(0.5, 9 / (step + 9))
        expected = expected + weight * (value - expected)
        nn.init.constant_(model.weight, value)
        averager.update(step, 0.0)
    assert averager.mean[0].item() == pytest.approx(expected)


def test_swapping_twice_changes_nothing() -> None:
    model = nn.Linear(3, 2)
    averager = WeightAverager(model, kind="ema")
    nn.init.constant_(model.weight, 2.0)
    averager.update(1, 0.1)
    before = model.weight.clone()
    averager.swap()
    assert torch.equal(model.weight, averager.params[0])
    averager.swap()
    assert torch.equal(model.weight, before)


def test_no_averaging_keeps_the_weights() -> None:
    model = nn.Linear(3, 2)
    averager = WeightAverager(model, kind="none")
    before = model.weight.clone()
    averager.update(1, 1.0)
    averager.swap()
    assert torch.equal(model.weight, before)
