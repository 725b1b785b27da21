"""Speed and remaining time with simulated seconds, and the progress lines that show them."""

from __future__ import annotations

import pytest

from regard.training import callbacks
from regard.training.callbacks import LineProgress, Throughput


def test_the_speed_is_known_from_the_first_step_on() -> None:
    throughput = Throughput()
    throughput.record_step(100, 0.5)
    assert throughput.speed == 200
    throughput.record_step(100, 0.25)
    assert throughput.speed == pytest.approx(200 / 0.75)


def test_evaluations_and_saving_do_not_lower_the_speed() -> None:
    throughput = Throughput()
    for _ in range(8):
        throughput.record_step(100, 0.25)
        throughput.record_eval(60.0)
        throughput.record_save(30.0)
        assert throughput.speed == 400


def test_the_speed_is_that_of_the_last_second() -> None:
    throughput = Throughput()
    for _ in range(4):
        throughput.record_step(100, 0.25)
    throughput.record_step(10, 0.5)
    assert throughput.speed == 400, "half a second more is not enough to tell"
    throughput.record_step(10, 0.5)
    assert throughput.speed == 20


def test_the_remaining_time_includes_evaluations_and_saving() -> None:
    throughput = Throughput()
    throughput.record_step(100, 5.0)  # the first step is no measure for the others
    assert throughput.time_left(steps=2, num_evals=0) == 10
    throughput.record_step(100, 1.0)
    throughput.record_step(100, 3.0)
    assert throughput.time_left(steps=10, num_evals=3) == 20
    throughput.record_eval(7.0)
    throughput.record_eval(9.0)
    assert throughput.time_left(steps=10, num_evals=3) == 20 + 3 * 8
    throughput.record_save(1.5)
    assert throughput.time_left(steps=10, num_evals=-1) == 10 * (2 + 0.5)
    assert throughput.time_left(steps=0, num_evals=0) == 0


def test_the_first_progress_line_comes_after_two_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr(callbacks.time, "perf_counter", lambda: now)
    lines = LineProgress(every=15.0, first=2.0)

    def said(at: float, share: float = 0.5) -> str:
        nonlocal now
        now = at
        lines.update(progress=share, step=7, loss=1.25, speed="1,234 tokens/s", time_left=61.0)
        return capsys.readouterr().err

    assert said(100.0) == said(101.9) == ""
    assert said(102.0) == "step 7   50%  loss 1.250  1,234 tokens/s  1:01 left\n"
    assert said(116.9) == ""
    assert said(117.0) != ""
    assert said(117.1, share=1.0) != "", "the last step is always shown"
