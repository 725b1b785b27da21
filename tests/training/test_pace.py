"""Speed and time left, told with made-up seconds; and what a person reads of them."""

from __future__ import annotations

import pytest

from regard.training import progress
from regard.training.pace import Pace
from regard.training.progress import Lines


def test_the_speed_is_known_from_the_first_step_on() -> None:
    pace = Pace()
    pace.learned(100, 0.5)
    assert pace.speed == 200
    pace.learned(100, 0.25)
    assert pace.speed == pytest.approx(200 / 0.75)


def test_validating_and_saving_do_not_slow_learning_down() -> None:
    pace = Pace()
    for _ in range(8):
        pace.learned(100, 0.25)
        pace.validated(60.0)
        pace.saved(30.0)
        assert pace.speed == 400


def test_the_speed_is_that_of_the_last_second() -> None:
    pace = Pace()
    for _ in range(4):
        pace.learned(100, 0.25)
    pace.learned(10, 0.5)
    assert pace.speed == 400, "half a second more is not enough to tell"
    pace.learned(10, 0.5)
    assert pace.speed == 20


def test_the_time_that_is_left_counts_everything() -> None:
    pace = Pace()
    pace.learned(100, 5.0)  # the first step is no measure for the others
    assert pace.left(steps=2, validations=0) == 10
    pace.learned(100, 1.0)
    pace.learned(100, 3.0)
    assert pace.left(steps=10, validations=3) == 20
    pace.validated(7.0)
    pace.validated(9.0)
    assert pace.left(steps=10, validations=3) == 20 + 3 * 8
    pace.saved(1.5)
    assert pace.left(steps=10, validations=-1) == 10 * (2 + 0.5)
    assert pace.left(steps=0, validations=0) == 0


def test_the_first_line_waits_until_there_is_something_to_say(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr(progress.time, "perf_counter", lambda: now)
    lines = Lines(every=15.0, first=2.0)

    def said(at: float, share: float = 0.5) -> str:
        nonlocal now
        now = at
        lines.update(progress=share, step=7, loss=1.25, speed="1,234 tokens/s", left=61.0)
        return capsys.readouterr().err

    assert said(100.0) == said(101.9) == ""
    assert said(102.0) == "step 7   50%  loss 1.250  1,234 tokens/s  1:01 left\n"
    assert said(116.9) == ""
    assert said(117.0) != ""
    assert said(117.1, share=1.0) != "", "the last step is always told"
