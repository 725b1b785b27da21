"""metrics.jsonl: no step twice, nothing lost, truncated lines are skipped."""

from __future__ import annotations

from pathlib import Path

from regard.training.callbacks import MetricsLog, read_metrics


def test_resuming_drops_rows_after_the_checkpoint(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path, last_step=0)
    for step in (10, 20, 30):
        log.write({"step": step, "loss": 1.0 / step})
    log.close()
    again = MetricsLog(tmp_path, last_step=20)
    again.write({"step": 30, "loss": 0.5})
    again.close()
    assert [row["step"] for row in read_metrics(tmp_path)] == [10, 20, 30]
    assert read_metrics(tmp_path)[-1]["loss"] == 0.5


def test_a_truncated_line_is_dropped(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": 2.0}\n{"step": 2, "lo', encoding="utf-8")
    assert [row["step"] for row in read_metrics(tmp_path)] == [1]
    log = MetricsLog(tmp_path, last_step=5)
    log.write({"step": 3})
    log.close()
    assert [row["step"] for row in read_metrics(tmp_path)] == [1, 3]


def test_a_new_run_has_no_lines(tmp_path: Path) -> None:
    assert read_metrics(tmp_path) == []
