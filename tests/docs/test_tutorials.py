"""The tutorials run from top to bottom, with a short training in place of a long one."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TUTORIAL = ROOT / "docs" / "tutorials" / "build_a_gpt.py"


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TUTORIAL_STEPS", "12")
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))  # nothing there: the stories of the built-in world


@pytest.mark.usefixtures("short")
def test_m164_from_characters_to_a_model_that_writes(capsys: pytest.CaptureFixture[str]) -> None:
    made = runpy.run_path(str(TUTORIAL))
    said = capsys.readouterr().out
    assert made["gpt_loss"] < made["bigram_loss"] < made["first_loss"]
    assert "never before it" in said
    assert "position 7: given" in said
    difference = float(said.split("regard's attend differs by ")[1].split()[0])
    assert difference < 1e-5
    assert len(made["write"](made["gpt"], "The", 7)) == 10


def test_m164_it_stays_readable() -> None:
    lines = TUTORIAL.read_text(encoding="utf-8").splitlines()
    assert len(lines) < 400
    assert sum(line.startswith("# %%") for line in lines) >= 12
